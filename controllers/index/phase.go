package index

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// Phase finds the backups that wait for a place, and those that run, among thousands that have ended. A backup is held that
// waits for something else, and would only take a place from others.
const (
	Phase   = "phase"
	Waiting = "waiting"
	Held    = "held"
	Running = "running"
)

// PhaseOf a backup is Waiting, Held, Running, or nothing where it needs no place any more.
func PhaseOf(backup *v1alpha1.DatabaseBackup) string {
	switch {
	case !backup.DeletionTimestamp.IsZero() || flow.Ended(backup):
		return ""
	case backup.Status.StartTime != nil:
		return Running
	case flow.ReasonOf(backup, v1alpha1.ConditionReady) == v1alpha1.ReasonWaitingForRestore:
		return Held
	}
	return Waiting
}

func phase(object client.Object) []string {
	if backup, ok := object.(*v1alpha1.DatabaseBackup); ok && PhaseOf(backup) != "" {
		return []string{PhaseOf(backup)}
	}
	return nil
}

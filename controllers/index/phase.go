package index

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// Phase finds the backups that wait for a place, and those that run, among thousands that have ended.
const (
	Phase   = "phase"
	Waiting = "waiting"
	Running = "running"
)

// PhaseOf a backup is Waiting, Running, or nothing where it needs no place (any more). A safety backup does not wait: the
// restore that it belongs to is at work already.
func PhaseOf(backup *v1alpha1.DatabaseBackup) string {
	switch {
	case !backup.DeletionTimestamp.IsZero() || flow.Ended(backup):
		return ""
	case backup.Status.StartTime != nil:
		return Running
	case isSafetyBackup(backup):
		return ""
	}
	return Waiting
}

func isSafetyBackup(backup *v1alpha1.DatabaseBackup) bool {
	owner := metav1.GetControllerOfNoCopy(backup)
	return owner != nil && owner.Kind == "DatabaseRestore" && strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/")
}

func phase(object client.Object) []string {
	if backup, ok := object.(*v1alpha1.DatabaseBackup); ok && PhaseOf(backup) != "" {
		return []string{PhaseOf(backup)}
	}
	return nil
}

// Package index holds how the manager's cache finds objects by more than their names, so that a reconciler's question costs
// as much as its answer and not as much as all there is.
package index

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Schedule finds the backups of a BackupSchedule by its UID.
const Schedule = "schedule-uid"

// Index is one way to find objects.
type Index struct {
	Object client.Object
	Field  string
	Of     client.IndexerFunc
}

// All are those that the reconcilers ask.
func All() []Index {
	return []Index{
		{&v1alpha1.DatabaseBackup{}, Schedule, scheduleUID},
		{&v1alpha1.DatabaseBackup{}, Phase, phase},
	}
}

func scheduleUID(backup client.Object) []string {
	if uid := backup.GetLabels()[v1alpha1.LabelSchedule]; uid != "" {
		return []string{uid}
	}
	return nil
}

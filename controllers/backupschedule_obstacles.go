package controllers

import (
	"cmp"
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/engine"
)

// obstacle is what a run waits for.
type obstacle struct{ reason, text string }

// obstacle looks for what is in the way of a run. Under Replace it takes it out of the way, which takes a moment. A run whose
// backup is there already, because an earlier look was broken off, has none: least of all itself.
func (w *scheduleWork) obstacle(ctx context.Context, name string) (*obstacle, error) {
	if w.has(name) {
		return nil, nil
	}
	restore, err := w.restoreAtWork(ctx)
	if err != nil {
		return nil, err
	}
	if restore != nil {
		return isWrittenInto(restore), nil
	}
	active := w.active()
	if len(active) == 0 || w.object.Spec.ConcurrencyPolicy == v1alpha1.ConcurrencyAllow {
		return nil, nil
	}
	if w.object.Spec.ConcurrencyPolicy == v1alpha1.ConcurrencyReplace {
		return w.replace(ctx, active)
	}
	return &obstacle{v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("DatabaseBackup %s has not ended (%s), and spec.concurrencyPolicy is Forbid",
		active[0].Name, cmp.Or(flow.ReasonOf(active[0], v1alpha1.ConditionReady), v1alpha1.ReasonPending))}, nil
}

// replace cancels the backups at work; the run starts when they are gone. One that was asked for by hand is waited for:
// nobody would ask for it again.
func (w *scheduleWork) replace(ctx context.Context, active []*v1alpha1.DatabaseBackup) (*obstacle, error) {
	for _, backup := range active {
		if has(backup, v1alpha1.AnnotationRunNow) {
			return &obstacle{v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("DatabaseBackup %s, which was asked for by hand, has not ended", backup.Name)}, nil
		}
	}
	for _, backup := range active {
		if !stays(backup) {
			continue
		}
		// Not if it became Ready a moment ago.
		if err := w.remove(ctx, backup, client.Preconditions{UID: &backup.UID, ResourceVersion: &backup.ResourceVersion}); err != nil {
			return nil, err
		}
		w.warnf(v1alpha1.ReasonBackupReplaced, "DatabaseBackup %s was cancelled before it was Ready: the next run is due, and "+
			"spec.concurrencyPolicy is Replace", backup.Name)
	}
	return &obstacle{v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("DatabaseBackup %s is being cancelled", active[0].Name)}, nil
}

// remove deletes a backup's object, if it is still as the preconditions say.
func (w *scheduleWork) remove(ctx context.Context, backup *v1alpha1.DatabaseBackup, same client.Preconditions) error {
	if err := client.IgnoreNotFound(w.Client.Delete(ctx, backup.DeepCopy(), same)); err != nil {
		return fmt.Errorf("deleting DatabaseBackup %s/%s: %w", backup.Namespace, backup.Name, err)
	}
	return nil
}

// restoreAtWork returns a restore that writes, or is about to write, into databases that this schedule backs up.
func (w *scheduleWork) restoreAtWork(ctx context.Context) (*v1alpha1.DatabaseRestore, error) {
	return w.restoreInto(ctx, targetOf(w.object.Namespace, w.object.Spec.Template.Spec.Database))
}

// restoreInto returns a restore that writes, or is about to write, into databases of a target. One that has not shown by its
// inspection that it may do so counts for nothing: nobody is to hold up a backup with an object alone.
func (c Common) restoreInto(ctx context.Context, target schedule.Target) (*v1alpha1.DatabaseRestore, error) {
	list, err := c.unfinishedRestores(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if restore := &list[i]; hadTurn(restore) && schedule.Overlaps(target, targetOf(restore.Namespace, restore.Spec.Database)) {
			return restore, nil
		}
	}
	return nil, nil
}

// unfinishedRestores are those of all namespaces: a server and an artifact may be named from another one. They are the
// cache's own: not to be changed.
func (c Common) unfinishedRestores(ctx context.Context) ([]v1alpha1.DatabaseRestore, error) {
	list := &v1alpha1.DatabaseRestoreList{}
	if err := c.Client.List(ctx, list, client.MatchingFields{index.AtWork: index.Yes}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the DatabaseRestores that have not ended: %w", err)
	}
	return list.Items, nil
}

// isWrittenInto says why a backup is not begun.
func isWrittenInto(by *v1alpha1.DatabaseRestore) *obstacle {
	return &obstacle{v1alpha1.ReasonWaitingForRestore, fmt.Sprintf(
		"DatabaseRestore %s/%s writes into this database, and a half restored one is not backed up over good backups", by.Namespace, by.Name)}
}

// targetOf is the server and the databases that a spec names, for comparison with another's.
func targetOf(namespace string, database v1alpha1.DatabaseSpec) schedule.Target {
	return schedule.Target{
		Engine: engine.Name(database.Engine), Namespace: namespace, Host: database.Host, Port: database.Port,
		Databases: databaseNames(database),
	}
}

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

const (
	// maxDeleting is how many backups of one store retention deletes at a time: where the store is away, Jobs must not pile
	// up, and where a schedule has moved to another one, the old one must hold nothing up.
	maxDeleting = 5
	// maxListed is how many backups status names in a list of retention.
	maxListed = 20
)

// retain deletes what is kept neither by a rule nor by a limit, and says what comes next.
func (w *scheduleWork) retain(ctx context.Context) error {
	if err := w.limitFailed(ctx); err != nil {
		return err
	}
	ready := w.readyOnes()
	rules := rulesOf(w.object.Spec.Retention)
	status := &w.object.Status.Retention
	if rules.Empty() {
		*status = v1alpha1.RetentionStatus{Kept: int32(len(ready))}
		return w.limitHistory(ctx, ready)
	}
	expired, err := w.unneeded(ctx, w.expired(rules, ready, w.now))
	if err != nil {
		return err
	}
	deleted, err := w.expire(ctx, expired)
	status.Kept = int32(len(ready) - len(expired))
	status.Waiting = int32(len(expired) - len(deleted))
	status.Deleting = references(append(w.being(), deleted...), maxListed)
	status.Next = references(w.next(rules, ready, expired), maxListed)
	return err
}

func rulesOf(spec v1alpha1.RetentionSpec) schedule.Rules {
	return schedule.Rules{
		Last: int(spec.KeepLast), Hourly: int(spec.KeepHourly), Daily: int(spec.KeepDaily), Weekly: int(spec.KeepWeekly),
		Monthly: int(spec.KeepMonthly), Yearly: int(spec.KeepYearly), Within: durationOr(spec.KeepWithin, 0),
	}
}

// being are the backups that retention is deleting.
func (w *scheduleWork) being() []*v1alpha1.DatabaseBackup {
	return w.those(func(backup *v1alpha1.DatabaseBackup) bool {
		return expired(backup) && !stays(backup)
	})
}

// retentionStuck says what keeps retention from deleting backups that no rule keeps: their store, as a rule.
func (w *scheduleWork) retentionStuck() *obstacle {
	var stuck []*v1alpha1.DatabaseBackup
	for _, backup := range w.being() {
		if removalTrouble(backup) != "" {
			stuck = append(stuck, backup)
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return &obstacle{v1alpha1.ReasonRetentionStuck, fmt.Sprintf("of the backups that no rule of spec.retention keeps, %d could not be "+
		"deleted so far. DatabaseBackup %s: %s", len(stuck), stuck[0].Name, removalTrouble(stuck[0]))}
}

// expired are those of the Ready backups that no rule keeps, the oldest first, at a time and beside backups still to come.
func (w *scheduleWork) expired(rules schedule.Rules, ready []*v1alpha1.DatabaseBackup, now time.Time, more ...schedule.Backup) []*v1alpha1.DatabaseBackup {
	byName := make(map[string]*v1alpha1.DatabaseBackup, len(ready))
	considered := more
	for _, backup := range ready {
		byName[backup.Name] = backup
		considered = append(considered, schedule.Backup{Name: backup.Name, Time: takenAt(backup)})
	}
	_, gone := schedule.Keep(rules, w.calendar.Zone(), considered, now)
	var expired []*v1alpha1.DatabaseBackup
	for _, one := range slices.Backward(gone) {
		if backup := byName[one.Name]; backup != nil {
			expired = append(expired, backup)
		}
	}
	return expired
}

// next are the backups that the next run's success lets expire.
func (w *scheduleWork) next(rules schedule.Rules, ready, expired []*v1alpha1.DatabaseBackup) []*v1alpha1.DatabaseBackup {
	at := w.object.Status.NextScheduleTime
	if at == nil {
		return nil
	}
	gone := w.expired(rules, ready, at.Time, schedule.Backup{Time: at.Time})
	return slices.DeleteFunc(gone, func(backup *v1alpha1.DatabaseBackup) bool { return slices.Contains(expired, backup) })
}

// unneeded leaves out the backups that a restore at work reads from.
func (w *scheduleWork) unneeded(ctx context.Context, expired []*v1alpha1.DatabaseBackup) ([]*v1alpha1.DatabaseBackup, error) {
	if len(expired) == 0 {
		return nil, nil
	}
	restores, err := w.unfinishedRestores(ctx)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for i := range restores {
		restore := &restores[i]
		// In another namespace, one that has shown that it may read what it names.
		if restore.Namespace == w.object.Namespace || hadTurn(restore) {
			needed[restore.Spec.Source.URL] = true
		}
		if name := restore.Spec.Source.BackupRef.Name; name != "" && restore.Namespace == w.object.Namespace {
			needed[name] = true
		}
	}
	var free []*v1alpha1.DatabaseBackup
	for _, backup := range expired {
		if needed[backup.Name] || needed[backup.Status.URL] {
			w.wakeIn(time.Minute)
			continue
		}
		free = append(free, backup)
	}
	return free, nil
}

// expire deletes backups through their objects, a few at a time, and returns those. The end of one causes another look.
func (w *scheduleWork) expire(ctx context.Context, expired []*v1alpha1.DatabaseBackup) ([]*v1alpha1.DatabaseBackup, error) {
	deleting := map[v1alpha1.S3Bucket]int{}
	for _, backup := range w.being() {
		deleting[storeOfBackup(backup)]++
	}
	var deleted []*v1alpha1.DatabaseBackup
	for _, backup := range expired {
		store := storeOfBackup(backup)
		if deleting[store] >= maxDeleting {
			continue
		}
		if err := w.marked(ctx, backup, v1alpha1.AnnotationExpired); err != nil {
			return deleted, err
		}
		deleting[store]++
		deleted = append(deleted, backup)
		w.tellf(v1alpha1.ReasonExpired, "DatabaseBackup %s is deleted: no rule of spec.retention keeps it. %s", backup.Name, goesToo(backup))
	}
	return deleted, nil
}

// goesToo says what becomes of that which lies in the store.
func goesToo(backup *v1alpha1.DatabaseBackup) string {
	if backup.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		return "Its artifact and its snapshots go too (deletionPolicy Delete)"
	}
	return "Its artifact stays at " + backup.Status.URL + " (deletionPolicy Retain)"
}

// storeOfBackup tells stores apart, and the ways to them.
func storeOfBackup(backup *v1alpha1.DatabaseBackup) v1alpha1.S3Bucket {
	store := *backup.Spec.Storage.S3
	store.ForcePathStyle = nil
	return store
}

// marked deletes a backup whose annotation says how. It fails when the backup is not the one that was looked at any more.
func (w *scheduleWork) marked(ctx context.Context, seen *v1alpha1.DatabaseBackup, annotation string) error {
	backup := seen.DeepCopy()
	before := seen.DeepCopy()
	backup.Annotations = merged(backup.Annotations)
	// A manager that was killed between this and the deletion may have said otherwise, under another spec.
	delete(backup.Annotations, v1alpha1.AnnotationExpired)
	delete(backup.Annotations, v1alpha1.AnnotationForget)
	backup.Annotations[annotation] = w.now.UTC().Format(time.RFC3339)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, backup, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("marking DatabaseBackup %s/%s: %w", backup.Namespace, backup.Name, err))
	}
	return w.remove(ctx, backup, client.Preconditions{UID: &backup.UID})
}

// limitFailed deletes the failed backups beyond failedHistoryLimit; nothing of them lies in the store.
func (w *scheduleWork) limitFailed(ctx context.Context) error {
	failed := w.those(func(backup *v1alpha1.DatabaseBackup) bool { return isStalled(backup) && stays(backup) })
	limit := int(ptr.Deref(w.object.Spec.FailedHistoryLimit, 3))
	for _, backup := range failed[:max(0, len(failed)-limit)] {
		if err := w.remove(ctx, backup, client.Preconditions{UID: &backup.UID}); err != nil {
			return err
		}
	}
	return nil
}

// limitHistory forgets the oldest objects where no rule says which backups to keep. What lies in the store stays.
func (w *scheduleWork) limitHistory(ctx context.Context, ready []*v1alpha1.DatabaseBackup) error {
	limit := int(cmp.Or(w.object.Spec.HistoryLimit, 100))
	for _, backup := range ready[:max(0, len(ready)-limit)] {
		if err := w.marked(ctx, backup, v1alpha1.AnnotationForget); err != nil {
			return err
		}
		w.tellf(v1alpha1.ReasonForgotten, "the object of DatabaseBackup %s is deleted (spec.historyLimit is %d, and spec.retention has "+
			"no rule); its artifact stays at %s", backup.Name, limit, backup.Status.URL)
	}
	return nil
}

package controllers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// This file reads from a schedule's backups how the schedule stands. Metrics are computed from the status it writes.

// maxActive is how many backups at work status names.
const maxActive = 100

// takenAt is the time that a backup counts for: its slot in the calendar, or when it was asked for.
func takenAt(backup *v1alpha1.DatabaseBackup) time.Time {
	if slot, err := time.Parse(time.RFC3339, backup.Annotations[v1alpha1.AnnotationSlot]); err == nil {
		return slot
	}
	return backup.CreationTimestamp.Time
}

// byAge compares two backups: the older first.
func byAge(a, b *v1alpha1.DatabaseBackup) int {
	return cmp.Or(takenAt(a).Compare(takenAt(b)), strings.Compare(a.Name, b.Name))
}

func isReady(backup *v1alpha1.DatabaseBackup) bool {
	return flow.IsTrue(backup, v1alpha1.ConditionReady)
}

func isStalled(backup *v1alpha1.DatabaseBackup) bool {
	return flow.IsTrue(backup, v1alpha1.ConditionStalled)
}

// those returns the schedule's backups that are as asked, the oldest first.
func (w *scheduleWork) those(are func(*v1alpha1.DatabaseBackup) bool) []*v1alpha1.DatabaseBackup {
	var found []*v1alpha1.DatabaseBackup
	for _, backup := range w.backups {
		if are(backup) {
			found = append(found, backup)
		}
	}
	slices.SortFunc(found, byAge)
	return found
}

// stays says that nobody deletes a backup.
func stays(backup *v1alpha1.DatabaseBackup) bool { return backup.DeletionTimestamp.IsZero() }

// has says whether a backup of the schedule is there.
func (w *scheduleWork) has(name string) bool {
	return slices.ContainsFunc(w.backups, func(backup *v1alpha1.DatabaseBackup) bool { return backup.Name == name })
}

// active are the backups at work, those that are being cancelled included.
func (w *scheduleWork) active() []*v1alpha1.DatabaseBackup {
	return w.those(func(backup *v1alpha1.DatabaseBackup) bool { return !flow.Ended(backup) })
}

// readyOnes are the backups that can be restored from and that nobody deletes.
func (w *scheduleWork) readyOnes() []*v1alpha1.DatabaseBackup {
	return w.those(func(backup *v1alpha1.DatabaseBackup) bool { return isReady(backup) && stays(backup) })
}

// observe writes into status what the backups tell.
func (w *scheduleWork) observe() {
	w.object.Status.Active = references(w.active(), maxActive)
	w.stuck = w.retentionStuck()
	w.countFailures()
	newest := w.observeSuccess()
	w.observeLast(newest)
}

// references name backups in status, which lists them by name.
func references(backups []*v1alpha1.DatabaseBackup, most int) []v1alpha1.BackupRef {
	var list []v1alpha1.BackupRef
	for _, backup := range backups[:min(len(backups), most)] {
		list = append(list, v1alpha1.BackupRef{Name: backup.Name})
	}
	return list
}

// observeSuccess describes the newest Ready backup, and returns it. Where the last one was deleted by hand there is none:
// status never names a URL from which nothing can be restored.
func (w *scheduleWork) observeSuccess() *v1alpha1.DatabaseBackup {
	status := &w.object.Status
	status.LastSuccessfulTime, status.LastSuccessfulURL = nil, ""
	status.LastSuccessfulSizeBytes, status.LastDurationSeconds = 0, 0
	newest := w.newestReady()
	if newest == nil {
		return nil
	}
	status.LastSuccessfulTime, status.LastSuccessfulURL = newest.Status.CompletionTime, newest.Status.URL
	if newest.Status.Artifact != nil {
		status.LastSuccessfulSizeBytes = newest.Status.Artifact.SizeBytes
	}
	if newest.Status.StartTime != nil && newest.Status.CompletionTime != nil {
		status.LastDurationSeconds = int64(newest.Status.CompletionTime.Sub(newest.Status.StartTime.Time).Seconds())
	}
	return newest
}

// newestReady leaves out what a wrong clock dated in the future, unless there is nothing else: it would count as the newest
// until then.
func (w *scheduleWork) newestReady() *v1alpha1.DatabaseBackup {
	ready := w.readyOnes()
	for _, backup := range slices.Backward(ready) {
		if !takenAt(backup).After(w.now.Add(time.Minute)) {
			return backup
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return ready[len(ready)-1]
}

// countFailures counts each failed backup once: those that failed after the last that was counted.
func (w *scheduleWork) countFailures() {
	status := &w.object.Status
	last := status.LastFailedTime
	for _, backup := range w.those(isStalled) {
		ended := backup.Status.CompletionTime
		if ended == nil || (last != nil && !ended.After(last.Time)) {
			continue
		}
		status.FailedRuns++
		if status.LastFailedTime == nil || ended.After(status.LastFailedTime.Time) {
			status.LastFailedTime = ended
		}
		w.warnf(v1alpha1.ReasonBackupFailed, "DatabaseBackup %s failed (%s): %s", backup.Name,
			flow.ReasonOf(backup, v1alpha1.ConditionStalled), messageOf(backup, v1alpha1.ConditionStalled))
	}
}

// observeLast says how the newest of the backups that ended went. A failure counts even when its object is gone.
func (w *scheduleWork) observeLast(success *v1alpha1.DatabaseBackup) {
	failed := w.object.Status.LastFailedTime
	if success != nil && !endedBefore(success, failed) {
		flow.MarkTrue(w.object, v1alpha1.ConditionLastBackupSucceeded, v1alpha1.ReasonSucceeded,
			"DatabaseBackup "+success.Name+" can be restored from")
		return
	}
	for _, backup := range slices.Backward(w.those(isStalled)) {
		if backup.Status.CompletionTime.Equal(failed) {
			flow.MarkFalse(w.object, v1alpha1.ConditionLastBackupSucceeded, v1alpha1.ReasonBackupFailed, "DatabaseBackup "+
				backup.Name+" failed ("+flow.ReasonOf(backup, v1alpha1.ConditionStalled)+"): "+
				messageOf(backup, v1alpha1.ConditionStalled))
			return
		}
	}
}

func endedBefore(backup *v1alpha1.DatabaseBackup, than *metav1.Time) bool {
	ended := backup.Status.CompletionTime
	return than != nil && ended != nil && ended.Before(than)
}

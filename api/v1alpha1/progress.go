package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Progress points at the parts of a status that every kind has, so that one piece of code can lead them all. A schedule
// has no start and no end: its two pointers are nil.
//
// +kubebuilder:object:generate=false
type Progress struct {
	Conditions         *[]metav1.Condition
	StartTime          **metav1.Time
	CompletionTime     **metav1.Time
	ObservedGeneration *int64
}

// Progress of the backup.
func (b *DatabaseBackup) Progress() Progress {
	s := &b.Status
	return Progress{&s.Conditions, &s.StartTime, &s.CompletionTime, &s.ObservedGeneration}
}

// Progress of the restore.
func (r *DatabaseRestore) Progress() Progress {
	s := &r.Status
	return Progress{&s.Conditions, &s.StartTime, &s.CompletionTime, &s.ObservedGeneration}
}

// Progress of the schedule.
func (b *BackupSchedule) Progress() Progress {
	return Progress{Conditions: &b.Status.Conditions, ObservedGeneration: &b.Status.ObservedGeneration}
}

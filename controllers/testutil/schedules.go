package testutil

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// ScheduleBuilder builds a BackupSchedule.
type ScheduleBuilder struct{ object v1alpha1.BackupSchedule }

// Schedule begins a BackupSchedule whose backups are those of Backup.
func Schedule(name, calendar string) *ScheduleBuilder {
	return &ScheduleBuilder{v1alpha1.BackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Generation: 1},
		Spec: v1alpha1.BackupScheduleSpec{
			Schedule: calendar, TimeZone: "UTC", ConcurrencyPolicy: v1alpha1.ConcurrencyForbid,
			Template: v1alpha1.BackupTemplate{Spec: Backup("").Build().Spec},
		},
	}}
}

// In puts the schedule into a namespace.
func (b *ScheduleBuilder) In(namespace string) *ScheduleBuilder {
	b.object.Namespace = namespace
	return b
}

// Concurrency sets the concurrencyPolicy.
func (b *ScheduleBuilder) Concurrency(policy v1alpha1.ConcurrencyPolicy) *ScheduleBuilder {
	b.object.Spec.ConcurrencyPolicy = policy
	return b
}

// Deadline sets startingDeadlineSeconds.
func (b *ScheduleBuilder) Deadline(seconds int64) *ScheduleBuilder {
	b.object.Spec.StartingDeadlineSeconds = seconds
	return b
}

// Retention sets the rules.
func (b *ScheduleBuilder) Retention(rules v1alpha1.RetentionSpec) *ScheduleBuilder {
	b.object.Spec.Retention = rules
	return b
}

// With changes whatever has no method of its own.
func (b *ScheduleBuilder) With(change func(*v1alpha1.BackupSchedule)) *ScheduleBuilder {
	change(&b.object)
	return b
}

// Build returns a new object each time.
func (b *ScheduleBuilder) Build() *v1alpha1.BackupSchedule { return b.object.DeepCopy() }

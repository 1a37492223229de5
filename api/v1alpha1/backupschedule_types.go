package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConcurrencyPolicy says what a schedule does when a run is due while an earlier one is at work.
//
// +kubebuilder:validation:Enum=Forbid;Allow;Replace
type ConcurrencyPolicy string

// Concurrency policies.
const (
	// ConcurrencyForbid lets the run wait for the earlier one, as long as startingDeadlineSeconds allows.
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyAllow starts it beside the earlier one.
	ConcurrencyAllow ConcurrencyPolicy = "Allow"
	// ConcurrencyReplace deletes the earlier one, which cancels it, and then starts.
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// RetentionSpec says which Ready backups of a schedule are kept: each that at least one rule keeps, and always the newest.
// A rule of a calendar keeps the newest backup of each of the newest hours, days, weeks, months or years that have one,
// in the schedule's time zone. Without any rule nothing is deleted.
type RetentionSpec struct {
	// keepLast is how many of the newest backups are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepLast int32 `json:"keepLast,omitempty"`

	// keepHourly is for how many hours that have backups the newest of the hour is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepHourly int32 `json:"keepHourly,omitempty"`

	// keepDaily is for how many days that have backups the newest of the day is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepDaily int32 `json:"keepDaily,omitempty"`

	// keepWeekly is for how many weeks (ISO 8601: they begin on Monday) that have backups the newest of the week is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepWeekly int32 `json:"keepWeekly,omitempty"`

	// keepMonthly is for how many months that have backups the newest of the month is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepMonthly int32 `json:"keepMonthly,omitempty"`

	// keepYearly is for how many years that have backups the newest of the year is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepYearly int32 `json:"keepYearly,omitempty"`

	// keepWithin keeps every backup that is no older than this, counted back from the newest Ready backup and not from
	// now: while backups fail, none expires.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') && duration(self) >= duration('0s')`,message="keepWithin must be a length of time of 290 years at most, such as 90m or 48h"
	KeepWithin *metav1.Duration `json:"keepWithin,omitempty"`
}

// BackupTemplate is what every backup of a schedule is made from.
type BackupTemplate struct {
	// metadata of the backups.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`

	// spec of the backups. Where it has no deletionPolicy, and the schedule has a rule of retention, the backups get
	// Delete: retention is to delete artifacts and snapshots with the objects.
	// +required
	Spec DatabaseBackupSpec `json:"spec,omitzero"`
}

// TemplateMetadata is what a template may say about the metadata of what is made from it.
type TemplateMetadata struct {
	// labels of the object, beside those of Holdfast, which win.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the object, beside those of Holdfast, which win.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// BackupScheduleSpec is when to back up, what, and which backups to keep.
type BackupScheduleSpec struct {
	// schedule in cron's form: five fields (minute, hour, day of month, month, day of week), or one of @hourly, @daily,
	// @midnight, @weekly, @monthly, @yearly and @annually.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.contains('TZ=')`,message="a schedule has no TZ= prefix: the time zone goes into spec.timeZone"
	// +kubebuilder:validation:XValidation:rule=`self.contains('TZ=') || self.matches('^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[0-9A-Za-z*/,-]+( +[0-9A-Za-z*/,-]+){4})$')`,message="schedule has five fields (minute, hour, day of month, month, day of week) of digits, letters and * / , - such as 0 2 * * *, or is one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"
	Schedule string `json:"schedule,omitempty"`

	// timeZone of the schedule and of its retention: a name of the IANA database, such as Europe/Paris.
	// +optional
	// +default="UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self != 'Local' && self.matches('^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$')`,message="timeZone is a name of the IANA time zone database, such as Europe/Paris or UTC"
	TimeZone string `json:"timeZone,omitempty"`

	// suspend stops the schedule. What is due meanwhile is not made up for. Runs by hand, and retention, go on.
	// +optional
	// +default=false
	Suspend *bool `json:"suspend,omitempty"`

	// concurrencyPolicy says what happens when a run is due while an earlier one is at work.
	// +optional
	// +default="Forbid"
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadlineSeconds is how late a run may still start. Absent: however late. Of several runs that were missed
	// only the newest is made up for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`

	// spreadSeconds moves each run of this schedule by a delay below it, which follows from the schedule's namespace and
	// name and is the same each time, so that many schedules with one calendar do not start in one second.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SpreadSeconds int32 `json:"spreadSeconds,omitempty"`

	// retention says which Ready backups are kept. Without any rule all are.
	// +optional
	Retention RetentionSpec `json:"retention,omitzero"`

	// failedHistoryLimit is how many failed backups are kept, the newest.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	FailedHistoryLimit *int32 `json:"failedHistoryLimit,omitempty"`

	// historyLimit is how many objects of Ready backups are kept where retention has no rule, the newest. Of an older one
	// the object goes alone: its artifact and its snapshots stay, whatever its deletionPolicy.
	// +optional
	// +default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	HistoryLimit int32 `json:"historyLimit,omitempty"`

	// template of the backups.
	// +required
	Template BackupTemplate `json:"template,omitzero"`
}

// RetentionStatus is what retention is about to do. Lists name 20 backups at most, the oldest.
type RetentionStatus struct {
	// kept is how many Ready backups are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Kept int32 `json:"kept,omitempty"`

	// deleting are backups that retention is deleting now, and that are not gone yet: because their store cannot be
	// reached, for example.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Deleting []BackupRef `json:"deleting,omitempty"`

	// waiting is how many more expired backups are deleted when those are gone: a few of one store are at a time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting int32 `json:"waiting,omitempty"`

	// next are the backups that will be deleted once the run of nextScheduleTime is Ready.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Next []BackupRef `json:"next,omitempty"`
}

// BackupScheduleStatus is how a schedule stands.
type BackupScheduleStatus struct {
	// conditions of the schedule: Ready, and LastBackupSucceeded once a backup ended.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastScheduleTime is the time in the calendar of the newest run that was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// nextScheduleTime is when the next run starts, spreadSeconds included. Absent while suspended.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// lastSuccessfulTime is when the newest Ready backup was completed.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// lastSuccessfulURL is the URL of the newest Ready backup: what to restore from.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	LastSuccessfulURL string `json:"lastSuccessfulURL,omitempty"`

	// lastSuccessfulSizeBytes is the size of its artifact.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LastSuccessfulSizeBytes int64 `json:"lastSuccessfulSizeBytes,omitempty"`

	// lastDurationSeconds is how long it took.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LastDurationSeconds int64 `json:"lastDurationSeconds,omitempty"`

	// active are the backups at work.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Active []BackupRef `json:"active,omitempty"`

	// failedRuns is how many backups of this schedule failed since it was made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedRuns int64 `json:"failedRuns,omitempty"`

	// lastFailedTime is when the last of them failed.
	// +optional
	LastFailedTime *metav1.Time `json:"lastFailedTime,omitempty"`

	// missedRuns is how many runs were not started since the schedule was made: because no operator ran, because an
	// earlier run or a restore was at work, or because startingDeadlineSeconds had passed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MissedRuns int64 `json:"missedRuns,omitempty"`

	// decidedUntil is the time in the calendar up to which it is decided which runs were started or missed.
	// +optional
	DecidedUntil *metav1.Time `json:"decidedUntil,omitempty"`

	// observedCalendar is the schedule and the time zone that the times above were counted in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=384
	ObservedCalendar string `json:"observedCalendar,omitempty"`

	// lastRunNow is the value of the annotation holdfast.dev/run-now that was served last; of a long one its SHA-256.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	LastRunNow string `json:"lastRunNow,omitempty"`

	// retention is what retention is about to do.
	// +optional
	Retention RetentionStatus `json:"retention,omitzero"`

	// observedGeneration is the generation of the object that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// BackupSchedule makes backups by a calendar, and deletes those that its retention does not keep.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbs,categories=holdfast
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 200",message="the name of a BackupSchedule has at most 200 characters: its backups add the time to it"
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.timeZone`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="LastBackupSucceeded")].status`
// +kubebuilder:printcolumn:name="Last success",type=date,JSONPath=`.status.lastSuccessfulTime`
// +kubebuilder:printcolumn:name="Next run",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active[*].name`
// +kubebuilder:printcolumn:name="Last success at",type=string,JSONPath=`.status.lastSuccessfulTime`,priority=1
// +kubebuilder:printcolumn:name="Last URL",type=string,JSONPath=`.status.lastSuccessfulURL`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupSchedule struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is when to back up, what, and which backups to keep.
	// +required
	Spec BackupScheduleSpec `json:"spec,omitzero"`

	// status is how the schedule stands. Until the operator has seen the object, observedGeneration is -1: by kstatus'
	// rules an object without any status would count as done.
	// +optional
	// +default={"observedGeneration": -1}
	Status BackupScheduleStatus `json:"status,omitzero"`
}

// BackupScheduleList is a list of BackupSchedules.
//
// +kubebuilder:object:root=true
type BackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BackupSchedule `json:"items"`
}

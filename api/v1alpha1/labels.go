package v1alpha1

// Labels and annotations of what Holdfast makes. A label's value is at most 63 characters, so objects are tied to
// their owner by its UID; the owner's name, which may be longer, stands in an annotation.
const (
	LabelManagedBy      = "app.kubernetes.io/managed-by"
	ManagedBy           = "holdfast"
	LabelOwnerUID       = "holdfast.dev/owner-uid"
	LabelStage          = "holdfast.dev/stage"
	LabelClaim          = "holdfast.dev/claim-uid"
	AnnotationOwnerName = "holdfast.dev/owner-name"
	AnnotationClaim     = "holdfast.dev/claim"

	// LabelSchedule holds the UID of the BackupSchedule that made a backup. A schedule's backups have no owner reference:
	// they outlive it.
	LabelSchedule = "holdfast.dev/schedule-uid"
	// AnnotationSchedule holds the name of that schedule, AnnotationSlot the time in its calendar (RFC 3339, UTC).
	AnnotationSchedule = "holdfast.dev/schedule"
	AnnotationSlot     = "holdfast.dev/slot"
	// AnnotationRunNow on a BackupSchedule asks for a run by hand. Each new value is one run.
	AnnotationRunNow = "holdfast.dev/run-now"
	// AnnotationExpired on a DatabaseBackup says that retention deletes it, which is tried for longer than what a
	// person waits for.
	AnnotationExpired = "holdfast.dev/expired"
	// AnnotationForget on a DatabaseBackup says that its object goes alone: deleting it leaves the artifact and the
	// snapshots, whatever its deletionPolicy.
	AnnotationForget = "holdfast.dev/forget"

	// Finalizer holds an object until what its deletionPolicy names is gone and its running work has ended.
	Finalizer = "holdfast.dev/cleanup"
)

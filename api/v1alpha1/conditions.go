package v1alpha1

// Condition types. Ready and Stalled end an object: exactly one of them becomes True, and then nothing changes any
// more. They follow kstatus, so that `kubectl wait` and GitOps tools read them.
const (
	// ConditionReady is True when the backup can be restored from, or the restore is done. Until then its reason
	// names the stage at work, or the stage that failed.
	ConditionReady = "Ready"
	// ConditionStalled is True when the object failed for good. Its reason names the cause, its message what to do.
	ConditionStalled = "Stalled"
	// ConditionDumped is True when a whole dump lies on the staging claim.
	ConditionDumped = "Dumped"
	// ConditionSnapshotted is True when every VolumeSnapshot is ready to use, or none was wanted.
	ConditionSnapshotted = "Snapshotted"
	// ConditionUploaded is True when the artifact and, after it, its manifest are in the store.
	ConditionUploaded = "Uploaded"
	// ConditionSafetyBackupTaken is True when the target is backed up, or there was nothing to back up.
	ConditionSafetyBackupTaken = "SafetyBackupTaken"
	// ConditionVerified is True when the artifact is downloaded and its checksum agrees.
	ConditionVerified = "Verified"
	// ConditionRestored is True when the restored databases are in place.
	ConditionRestored = "Restored"
	// ConditionLastBackupSucceeded of a schedule is True when the newest of its backups that ended is Ready, and False
	// when it failed.
	ConditionLastBackupSucceeded = "LastBackupSucceeded"
)

// Reasons of the Ready condition while work goes on, and when it is done.
const (
	ReasonPending          = "Pending"
	ReasonQueued           = "Queued"
	ReasonDumping          = "Dumping"
	ReasonSnapshotting     = "Snapshotting"
	ReasonUploading        = "Uploading"
	ReasonInspecting       = "Inspecting"
	ReasonTakingSafety     = "TakingSafetyBackup"
	ReasonFetching         = "Fetching"
	ReasonRestoring        = "Restoring"
	ReasonSucceeded        = "Succeeded"
	ReasonPreflightFailed  = "PreflightFailed"
	ReasonDumpFailed       = "DumpFailed"
	ReasonSnapshotFailed   = "SnapshotFailed"
	ReasonUploadFailed     = "UploadFailed"
	ReasonInspectionFailed = "InspectionFailed"
	ReasonSafetyFailed     = "SafetyBackupFailed"
	ReasonFetchFailed      = "FetchFailed"
	ReasonRestoreFailed    = "RestoreFailed"
)

// Reasons of the Stalled condition that the control plane itself gives. Those that a Job's agent gives stand in
// package contract; both appear in status unchanged.
const (
	ReasonEngineNotSupported   = "EngineNotSupported"
	ReasonClaimNotFound        = "ClaimNotFound"
	ReasonClaimNotBound        = "ClaimNotBound"
	ReasonSnapshotAPIMissing   = "SnapshotAPIMissing"
	ReasonSnapshotClassMissing = "SnapshotClassMissing"
	ReasonSnapshotNotReady     = "SnapshotNotReady"
	ReasonStorageClassMissing  = "StorageClassMissing"
	ReasonNameConflict         = "NameConflict"
	ReasonPodCannotStart       = "PodCannotStart"
	ReasonJobFailed            = "JobFailed"
	ReasonDeadlineExceeded     = "DeadlineExceeded"
	ReasonRefused              = "Refused"
	ReasonInvalidSource        = "InvalidSource"
	ReasonSourceNotFound       = "SourceNotFound"
	ReasonSourceNotReady       = "SourceNotReady"
	ReasonNotWanted            = "NotWanted"
	ReasonNothingToBackUp      = "NothingToBackUp"
	ReasonSafetyBackupNotTaken = "SafetyBackupNotTaken"
	ReasonArtifactLeftBehind   = "ArtifactLeftBehind"
)

// Reasons of a BackupSchedule's Ready condition, and of its events.
const (
	ReasonScheduled         = "Scheduled"
	ReasonSuspended         = "Suspended"
	ReasonInvalidSchedule   = "InvalidSchedule"
	ReasonInvalidTimeZone   = "InvalidTimeZone"
	ReasonWaitingForBackup  = "WaitingForBackup"
	ReasonWaitingForRestore = "WaitingForRestore"
	ReasonRetentionStuck    = "RetentionStuck"
	ReasonBackupCreated     = "BackupCreated"
	ReasonBackupReplaced    = "BackupReplaced"
	ReasonMissedRuns        = "MissedRuns"
	ReasonClockStepped      = "ClockSteppedBack"
	ReasonExpired           = "Expired"
	ReasonForgotten         = "Forgotten"
	ReasonBackupFailed      = "BackupFailed"
)

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestoreSource says which artifact is restored.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.backupRef)",message="source needs exactly one of url and backupRef"
// +kubebuilder:validation:XValidation:rule="has(self.url) == has(self.s3)",message="source.s3 says how the store of source.url is reached: url needs s3, and backupRef brings its own"
type RestoreSource struct {
	// url of the artifact, as a backup's status.url has it. A dump that Holdfast did not make is welcome too: in
	// PostgreSQL's custom format or as plain SQL, bare, or compressed with gzip or zstd.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.matches('^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/')`,message="a URL is s3://BUCKET/KEY, as the status of a backup has it"
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\x00-\\x1f\\x7f]')`,message="a URL holds no control characters"
	// +kubebuilder:validation:XValidation:rule=`!self.split('/').exists(p, p == '.' || p == '..')`,message="a URL has no part that is . or .."
	// +kubebuilder:validation:XValidation:rule=`!self.endsWith('/')`,message="a URL names an object, not a folder"
	URL string `json:"url,omitempty"`

	// s3 says how the store of the url is reached. Bucket and key come from the url; a bucket or a prefix
	// given here too must agree with it, so that the storage.s3 of a backup can be pasted whole.
	// +optional
	S3 *S3Source `json:"s3,omitempty"`

	// backupRef names a DatabaseBackup of this namespace, which brings its own storage.
	// +optional
	BackupRef BackupRef `json:"backupRef,omitzero"`
}

// S3Source says how the store of a URL is reached.
type S3Source struct {
	S3Access `json:",inline"`

	// bucket may be given, and then must be the url's.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')`,message="the name of a bucket holds lower-case letters, digits, - and ."
	Bucket string `json:"bucket,omitempty"`

	// prefix may be given, and then the url's key must begin with it. The safety backup goes below it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$")`,message="a prefix is a path without a slash at either end, of letters, digits and ! _ . * ' ( ) -"
	// +kubebuilder:validation:XValidation:rule=`!self.split('/').exists(p, p == '.' || p == '..')`,message="a prefix has no part that is . or .."
	Prefix string `json:"prefix,omitempty"`
}

// BackupRef names a DatabaseBackup of the object's own namespace.
type BackupRef struct {
	// name of the DatabaseBackup.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a DatabaseBackup holds lower-case letters, digits, - and ."
	Name string `json:"name,omitempty"`
}

// SafetyBackupMode says whether the target is backed up before it is replaced.
//
// +kubebuilder:validation:Enum=Required;Disabled
type SafetyBackupMode string

// Modes of the safety backup.
const (
	// SafetyBackupRequired takes it; a restore whose safety backup fails does not touch the target.
	SafetyBackupRequired SafetyBackupMode = "Required"
	// SafetyBackupDisabled takes none: what the restore replaces is gone.
	SafetyBackupDisabled SafetyBackupMode = "Disabled"
)

// SafetyBackupSpec describes the backup of the target that a restore takes first: the way back.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Disabled' || (!has(self.storage) && !has(self.volumeSnapshot))",message="mode is Disabled, so storage and volumeSnapshot are left out"
type SafetyBackupSpec struct {
	// mode says whether the safety backup is taken.
	// +optional
	// +default="Required"
	Mode SafetyBackupMode `json:"mode,omitempty"`

	// storage of the safety artifact. Default: where the source lies.
	// +optional
	Storage *StorageSpec `json:"storage,omitempty"`

	// volumeSnapshot of the safety backup. Default: the staging claim is snapshotted.
	// +optional
	VolumeSnapshot *VolumeSnapshotSpec `json:"volumeSnapshot,omitempty"`
}

// RestoreItem says whether something that a dump holds is restored.
//
// +kubebuilder:validation:Enum=Restore;Omit
type RestoreItem string

// What becomes of an item of a dump.
const (
	// ItemRestore restores it as the dump has it.
	ItemRestore RestoreItem = "Restore"
	// ItemOmit leaves it out.
	ItemOmit RestoreItem = "Omit"
)

// RestoreOptions say what of a dump is restored.
type RestoreOptions struct {
	// ownership of the restored objects. Omit makes the connecting user their owner, for a server that lacks the
	// dump's roles.
	// +optional
	// +default="Restore"
	Ownership RestoreItem `json:"ownership,omitempty"`

	// privileges are the grants. Omit leaves them out.
	// +optional
	// +default="Restore"
	Privileges RestoreItem `json:"privileges,omitempty"`
}

// DatabaseRestoreSpec is what to restore and where to. It never changes: make a new object for a new restore.
type DatabaseRestoreSpec struct {
	// source is the artifact.
	// +required
	Source RestoreSource `json:"source,omitzero"`

	// database is the server to restore into. For an artifact of one database, its one name is the target's, and
	// where it is absent the database gets the name it had. For an artifact of several, names choose among them.
	// +required
	Database DatabaseSpec `json:"database,omitzero"`

	// safetyBackup is taken of the target before it is replaced.
	// +optional
	// +default={}
	SafetyBackup SafetyBackupSpec `json:"safetyBackup,omitzero"`

	// options say what of the dump is restored.
	// +optional
	// +default={}
	Options RestoreOptions `json:"options,omitzero"`

	// staging is the claim on which the artifact lies while it is verified and restored.
	// +optional
	Staging StagingSpec `json:"staging,omitzero"`

	// timeout for the whole restore, the safety backup included.
	// +optional
	// +default="4h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') && duration(self) > duration('0s')`,message="timeout must be a length of time greater than zero, such as 90s, 10m or 2h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// backoffLimit is how often each Job tries again after a failure that trying again may mend.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// podTemplate says more about the pods of every Job.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitzero"`
}

// RestoreSourceStatus describes the artifact that is restored.
type RestoreSourceStatus struct {
	// url of the artifact.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// sha256 of the artifact, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`

	// sizeBytes of the artifact.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`

	// databases that the restore puts in place, as the inspection of the artifact found them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Databases []string `json:"databases,omitempty"`
}

// DatabaseRestoreStatus is how far a restore has come.
type DatabaseRestoreStatus struct {
	// conditions of the restore: SafetyBackupTaken, Verified, Restored, Ready, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// url of the safety artifact: the way back.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// safetyBackupName is the DatabaseBackup of the target that this restore took first.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SafetyBackupName string `json:"safetyBackupName,omitempty"`

	// source describes the artifact that is restored.
	// +optional
	Source *RestoreSourceStatus `json:"source,omitempty"`

	// startTime is when the work began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the restore became Ready or Stalled.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// observedGeneration is the generation of the object that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DatabaseRestore is one restore of a database from an artifact, after a safety backup of what it replaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbr,categories=holdfast
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.database.engine`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Safety URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source.url`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DatabaseRestore struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to restore and where to. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a DatabaseRestore never changes: create a new object instead"
	Spec DatabaseRestoreSpec `json:"spec,omitzero"`

	// status is how far the restore has come. Until the operator has seen the object, observedGeneration is -1: by
	// kstatus' rules an object without any status would count as done.
	// +optional
	// +default={"observedGeneration": -1}
	Status DatabaseRestoreStatus `json:"status,omitzero"`
}

// DatabaseRestoreList is a list of DatabaseRestores.
//
// +kubebuilder:object:root=true
type DatabaseRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DatabaseRestore `json:"items"`
}

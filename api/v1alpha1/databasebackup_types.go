package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeSnapshotMode says whether VolumeSnapshots belong to a backup.
//
// +kubebuilder:validation:Enum=Required;Disabled
type VolumeSnapshotMode string

// Modes of VolumeSnapshots.
const (
	// VolumeSnapshotRequired takes snapshots; a backup whose snapshots cannot be had is not Ready.
	VolumeSnapshotRequired VolumeSnapshotMode = "Required"
	// VolumeSnapshotDisabled takes none.
	VolumeSnapshotDisabled VolumeSnapshotMode = "Disabled"
)

// VolumeSnapshotSpec says which claims are snapshotted, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Disabled' || !has(self.claims) || size(self.claims) == 0",message="claims are named, but mode is Disabled: leave one of them out"
type VolumeSnapshotSpec struct {
	// mode says whether snapshots are taken.
	// +optional
	// +default="Required"
	Mode VolumeSnapshotMode `json:"mode,omitempty"`

	// className is the VolumeSnapshotClass. The default class of the claim's driver where absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a VolumeSnapshotClass holds lower-case letters, digits, - and ."
	ClassName string `json:"className,omitempty"`

	// claims are the PersistentVolumeClaims of this namespace that hold the database's data. Empty: the staging
	// claim, which holds the dump.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a claim holds lower-case letters, digits, - and ."
	Claims []string `json:"claims,omitempty"`

	// readyTimeout is how long a snapshot may take until it is ready to use.
	// +optional
	// +default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') && duration(self) > duration('0s')`,message="readyTimeout must be a length of time greater than zero, such as 90s, 10m or 2h"
	ReadyTimeout *metav1.Duration `json:"readyTimeout,omitempty"`
}

// DeletionPolicy says what deleting an object does to what it made outside the cluster's bookkeeping.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain leaves the artifact, its manifest and the VolumeSnapshots where they are.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete removes them.
	DeletionDelete DeletionPolicy = "Delete"
)

// DatabaseBackupSpec is what to back up and where to. It never changes: make a new object for a new backup.
type DatabaseBackupSpec struct {
	// database is the server and its databases to dump.
	// +required
	Database DatabaseSpec `json:"database,omitzero"`

	// volumeSnapshot says which claims are snapshotted. Default: the staging claim, which holds the dump.
	// +optional
	// +default={}
	VolumeSnapshot VolumeSnapshotSpec `json:"volumeSnapshot,omitzero"`

	// storage is where the artifact goes.
	// +required
	Storage StorageSpec `json:"storage,omitzero"`

	// compression of the artifact.
	// +optional
	// +default={}
	Compression CompressionSpec `json:"compression,omitzero"`

	// staging is the claim on which the artifact lies until it is uploaded.
	// +optional
	Staging StagingSpec `json:"staging,omitzero"`

	// deletionPolicy says what deleting this object does to the artifact and the snapshots. Default: Retain; in the
	// template of a BackupSchedule that has a rule of retention, Delete.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// timeout for the whole backup.
	// +optional
	// +default="2h"
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

// ArtifactStatus describes an artifact.
type ArtifactStatus struct {
	// key of the artifact in its bucket: where it is going to lie, before the upload.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key,omitempty"`

	// sizeBytes is the artifact's size as it lies in the store.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`

	// uncompressedBytes is the size of the dump before compression.
	// +optional
	// +kubebuilder:validation:Minimum=1
	UncompressedBytes int64 `json:"uncompressedBytes,omitempty"`

	// sha256 of the artifact as it lies in the store, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`

	// format of the dump: pgdump (one database in pg_dump's custom format) or pgcluster (a tar of several).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Format string `json:"format,omitempty"`

	// compression of the artifact.
	// +optional
	Compression CompressionAlgorithm `json:"compression,omitempty"`

	// serverVersion of the database server that was dumped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ServerVersion string `json:"serverVersion,omitempty"`

	// toolVersion of the engine's client that made the dump.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ToolVersion string `json:"toolVersion,omitempty"`
}

// VolumeSnapshotStatus describes one VolumeSnapshot that belongs to a backup.
type VolumeSnapshotStatus struct {
	// name of the VolumeSnapshot.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// claim that was snapshotted.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`

	// snapshotHandle is the snapshot's name at the storage system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	SnapshotHandle string `json:"snapshotHandle,omitempty"`

	// restoreSize is the least size of a claim that is made from the snapshot.
	// +optional
	RestoreSize *resource.Quantity `json:"restoreSize,omitempty"`

	// creationTime is when the storage system took the snapshot.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
}

// DatabaseBackupStatus is how far a backup has come.
type DatabaseBackupStatus struct {
	// conditions of the backup: Dumped, Snapshotted, Uploaded, Ready, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// url of the artifact. It is set when the backup is Ready, and is all that a restore needs, in this cluster or
	// in another.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// artifact describes what lies at the URL.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`

	// volumeSnapshots that belong to the backup.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	VolumeSnapshots []VolumeSnapshotStatus `json:"volumeSnapshots,omitempty"`

	// startTime is when the work began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the backup became Ready or Stalled.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// observedGeneration is the generation of the object that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DatabaseBackup is one backup of a database: a dump, snapshots of its volumes, and an artifact in a store.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbb,categories=holdfast
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.database.engine`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Size",type=integer,format=int64,JSONPath=`.status.artifact.sizeBytes`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DatabaseBackup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's standard metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to back up and where to. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a DatabaseBackup never changes: create a new object instead"
	Spec DatabaseBackupSpec `json:"spec,omitzero"`

	// status is how far the backup has come. Until the operator has seen the object, observedGeneration is -1: by
	// kstatus' rules an object without any status would count as done.
	// +optional
	// +default={"observedGeneration": -1}
	Status DatabaseBackupStatus `json:"status,omitzero"`
}

// DatabaseBackupList is a list of DatabaseBackups.
//
// +kubebuilder:object:root=true
type DatabaseBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DatabaseBackup `json:"items"`
}

package storage

import "time"

// ManifestSuffix is what an artifact's key and its manifest's key differ by.
const ManifestSuffix = ".manifest.json"

// ManifestVersion is the version of the manifests that this package writes, and the newest that it reads.
const ManifestVersion = 1

// Manifest is the commit marker of an artifact: it is written last, and an artifact without one is none. It lies
// beside the artifact and says all that a restore must know in a cluster that never saw the backup.
type Manifest struct {
	Version int `json:"version"`
	// Key of the artifact in its bucket. A manifest that was copied beside another artifact does not agree with it.
	Key               string `json:"key"`
	SizeBytes         int64  `json:"sizeBytes"`
	UncompressedBytes int64  `json:"uncompressedBytes"`
	// SHA256 of the artifact as it lies in the store, in hexadecimal.
	SHA256      string `json:"sha256"`
	Format      string `json:"format"`
	Compression string `json:"compression"`

	Engine        string `json:"engine"`
	ServerVersion string `json:"serverVersion"`
	ToolVersion   string `json:"toolVersion"`
	// Databases that the artifact holds, in its order.
	Databases []string `json:"databases"`

	// Object that made the artifact. Only the object with this UID may delete it.
	Object         ObjectReference `json:"object"`
	Snapshots      []Snapshot      `json:"snapshots,omitempty"`
	StartTime      time.Time       `json:"startTime"`
	CompletionTime time.Time       `json:"completionTime"`
}

// ObjectReference names a Kubernetes object.
type ObjectReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Snapshot names a VolumeSnapshot that belongs to a backup.
type Snapshot struct {
	Name   string `json:"name"`
	Claim  string `json:"claim"`
	Handle string `json:"handle,omitempty"`
}

package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"
)

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

// Limits of a manifest.
const maxManifestBytes = 1 << 20

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// EncodeManifest returns a manifest as JSON, in ManifestVersion. One that DecodeManifest would refuse is an error.
func EncodeManifest(m Manifest) ([]byte, error) {
	m.Version = ManifestVersion
	if problem := m.problem(); problem != "" {
		return nil, badManifest(m.Key, problem, nil)
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, badManifest(m.Key, "it cannot be written", err)
	}
	if len(raw) > maxManifestBytes {
		return nil, badManifest(m.Key, fmt.Sprintf("it has %d bytes, at most %d are allowed", len(raw), maxManifestBytes), nil)
	}
	return raw, nil
}

// DecodeManifest reads a manifest and checks that it can be relied upon. Fields that it does not know are ignored, a
// version that is newer than ManifestVersion is not. Errors are of kind ErrManifest.
func DecodeManifest(raw []byte) (Manifest, error) {
	if len(raw) > maxManifestBytes {
		return Manifest{}, badManifest("", fmt.Sprintf("it has more than %d bytes", maxManifestBytes), nil)
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return Manifest{}, badManifest("", "it is no JSON of a manifest: "+err.Error(), err)
	}
	if problem := m.problem(); problem != "" {
		return Manifest{}, badManifest(m.Key, problem, nil)
	}
	return m, nil
}

// problem says why a manifest cannot be relied upon. UncompressedBytes has no upper limit: it is not what is stored.
func (m Manifest) problem() string {
	switch {
	case m.Version > ManifestVersion:
		return fmt.Sprintf("it has version %d and this Holdfast reads up to version %d: use a newer Holdfast",
			m.Version, ManifestVersion)
	case m.Version < 1:
		return "it has no version"
	case m.Key == "":
		return "it has no key"
	case m.Engine == "":
		return "it names no engine"
	case !sha256Hex.MatchString(m.SHA256):
		return "its sha256 is not 64 hexadecimal digits in lower case"
	case m.SizeBytes < 0 || m.SizeBytes > MaxObjectSize:
		return fmt.Sprintf("its sizeBytes %d is not between 0 and 5 TiB", m.SizeBytes)
	case m.UncompressedBytes < 0:
		return fmt.Sprintf("its uncompressedBytes %d is negative", m.UncompressedBytes)
	}
	return ""
}

func badManifest(key, reason string, cause error) *Error {
	subject := "manifest"
	if key != "" {
		subject = fmt.Sprintf("manifest of %q", key)
	}
	return &Error{Kind: ErrManifest, Subject: subject, Reason: reason, cause: cause}
}

// WriteManifest writes a manifest beside its artifact, which makes the artifact one.
func WriteManifest(ctx context.Context, store Store, m Manifest) error {
	raw, err := EncodeManifest(m)
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, ManifestKey(m.Key), bytes.NewReader(raw), int64(len(raw)))
	return err
}

// ReadManifest reads the manifest of the artifact under key: ErrNotFound where there is none, ErrManifest where it
// cannot be relied upon or is that of another artifact.
func ReadManifest(ctx context.Context, store Store, key string) (Manifest, error) {
	content, info, err := store.Get(ctx, ManifestKey(key), 0)
	if err != nil {
		return Manifest{}, err
	}
	defer content.Close()
	if info.SizeBytes > maxManifestBytes {
		return Manifest{}, badManifest(key, fmt.Sprintf("it has %d bytes, at most %d are allowed", info.SizeBytes, maxManifestBytes), nil)
	}
	raw, err := io.ReadAll(io.LimitReader(content, maxManifestBytes+1))
	if err != nil {
		return Manifest{}, err
	}
	m, err := DecodeManifest(raw)
	if err == nil && m.Key != key {
		err = badManifest(key, fmt.Sprintf("it is that of %q: it was copied or the artifact was moved", m.Key), nil)
	}
	if err != nil {
		return Manifest{}, err
	}
	return m, nil
}

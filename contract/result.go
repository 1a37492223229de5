package contract

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/engine"
)

// MaxResultBytes is the most that the kubelet keeps of a termination message (Kubernetes: container termination
// messages are at most 4096 bytes).
const MaxResultBytes = 4096

// Result is what one run of the agent hands back in its container's termination message. Exactly one of Failure and
// the verb's own part is set; check, delete and load need none.
type Result struct {
	Version int  `json:"version"`
	Verb    Verb `json:"verb"`

	Failure *Failure `json:"failure,omitempty"`

	// Artifact is set by dump and upload.
	Artifact *Artifact `json:"artifact,omitempty"`
	// URL of the artifact, set by upload.
	URL string `json:"url,omitempty"`
	// Source is set by inspect and fetch.
	Source *Source `json:"source,omitempty"`
	// Target is set by inspect.
	Target *Target `json:"target,omitempty"`
	// Note is a sentence for people about a success, for example what was left out.
	Note string `json:"note,omitempty"`
}

// Failure says why a task failed.
type Failure struct {
	// Reason is one CamelCase word, one of those below; it becomes the reason of the Stalled condition.
	Reason string `json:"reason"`
	// Message is for people: what failed, on what, why, what to do next. No secret stands in it.
	Message string `json:"message"`
	// Retryable says that the same task may succeed when it is run again.
	Retryable bool `json:"retryable"`
}

// Reasons of failures. Those of an engine are the engine's own words.
const (
	ReasonSecretMissing          = "SecretMissing"
	ReasonAuthenticationFailed   = engine.ReasonAuthenticationFailed
	ReasonServerUnreachable      = engine.ReasonServerUnreachable
	ReasonServerCertificate      = engine.ReasonServerCertificate
	ReasonDatabaseNotFound       = engine.ReasonDatabaseNotFound
	ReasonDatabaseNotConnectable = engine.ReasonDatabaseNotConnectable
	ReasonPermissionDenied       = engine.ReasonPermissionDenied
	ReasonClientTooOld           = engine.ReasonClientTooOld
	ReasonClientMissing          = engine.ReasonClientMissing
	ReasonServerNotSupported     = engine.ReasonServerNotSupported
	ReasonEngineNotSupported     = engine.ReasonEngineNotSupported
	ReasonDumpToolFailed         = engine.ReasonDumpToolFailed
	ReasonDumpIncomplete         = engine.ReasonDumpIncomplete
	ReasonStagingFull            = "StagingFull"
	ReasonStagedArtifactDamaged  = "StagedArtifactDamaged"
	ReasonStoreUnreachable       = "StoreUnreachable"
	ReasonStoreCredentials       = "StoreCredentialsRejected"
	ReasonStoreCertificate       = "StoreCertificateRejected"
	ReasonBucketNotFound         = "BucketNotFound"
	ReasonStoreDenied            = "StoreAccessDenied"
	ReasonStoreFailed            = "StoreFailed"
	ReasonUploadMismatch         = "UploadMismatch"
	ReasonArtifactNotFound       = "ArtifactNotFound"
	ReasonArtifactCorrupt        = engine.ReasonArtifactCorrupt
	ReasonManifestInvalid        = "ManifestInvalid"
	ReasonFormatNotRecognised    = engine.ReasonFormatNotRecognised
	ReasonNotOurs                = "NotOurs"
	ReasonRestoreToolFailed      = engine.ReasonRestoreToolFailed
	ReasonRestoreIncomplete      = engine.ReasonRestoreIncomplete
	ReasonSwapFailed             = engine.ReasonSwapFailed
	ReasonTargetNotSaved         = engine.ReasonTargetNotSaved
	ReasonRoleMissing            = engine.ReasonRoleMissing
	ReasonInvalidTask            = engine.ReasonInvalidTask
	ReasonTerminated             = "Terminated"
	ReasonInternal               = engine.ReasonInternal
)

// Artifact describes a whole artifact.
type Artifact struct {
	SizeBytes         int64  `json:"sizeBytes"`
	UncompressedBytes int64  `json:"uncompressedBytes"`
	SHA256            string `json:"sha256"`
	Format            string `json:"format"`
	Compression       string `json:"compression"`
	ServerVersion     string `json:"serverVersion"`
	ToolVersion       string `json:"toolVersion"`
	// Extension of the artifact's key, with its leading dot: .pgdump.zst
	Extension string `json:"extension"`
}

// Source describes the artifact that a restore reads.
type Source struct {
	SizeBytes         int64    `json:"sizeBytes"`
	UncompressedBytes int64    `json:"uncompressedBytes,omitempty"`
	SHA256            string   `json:"sha256,omitempty"`
	Format            string   `json:"format"`
	Compression       string   `json:"compression"`
	ServerVersion     string   `json:"serverVersion,omitempty"`
	Foreign           bool     `json:"foreign,omitempty"`
	ETag              string   `json:"etag,omitempty"`
	Databases         []string `json:"databases,omitempty"`
}

// Target describes the server that a restore writes to.
type Target struct {
	ServerVersion string `json:"serverVersion"`
	ToolVersion   string `json:"toolVersion"`
	// Databases that the restore will put in place.
	Databases []string `json:"databases"`
	// Existing are those of Databases that the server has now: what a safety backup must save.
	Existing []string `json:"existing,omitempty"`
}

// Encode writes a result as JSON of at most MaxResultBytes. What is too long is cut where it hurts least: the
// middle of the message, then the lists of databases.
func (r Result) Encode() []byte {
	r.Version = Version
	for _, shorten := range []func(*Result){func(*Result) {}, cutMessage(2048), cutLists, cutMessage(512)} {
		shorten(&r)
		if raw, err := json.Marshal(r); err == nil && len(raw) <= MaxResultBytes {
			return raw
		}
	}
	// What a restore will replace is never cut: a safety backup of less than that would be a false comfort.
	message := "the result does not fit a termination message; read the pod's log"
	if r.Target != nil {
		message = fmt.Sprintf("the names of the %d databases to restore are too long to be handed over in %d bytes: "+
			"restore fewer at a time, with spec.database.names", len(r.Target.Databases), MaxResultBytes)
	}
	return fmt.Appendf(nil, `{"version":%d,"verb":%q,"failure":{"reason":%q,"message":%q,"retryable":false}}`,
		Version, r.Verb, ReasonInternal, message)
}

func cutMessage(most int) func(*Result) {
	return func(r *Result) {
		if r.Failure != nil {
			failure := *r.Failure
			failure.Message = CutMiddle(failure.Message, most)
			r.Failure = &failure
		}
		r.Note = CutMiddle(r.Note, most)
	}
}

func cutLists(r *Result) {
	if r.Source != nil {
		source := *r.Source
		source.Databases = nil
		r.Source = &source
	}
}

// CutMiddle returns text of at most most bytes, with its middle left out where it was longer: the beginning says
// what failed, the end what to do.
func CutMiddle(text string, most int) string {
	const mark = " … "
	if len(text) <= most || most < len(mark)+2 {
		return text
	}
	half := (most - len(mark)) / 2
	return validPrefix(text[:half]) + mark + validSuffix(text[len(text)-half:])
}

func validPrefix(s string) string {
	for s != "" && s[len(s)-1] >= 0x80 {
		s = s[:len(s)-1]
	}
	return s
}

func validSuffix(s string) string {
	for s != "" && s[0] >= 0x80 {
		s = s[1:]
	}
	return s
}

// DecodeResult reads a termination message. An error means that the agent did not get as far as to write one, or
// that it is of another version.
func DecodeResult(raw []byte) (Result, error) {
	var result Result
	if err := json.Unmarshal(raw, &result); err != nil {
		return Result{}, fmt.Errorf("the termination message is no result of the agent: %w", err)
	}
	if result.Version != Version {
		return Result{}, fmt.Errorf("the agent's result has version %d, this operator reads version %d: "+
			"let the agent's image be the operator's own", result.Version, Version)
	}
	return result, nil
}

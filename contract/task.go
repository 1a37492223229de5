// Package contract is what the control plane and the data plane say to each other: the task that a Job's agent is
// given, where it finds its files, and the result that it hands back. It knows nothing of Kubernetes.
package contract

import (
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// Version of the task and the result. An agent refuses a task of another version.
const Version = 1

// Verb is what an agent is asked to do.
type Verb string

// The verbs, in the order in which a backup and a restore use them. Each can be run again without harm.
const (
	// VerbCheck proves, before a dump is made, that the store could be written to, and leaves nothing in it.
	VerbCheck Verb = "check"
	// VerbDump dumps databases into a compressed artifact on the staging claim.
	VerbDump Verb = "dump"
	// VerbUpload uploads the staged artifact, proves that the store holds it, and writes the manifest last.
	VerbUpload Verb = "upload"
	// VerbDelete removes an artifact and its manifest, after the manifest's UID agreed, and half uploads of its key.
	VerbDelete Verb = "delete"
	// VerbInspect looks at the source and the target of a restore, and changes nothing.
	VerbInspect Verb = "inspect"
	// VerbFetch downloads an artifact to the staging claim and verifies it.
	VerbFetch Verb = "fetch"
	// VerbLoad restores the staged artifact into the server.
	VerbLoad Verb = "load"
)

// Where a Job's pod mounts what an agent needs. Secrets are files, one a key, under these names whatever the keys of
// the user's Secret are called.
const (
	AgentDir          = "/holdfast/bin"
	AgentPath         = AgentDir + "/agent"
	StagingDir        = "/holdfast/staging"
	DatabaseSecretDir = "/holdfast/secrets/database"
	UsernameFile      = DatabaseSecretDir + "/username"
	PasswordFile      = DatabaseSecretDir + "/password"
	DatabaseCADir     = "/holdfast/secrets/database-ca"
	DatabaseCAFile    = DatabaseCADir + "/ca.crt"
	StoreSecretDir    = "/holdfast/secrets/store"
	StoreCADir        = "/holdfast/secrets/store-ca"
	StoreCAFile       = StoreCADir + "/ca.crt"
	// ResultPath is where the agent writes its result: the container's terminationMessagePath, which the kubelet
	// makes writable even where the root is read-only.
	ResultPath = "/dev/termination-log"
)

// Exit codes of the agent. A Job's pod failure policy fails the Job at once on ExitPermanent.
const (
	ExitSucceeded = 0
	// ExitRetryable says that the same task may succeed when it is run again.
	ExitRetryable = 1
	// ExitPermanent says that running the same task again cannot succeed.
	ExitPermanent = 3
)

// Task is what one run of the agent is asked to do: `agent run --task <this as JSON>`. It holds no secret. Which
// fields are set depends on the verb.
type Task struct {
	Version int  `json:"version"`
	Verb    Verb `json:"verb"`

	// Object is the Kubernetes object that the task belongs to. Its UID names temporary databases and files.
	Object storage.ObjectReference `json:"object"`

	// Database is the server: for dump, inspect and load.
	Database *engine.Connection `json:"database,omitempty"`
	// DatabaseSecret and DatabaseCASecret name the user's Secrets and their keys, for messages alone.
	DatabaseSecret   *SecretNames `json:"databaseSecret,omitempty"`
	DatabaseCASecret *SecretNames `json:"databaseCASecret,omitempty"`

	// Store is the object store: for check, upload, delete, inspect and fetch.
	Store *storage.Config `json:"store,omitempty"`
	// StoreSecret and StoreCASecret name the user's Secrets and their keys, for messages alone.
	StoreSecret   *SecretNames `json:"storeSecret,omitempty"`
	StoreCASecret *SecretNames `json:"storeCASecret,omitempty"`
	// Key of the artifact in the store's bucket, prefix included: for upload, delete, inspect and fetch. For check, a key
	// beside it, as the artifact's own depends on what is dumped.
	Key string `json:"key,omitempty"`

	// Compression of the artifact: for dump.
	Compression *Compression `json:"compression,omitempty"`
	// Snapshots that belong to the backup: for upload, which writes them into the manifest.
	Snapshots []storage.Snapshot `json:"snapshots,omitempty"`
	// Uncommitted allows delete to remove an artifact that has no manifest, because its backup never became Ready.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Engine of the artifact: for fetch, which is told of no server.
	Engine engine.Name `json:"engine,omitempty"`
	// Expect is what the inspection found of the source, size and SHA-256 where there is a manifest: for fetch, so
	// that it is still the same.
	Expect *Source `json:"expect,omitempty"`
	// Restore says what of the dump is restored: for inspect and load.
	Restore *engine.RestoreOptions `json:"restore,omitempty"`
	// StagingSizeBytes is the size of the staging claim, for the message when it is too small.
	StagingSizeBytes int64 `json:"stagingSizeBytes,omitempty"`
}

// SecretNames names a Secret and the keys that a task needs of it, as the user wrote them.
type SecretNames struct {
	Name string   `json:"name"`
	Keys []string `json:"keys"`
}

// Compression of an artifact: algorithm Zstd (level 1 to 19), Gzip (level 1 to 9) or None.
type Compression struct {
	Algorithm string `json:"algorithm"`
	Level     int    `json:"level"`
}

// Package storage keeps artifacts in object stores behind one small interface. It knows nothing of Kubernetes or of
// databases.
package storage

import (
	"context"
	"errors"
	"io"
)

// Provider names the client that speaks to a store.
type Provider string

// Providers.
const (
	ProviderAWS          Provider = "AWS"          // aws-sdk-go-v2
	ProviderS3Compatible Provider = "S3Compatible" // minio-go
)

// Config says how a bucket is reached. It holds no secret: credentials are read from files.
type Config struct {
	Provider Provider `json:"provider"`
	Bucket   string   `json:"bucket"`
	// Endpoint is scheme and host, for example https://minio.minio.svc:9000. Empty with AWS: the region's own.
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
	// CredentialsDir holds the files accessKeyID, secretAccessKey and perhaps sessionToken. Empty: the AWS SDK's
	// own chain.
	CredentialsDir string `json:"credentialsDir,omitempty"`
	// CAFile holds PEM certificates to trust in place of the system's.
	CAFile string `json:"caFile,omitempty"`
	// VirtualHostStyle puts the bucket into the host name of Endpoint; otherwise it stands in the path. AWS without
	// an endpoint always has the bucket in the host name.
	VirtualHostStyle bool `json:"virtualHostStyle,omitempty"`
	// PartChecksums sends a SHA-256 with each part. Where it is false, a store's copy is proven by reading it back.
	PartChecksums bool `json:"partChecksums,omitempty"`
}

// Store is one bucket. All keys are whole keys within it. Errors wrap one of the kinds below, and name the bucket,
// the key and what to do; none holds a secret.
type Store interface {
	// Put uploads size bytes of source under key, in parts where it is large, and returns what the store says it
	// holds. Parts are read at their offsets and may be sent at once. On any error, and when ctx ends, the upload is aborted and
	// nothing is left of it. An object that stands under the key is replaced only when the new one is whole.
	Put(ctx context.Context, key string, source io.ReaderAt, size int64) (Info, error)
	// PutStream uploads a source of unknown size, up to MaxObjectSize, in bounded memory: the parts grow (see
	// StreamPart for how much). It promises what Put does. A Read of source that hangs holds up its return, so
	// whoever ends ctx must end the source too.
	PutStream(ctx context.Context, key string, source io.Reader) (Info, error)
	// Get opens the object under key, from offset on.
	Get(ctx context.Context, key string, offset int64) (io.ReadCloser, Info, error)
	// Stat says what the store holds under key.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the object under key. An object that is not there is no error.
	Delete(ctx context.Context, key string) error
	// AbortUploads aborts every multipart upload of exactly this key that was begun and not finished.
	AbortUploads(ctx context.Context, key string) error
	// CheckWrite proves that an upload under key could begin: the store answers, takes the credentials, has the bucket
	// and lets it be written to. Nothing is left of it, also when ctx ends. Credentials that may write and not abort
	// are no error; the note then says what stays behind, and is empty otherwise.
	CheckWrite(ctx context.Context, key string) (note string, err error)
}

// Info describes an object as the store holds it.
type Info struct {
	SizeBytes int64
	ETag      string
	// ChecksumsAgree says that the store computed a SHA-256 of each part it received and all agreed with what was
	// sent. Only Put and PutStream set it, and only where Config.PartChecksums is set.
	ChecksumsAgree bool
}

// Kinds of errors. Every error of a Store, of New and of the helpers on manifests is exactly one of them, for
// errors.Is.
var (
	ErrNotFound           = errors.New("object not found")
	ErrBucketNotFound     = errors.New("bucket not found")
	ErrCredentials        = errors.New("credentials rejected")
	ErrAccessDenied       = errors.New("access denied")
	ErrCertificate        = errors.New("certificate rejected")
	ErrUnreachable        = errors.New("store unreachable")    // may pass: network, DNS, time-outs, 429, 5xx
	ErrStore              = errors.New("store failed")         // anything else that the store said
	ErrSource             = errors.New("source not readable")  // what was to be uploaded could not be read, or is too large
	ErrStopped            = errors.New("stopped")              // ctx ended; the context's cause is wrapped too
	ErrInvalidConfig      = errors.New("invalid store config") // config, region or key cannot be right
	ErrCredentialsMissing = errors.New("credentials missing")  // a file of CredentialsDir is absent or empty
	ErrManifest           = errors.New("manifest not valid")   // damaged, forged, or newer than this Holdfast
	ErrNotOurs            = errors.New("not ours to delete")   // the manifest or the key names another owner
)

// Retryable says whether the same call may succeed later without anybody changing anything.
func Retryable(err error) bool {
	for _, kind := range []error{ErrUnreachable, ErrStore, ErrStopped, ErrCredentialsMissing} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

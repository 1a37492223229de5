package v1alpha1

// StorageSpec says where artifacts lie. Exactly one kind of storage is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3)",message="storage needs exactly one kind of storage: set s3"
type StorageSpec struct {
	// s3 is a bucket of a store that speaks the S3 protocol.
	// +optional
	S3 *S3Bucket `json:"s3,omitempty"`
}

// S3Provider is the client that speaks to a store.
//
// +kubebuilder:validation:Enum=AWS;S3Compatible
type S3Provider string

// S3 providers.
const (
	// S3ProviderAWS is the AWS SDK for Go, with its credential chain: IRSA, pod identity and so on.
	S3ProviderAWS S3Provider = "AWS"
	// S3ProviderS3Compatible is the MinIO client, for MinIO, Ceph and other stores at an endpoint of their own.
	S3ProviderS3Compatible S3Provider = "S3Compatible"
)

// ChecksumPolicy says when integrity checksums are sent along with what is uploaded.
//
// +kubebuilder:validation:Enum=WhenSupported;WhenRequired
type ChecksumPolicy string

// Checksum policies, in the AWS SDK's own words.
const (
	// ChecksumsWhenSupported sends a SHA-256 with each part, which stores other than AWS may refuse.
	ChecksumsWhenSupported ChecksumPolicy = "WhenSupported"
	// ChecksumsWhenRequired sends none, and the artifact is read back instead.
	ChecksumsWhenRequired ChecksumPolicy = "WhenRequired"
)

// S3Access says how a store is reached, apart from the bucket and the prefix.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'S3Compatible' || has(self.endpoint)",message="provider S3Compatible needs an endpoint, for example https://minio.minio.svc:9000"
// +kubebuilder:validation:XValidation:rule="self.provider != 'S3Compatible' || has(self.credentialsSecretRef)",message="provider S3Compatible needs a credentialsSecretRef"
type S3Access struct {
	// provider is the client that speaks to the store.
	// +required
	Provider S3Provider `json:"provider,omitempty"`

	// endpoint is the URL of the store, scheme and host and nothing behind: https://minio.minio.svc:9000.
	// Required for S3Compatible; for AWS, absent means the region's own endpoint.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?/?$')`,message="endpoint is a scheme and a host, with a port if need be, and nothing behind: https://minio.minio.svc:9000"
	Endpoint string `json:"endpoint,omitempty"`

	// region of the bucket.
	// +optional
	// +default="us-east-1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9-]+$')`,message="a region holds lower-case letters, digits and -, such as eu-west-3"
	Region string `json:"region,omitempty"`

	// credentialsSecretRef names a Secret with the keys `accessKeyID`, `secretAccessKey` and, if there is one,
	// `sessionToken`. With provider AWS it may be absent: then the SDK's own chain finds the credentials of the
	// pod's service account (IRSA, pod identity).
	// +optional
	CredentialsSecretRef SecretRef `json:"credentialsSecretRef,omitzero"`

	// caSecretRef names the certificate authority of the store. The well-known authorities where absent.
	// +optional
	CASecretRef SecretKeyRef `json:"caSecretRef,omitzero"`

	// forcePathStyle puts the bucket into the path of the URL and not into the host name. Always so for
	// S3Compatible unless set to false.
	// +optional
	ForcePathStyle *bool `json:"forcePathStyle,omitempty"`

	// checksums says when integrity checksums are sent. Default: WhenSupported for AWS without an endpoint,
	// else WhenRequired.
	// +optional
	Checksums ChecksumPolicy `json:"checksums,omitempty"`
}

// S3Bucket is a place in a store: how it is reached, the bucket and the prefix.
type S3Bucket struct {
	S3Access `json:",inline"`

	// bucket that holds the artifacts. It must exist.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')`,message="the name of a bucket holds lower-case letters, digits, - and ."
	Bucket string `json:"bucket,omitempty"`

	// prefix of every key, without a slash at either end.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$")`,message="a prefix is a path without a slash at either end, of letters, digits and ! _ . * ' ( ) -"
	// +kubebuilder:validation:XValidation:rule=`!self.split('/').exists(p, p == '.' || p == '..')`,message="a prefix has no part that is . or .."
	Prefix string `json:"prefix,omitempty"`
}

// SecretRef names a Secret of the object's own namespace.
type SecretRef struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a Secret holds lower-case letters, digits, - and ."
	Name string `json:"name,omitempty"`
}

// CompressionAlgorithm names how an artifact is compressed.
//
// +kubebuilder:validation:Enum=Zstd;Gzip;None
type CompressionAlgorithm string

// Compression algorithms.
const (
	// CompressionZstd is fast and small, and works on several cores.
	CompressionZstd CompressionAlgorithm = "Zstd"
	// CompressionGzip is what every system can read.
	CompressionGzip CompressionAlgorithm = "Gzip"
	// CompressionNone leaves the dump as it is.
	CompressionNone CompressionAlgorithm = "None"
)

// CompressionSpec says how an artifact is compressed.
type CompressionSpec struct {
	// algorithm of the compression.
	// +optional
	// +default="Zstd"
	Algorithm CompressionAlgorithm `json:"algorithm,omitempty"`

	// level from 1 (fast) to 19 (small) for Zstd, and from 1 to 9 for Gzip (a higher one counts as 9). None has none.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=19
	Level int32 `json:"level,omitempty"`
}

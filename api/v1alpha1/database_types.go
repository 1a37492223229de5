package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Engine is a kind of database server. Which of them an operator serves is said by its version's documentation; an
// object that names another one is Stalled with the reason EngineNotSupported.
//
// +kubebuilder:validation:Enum=PostgreSQL;MySQL;MariaDB;MongoDB;Redis
type Engine string

// The engines of the API.
const (
	// EnginePostgreSQL is PostgreSQL from version 12 on.
	EnginePostgreSQL Engine = "PostgreSQL"
	// EngineMySQL is MySQL.
	EngineMySQL Engine = "MySQL"
	// EngineMariaDB is MariaDB.
	EngineMariaDB Engine = "MariaDB"
	// EngineMongoDB is MongoDB.
	EngineMongoDB Engine = "MongoDB"
	// EngineRedis is Redis, or Valkey.
	EngineRedis Engine = "Redis"
)

// DatabaseName is the name of one database of a server.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\x00-\\x1f\\x7f]')`,message="a database name holds no control characters"
type DatabaseName string

// DatabaseSpec says which databases of which server are meant, and how to reach it.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.authSource) || self.engine == 'MongoDB'`,message="authSource is for MongoDB alone"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'PostgreSQL' || !has(self.names) || self.names.all(n, size(bytes(n)) <= 63)`,message="a PostgreSQL database name has at most 63 bytes"
// +kubebuilder:validation:XValidation:rule=`!(self.engine in ['MySQL', 'MariaDB']) || !has(self.names) || self.names.all(n, size(n) <= 64)`,message="a MySQL or MariaDB database name has at most 64 characters"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'MongoDB' || !has(self.names) || self.names.all(n, size(bytes(n)) <= 63 && !n.matches('[/\\\\. "$*<>:|?]'))`,message="a MongoDB database name has at most 63 bytes, none of them a space, a dot or one of /\\\"$*<>:|?"
// +kubebuilder:validation:XValidation:rule=`self.engine != 'Redis' || !has(self.names) || self.names.all(n, n.matches('^(0|[1-9][0-9]{0,4})$'))`,message="the databases of Redis and Valkey are numbers, such as \"0\""
type DatabaseSpec struct {
	// engine is the kind of the server.
	// +required
	Engine Engine `json:"engine,omitempty"`

	// host is the DNS name or address of the server, as seen from a pod of this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$') || self.matches('^[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*$')`,message="host is a DNS name or an IP address, without scheme, port or path; the port has a field of its own"
	Host string `json:"host,omitempty"`

	// port of the server. The engine's own default port where absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// names are the databases, which for Redis and Valkey are numbers, such as "0". Empty means every database of the
	// server, with the server's roles or accounts where the engine has a way to carry them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Names []DatabaseName `json:"names,omitempty"`

	// credentialsSecretRef names the Secret with the user name and the password.
	// +required
	CredentialsSecretRef DatabaseCredentialsRef `json:"credentialsSecretRef,omitzero"`

	// authSource is the database that MongoDB keeps the user in, as in its connection strings: admin where absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\x00-\\x1f\\x7f]')`,message="authSource holds no control characters"
	AuthSource string `json:"authSource,omitempty"`

	// tls says how the connection to the server is protected. Absent means mode VerifyFull.
	// +optional
	TLS DatabaseTLS `json:"tls,omitzero"`

	// image carries the client tools of the engine (for PostgreSQL: pg_dump, pg_restore, psql, pg_dumpall), of the
	// server's version or a newer one. The operator's default for the engine where absent. Redis and Valkey need none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$')`,message="image is the reference of a container image, such as postgres:17"
	Image string `json:"image,omitempty"`
}

// DatabaseCredentialsRef names a Secret of the object's own namespace and the keys in it.
type DatabaseCredentialsRef struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a Secret holds lower-case letters, digits, - and ."
	Name string `json:"name,omitempty"`

	// usernameKey is the key that holds the user name.
	// +optional
	// +default="username"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[-._a-zA-Z0-9]+$')`,message="a key of a Secret holds letters, digits, -, _ and ."
	UsernameKey string `json:"usernameKey,omitempty"`

	// passwordKey is the key that holds the password.
	// +optional
	// +default="password"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[-._a-zA-Z0-9]+$')`,message="a key of a Secret holds letters, digits, -, _ and ."
	PasswordKey string `json:"passwordKey,omitempty"`
}

// TLSMode says how far the server's certificate is checked.
//
// +kubebuilder:validation:Enum=Disable;Require;VerifyCA;VerifyFull
type TLSMode string

// TLS modes.
const (
	// TLSDisable sends everything in the clear.
	TLSDisable TLSMode = "Disable"
	// TLSRequire encrypts and checks nothing.
	TLSRequire TLSMode = "Require"
	// TLSVerifyCA checks who signed the certificate.
	TLSVerifyCA TLSMode = "VerifyCA"
	// TLSVerifyFull also checks that the certificate names the host.
	TLSVerifyFull TLSMode = "VerifyFull"
)

// DatabaseTLS says how the connection to a database server is protected. Where mode is absent it is VerifyFull, as
// TLS is verified unless somebody says otherwise.
type DatabaseTLS struct {
	// mode says how far the server's certificate is checked.
	// +optional
	// +default="VerifyFull"
	Mode TLSMode `json:"mode,omitempty"`

	// caSecretRef names the certificate authority that must have signed the server's certificate. The authorities
	// of the image where absent.
	// +optional
	CASecretRef SecretKeyRef `json:"caSecretRef,omitzero"`
}

// SecretKeyRef names one key of a Secret of the object's own namespace.
type SecretKeyRef struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a Secret holds lower-case letters, digits, - and ."
	Name string `json:"name,omitempty"`

	// key of the Secret that holds PEM certificates.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[-._a-zA-Z0-9]+$')`,message="a key of a Secret holds letters, digits, -, _ and ."
	Key string `json:"key,omitempty"`
}

// StagingSpec describes the claim on which an artifact lies between the dump and the upload, or between the download
// and the restore. It lives only as long as the work.
type StagingSpec struct {
	// storageClassName of the claim. The cluster's default class where absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a StorageClass holds lower-case letters, digits, - and ."
	StorageClassName string `json:"storageClassName,omitempty"`

	// size of the claim. Where absent: for a backup, the capacity of the first data claim, else 10Gi; for a
	// restore, the size of the artifact and some room, at least 1Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('^[0-9]{1,15}([.][0-9]{1,9})?([kMGTPE]|[KMGTPE]i)?$') && quantity(string(self)).isGreaterThan(quantity('0'))`,message="size must be an amount greater than zero, such as 20Gi"
	Size resource.Quantity `json:"size,omitzero"`
}

// Package engine knows database engines: how each is dumped, probed and restored, and how a whole dump is told from
// a cut one. One file an engine. It knows nothing of Kubernetes or of stores.
package engine

// Name of an engine, as the API spells it.
type Name string

// The engines that this build serves.
const (
	PostgreSQL Name = "PostgreSQL"
)

// TLSMode says how far a server's certificate is checked, as the API spells it.
type TLSMode string

// TLS modes.
const (
	TLSDisable    TLSMode = "Disable"
	TLSRequire    TLSMode = "Require"
	TLSVerifyCA   TLSMode = "VerifyCA"
	TLSVerifyFull TLSMode = "VerifyFull"
)

// Connection says how a server is reached and which of its databases are meant. It holds no secret: the user name
// and the password are read from files.
type Connection struct {
	Engine       Name   `json:"engine"`
	Host         string `json:"host"`
	Port         int    `json:"port,omitempty"` // 0: the engine's default
	UsernameFile string `json:"usernameFile"`
	PasswordFile string `json:"passwordFile"`
	// Databases to dump, or to restore into. Empty: every database of the server, or of the artifact.
	Databases []string `json:"databases,omitempty"`
	TLSMode   TLSMode  `json:"tlsMode"`
	// CAFile holds PEM certificates to trust. Empty: the authorities of the image.
	CAFile string `json:"caFile,omitempty"`
	// Image that carries the client tools, for messages alone.
	Image string `json:"image,omitempty"`
}

// RestoreOptions say what of a dump is restored.
type RestoreOptions struct {
	// OmitOwnership makes the connecting user the owner of everything.
	OmitOwnership bool `json:"omitOwnership,omitempty"`
	// OmitPrivileges leaves grants out.
	OmitPrivileges bool `json:"omitPrivileges,omitempty"`
}

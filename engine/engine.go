// Package engine knows database engines: how each is dumped, probed and restored, and how a whole dump is told from
// a cut one. One file an engine. It knows nothing of Kubernetes or of stores.
package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Name of an engine, as the API spells it.
type Name string

// The engines that the API knows. Which of them a build serves, Names tells.
const (
	PostgreSQL Name = "PostgreSQL"
	MySQL      Name = "MySQL"
	MariaDB    Name = "MariaDB"
	MongoDB    Name = "MongoDB"
	Redis      Name = "Redis"
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
	// AuthSource is the database that MongoDB keeps the user in. Empty: the engine's default.
	AuthSource string `json:"authSource,omitempty"`
	// CAFile holds PEM certificates to trust. Empty: the authorities of the image.
	CAFile string `json:"caFile,omitempty"`
	// Image that carries the client tools, for messages alone.
	Image string `json:"image,omitempty"`
}

// Verifies tells whether the server's certificate is held against an authority.
func (c Connection) Verifies() bool { return c.TLSMode == TLSVerifyCA || c.TLSMode == TLSVerifyFull }

// RestoreOptions say what of a dump is restored.
type RestoreOptions struct {
	// OmitOwnership makes the connecting user the owner of everything.
	OmitOwnership bool `json:"omitOwnership,omitempty"`
	// OmitPrivileges leaves grants out.
	OmitPrivileges bool `json:"omitPrivileges,omitempty"`
	// SavedOnly forbids to replace a database that is not one of Saved: nothing holds what would be lost.
	SavedOnly bool     `json:"savedOnly,omitempty"`
	Saved     []string `json:"saved,omitempty"`
}

// Access is a connection with what is needed to use it.
type Access struct {
	Connection
	Username string
	Password string
	// Tools runs the engine's client programs.
	Tools Runner
	// TempDir takes small private files for the time of a call.
	TempDir string
	// UID of the object that the work is done for. It names temporary databases.
	UID string
	Log *slog.Logger
}

// Runner runs client programs. Implementations start them without a shell, in a process group of their own that is
// killed when ctx ends, and keep the last lines of what they say on stderr.
type Runner interface {
	// Look returns the path of a program, or an error that is exec.ErrNotFound.
	Look(program string) (string, error)
	// Run runs a command to its end. A failed command is a *ToolError; a failing Stdin or Stdout ends the command
	// and is returned as it is.
	Run(ctx context.Context, command Command) error
}

// Command is one run of a client program.
type Command struct {
	Program string
	Args    []string
	// Env is added to the few variables that every program gets. No secret may stand in it.
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
}

// ToolError says how a client program failed.
type ToolError struct {
	Program string
	// Status is the exit status or the signal, in words.
	Status string
	// Stderr holds its last lines, without secrets.
	Stderr []string
}

// Server describes a server and the client tools that were found beside it.
type Server struct {
	Version     string
	ToolVersion string
	// SizeBytes that the databases have on the server, 0 when it may not be known.
	SizeBytes int64
	// Databases that are dumped, in the artifact's order.
	Databases []string
	// Format of the artifact.
	Format string
	// Note for people on what a dump by this user leaves out.
	Note string
}

// Contents says what an artifact holds. Fields that the format does not tell are empty.
type Contents struct {
	Databases     []string
	ServerVersion string
	ToolVersion   string
}

// Artifact is a dump that can be opened.
type Artifact struct {
	Format string
	// Databases that the artifact holds; the manifest's, or Contents'.
	Databases []string
	// ServerVersion and ToolVersion of the dump where they are known.
	ServerVersion string
	ToolVersion   string
	// Open returns the dump from its first byte, decompressed. A damaged or cut file is an error of Read, never an
	// io.EOF.
	Open func() (io.ReadCloser, error)
}

// Target is what a restore will do on a server.
type Target struct {
	Version     string
	ToolVersion string
	// Databases that will be put in place, and which of them exist now.
	Databases []string
	Existing  []string
}

// Restoration is one restore.
type Restoration struct {
	Artifact Artifact
	Options  RestoreOptions
	// Swapped says that an earlier run put the new databases in place: only what is left behind is removed.
	Swapped bool
	// OnSwapped is called once the new databases are in place, and makes that known to later runs.
	OnSwapped func() error
}

// Engine is one database engine. Every method can be called again after a failure. Errors are *Error where a person
// can do something about them.
type Engine interface {
	Name() Name
	DefaultPort() int
	// DefaultImage carries the client tools where nobody names another. Empty: the engine runs no program, so the agent's
	// own image will do.
	DefaultImage() string
	// Formats that the engine dumps to or restores from: their names and the extensions of their artifacts.
	Formats() map[string]string
	// ForeignFormats names, for people, the dumps by others that can be restored.
	ForeignFormats() []string
	// Sniff tells the format of a dump by its first bytes.
	Sniff(head []byte) (format string, ok bool)
	// Inspect reads what the beginning of a dump says of its contents. The stream may end anywhere behind it.
	Inspect(format string, head io.Reader) (Contents, error)
	// Check reads a dump to its end and fails unless it is whole.
	Check(ctx context.Context, tools Runner, format string, dump io.Reader) error
	// Probe looks at the server and the tools before a dump.
	Probe(ctx context.Context, access Access) (Server, error)
	// Dump writes a dump of what Probe found.
	Dump(ctx context.Context, access Access, server Server, dump io.Writer) error
	// ProbeTarget looks at the server and the tools before a restore of an artifact, which is not opened.
	ProbeTarget(ctx context.Context, access Access, artifact Artifact) (Target, error)
	// Restore restores an artifact and returns a note for people, which may be empty.
	Restore(ctx context.Context, access Access, restoration Restoration) (note string, err error)
}

// engines of this build: an engine's file adds its own.
var engines []Engine

// For returns the engine of a name.
func For(name Name) (Engine, error) {
	at := slices.IndexFunc(engines, func(e Engine) bool { return e.Name() == name })
	if at < 0 {
		return nil, Permanent(ReasonEngineNotSupported, "engine %q is not served by this build: it serves %v", name, Names())
	}
	return engines[at], nil
}

// Names of the engines of this build.
func Names() []Name {
	var names []Name
	for _, e := range engines {
		names = append(names, e.Name())
	}
	return names
}

// All engines of this build.
func All() []Engine { return slices.Clone(engines) }

func (e *ToolError) Error() string {
	text := fmt.Sprintf("%s ended with %s", e.Program, e.Status)
	if len(e.Stderr) > 0 {
		text += ": " + joinLines(e.Stderr)
	}
	return text
}

package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

// cutOff tells a file that ends too early from a damaged one.
func cutOff(err error) bool { return errors.Is(err, rdb.ErrCut) || errors.Is(err, io.EOF) }

// handshakeError says why no TLS came about.
func (a Access) handshakeError(err error) error {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || errors.Is(err, io.EOF) {
		return Permanent(ReasonServerCertificate, "%s offers no TLS, and tls.mode is %s: switch TLS on in the server (tls-port), or set "+
			"spec.database.tls.mode to Disable: %w", a.where(), a.TLSMode, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // a server without TLS waits for the end of what it takes for a command
		return Transient(ReasonServerCertificate, "%s does not answer as a server with TLS does, and tls.mode is %s: switch TLS on in the server (tls-port), or set "+
			"spec.database.tls.mode to Disable: %w", a.where(), a.TLSMode, err)
	}
	return a.redisError(err)
}

// redisError says why a server refused a connection or a command. It goes by the first word of what the server says, which
// clients are meant to tell its errors by.
func (a Access) redisError(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if refused, ok := errors.AsType[redisRefusal](err); ok {
		return a.redisRefused(refused)
	}
	switch {
	case certificateRejected(err):
		return Permanent(ReasonServerCertificate, "the certificate of %s is not accepted (tls.mode %s): %w: set tls.caSecretRef "+
			"to the authority that signed it, or a host that the certificate names", a.where(), a.TLSMode, err)
	case strings.Contains(err.Error(), "does not speak Redis"):
		return Permanent(ReasonServerNotSupported, "%s: %w: check spec.database.engine, host and port, and whether the port wants TLS (spec.database.tls.mode is %s)",
			a.where(), err, a.TLSMode)
	}
	return Transient(ReasonServerUnreachable, "%s cannot be reached: %w: check spec.database.host, port and tls.mode, that the server "+
		"runs, and that network policies let this pod reach it", a.where(), err)
}

func (a Access) redisRefused(refused redisRefusal) error {
	word, _, _ := strings.Cut(string(refused), " ")
	switch word {
	case "WRONGPASS", "NOAUTH":
		return Permanent(ReasonAuthenticationFailed, "%s does not let user %q in: check the name and the password in the Secret of "+
			"spec.database.credentialsSecretRef (the user is called default where no other was made): %w", a.where(), a.Username, refused)
	case "DENIED":
		return Permanent(ReasonAuthenticationFailed, "%s is in protected mode, in which it talks to nobody from other machines: give its user default a password "+
			"(requirepass), or set protected-mode no", a.where())
	case "NOPERM":
		return a.denied(refused, "")
	case "READONLY":
		return Permanent(ReasonServerNotSupported, "%s is a replica, which takes no writes: set spec.database.host to the primary, or to a Service that leads to it: %w",
			a.where(), refused)
	case "OOM":
		return Permanent(ReasonRestoreToolFailed, "%s has no memory left below its maxmemory: raise maxmemory, or free some: %w", a.where(), refused)
	case "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "MISCONF", "NOMASTERLINK":
		return Transient(ReasonServerUnreachable, "%s cannot do it now: %w", a.where(), refused)
	}
	switch {
	case strings.Contains(string(refused), "without any password configured"):
		return Permanent(ReasonAuthenticationFailed, "%s has no password for user %q, and the Secret of spec.database.credentialsSecretRef holds one: set one in the "+
			"server (ACL SETUSER, or requirepass), since a server without a password is anybody's: %w", a.where(), a.Username, refused)
	case strings.Contains(string(refused), "max number of clients"):
		return Transient(ReasonServerUnreachable, "%s takes no more connections now: %w", a.where(), refused)
	case strings.Contains(string(refused), "DB index is out of range"):
		return Permanent(ReasonDatabaseNotFound, "%s has no such database: %w: check spec.database.names against the server's setting \"databases\"", a.where(), refused)
	}
	return Permanent(ReasonServerNotSupported, "%s refuses a command: %w", a.where(), refused)
}

// denied names the right that is missing.
func (a Access) denied(why error, command string) error {
	hint := "see docs/redis.md for all that are needed"
	if command != "" {
		hint = fmt.Sprintf("ACL SETUSER %s +%s", a.Username, strings.ToLower(command))
	}
	return Permanent(ReasonPermissionDenied, "user %q may not do what is needed on %s: %w: %s", a.Username, a.where(), why, hint)
}

// replicationError is for servers of which no replica can be made, as of some that are run by others.
func (c *redisConn) replicationError(err error) error {
	if refused, ok := errors.AsType[redisRefusal](err); ok && strings.Contains(strings.ToLower(string(refused)), "unknown command") {
		return Permanent(ReasonServerNotSupported, "%s does not let a client follow it as a replica does (%w), as some hosted servers do not: take the provider's own "+
			"snapshots there. They can be restored from where they are RDB files", c.where(), refused)
	}
	return c.redisError(err)
}

// choose makes a database the one that commands are for.
func (c *redisConn) choose(ctx context.Context, database string) error {
	_, err := c.do(ctx, "SELECT", database)
	if refused, ok := errors.AsType[redisRefusal](err); ok && strings.Contains(string(refused), "out of range") {
		return Permanent(ReasonDatabaseNotFound, "%s has no database %s: check spec.database.names against the server's setting \"databases\"", c.where(), database)
	}
	if err != nil {
		return c.redisError(err)
	}
	return nil
}

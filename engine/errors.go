package engine

import (
	"fmt"
	"strings"
)

// Reasons of an Error: one CamelCase word each, which becomes the reason of a condition.
const (
	ReasonAuthenticationFailed   = "AuthenticationFailed"
	ReasonServerUnreachable      = "ServerUnreachable"
	ReasonServerCertificate      = "ServerCertificateRejected"
	ReasonDatabaseNotFound       = "DatabaseNotFound"
	ReasonDatabaseNotConnectable = "DatabaseNotConnectable"
	ReasonPermissionDenied       = "PermissionDenied"
	ReasonClientTooOld           = "ClientTooOld"
	ReasonClientMissing          = "ClientMissing"
	ReasonServerNotSupported     = "ServerNotSupported"
	ReasonEngineNotSupported     = "EngineNotSupported"
	ReasonDumpToolFailed         = "DumpToolFailed"
	ReasonDumpIncomplete         = "DumpIncomplete"
	ReasonArtifactCorrupt        = "ArtifactCorrupt"
	ReasonFormatNotRecognised    = "FormatNotRecognised"
	ReasonRestoreToolFailed      = "RestoreToolFailed"
	ReasonRestoreIncomplete      = "RestoreIncomplete"
	ReasonSwapFailed             = "SwapFailed"
	ReasonTargetNotSaved         = "TargetNotSaved"
	ReasonRoleMissing            = "RoleMissing"
	ReasonInvalidTask            = "InvalidTask"
	ReasonInternal               = "InternalError"
)

// Error is a failure that says to a person what failed, on what, why and what to do.
type Error struct {
	// Reason is one of the constants above.
	Reason  string
	Message string
	// Retryable says that the same call may succeed later without anybody changing anything.
	Retryable bool
	cause     error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns what the error was made of.
func (e *Error) Unwrap() error { return e.cause }

// Permanent returns an error that comes again until somebody changes something. A %w in the format is kept.
func Permanent(reason, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Message: wrapped.Error(), cause: wrapped}
}

// Transient returns an error that may pass by itself. A %w in the format is kept.
func Transient(reason, format string, args ...any) *Error {
	e := Permanent(reason, format, args...)
	e.Retryable = true
	return e
}

func joinLines(lines []string) string { return strings.Join(lines, " | ") }

// where names the server for people.
func (a Access) where() string {
	if a.Port == 0 {
		return a.Host
	}
	return fmt.Sprintf("%s:%d", a.Host, a.Port)
}

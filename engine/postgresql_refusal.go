package engine

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// This file tells by SQLSTATE what a server refuses for good from what may pass. Of its classes, these may pass by
// themselves: 08 (connection), 40 (rollback), 53 (out of something: memory, connections), 57 (an administrator, a start
// or an end), 58 (the system) and XX (the server's own failure); so does what is not known here.

// errNotAllowed is the reason where the server was asked and did not have to refuse.
var errNotAllowed = errors.New("its connections are not allowed")

// refusedError says why a server refused a connection to a database.
func (a Access) refusedError(database string, refused *pgconn.PgError) *Error {
	switch refused.Code {
	case "28P01":
		return Permanent(ReasonAuthenticationFailed, "%s rejects the password of user %q: put the right one into the Secret "+
			"of spec.database.credentialsSecretRef: %w", a.where(), a.Username, refused)
	case codeNoSuchDB:
		return Permanent(ReasonDatabaseNotFound, "%s has no database %q: check spec.database.names", a.where(), database)
	case codeNoPrivilege:
		return Permanent(ReasonPermissionDenied, "user %q may not connect to database %q of %s: GRANT CONNECT ON DATABASE %s TO %s",
			a.Username, database, a.where(), pgsql.Identifier(database), pgsql.Identifier(a.Username))
	case codeNotInState:
		return a.notConnectable(database, refused)
	}
	if strings.HasPrefix(refused.Code, "28") {
		return Permanent(ReasonAuthenticationFailed, "%s does not let user %q in: check that the role exists and that "+
			"pg_hba.conf allows it to connect from here with tls.mode %s: %w", a.where(), a.Username, a.TLSMode, refused)
	}
	if notUnderstood(refused) {
		return a.notPostgreSQL(refused)
	}
	return Transient(ReasonServerUnreachable, "%s takes no connection to database %q now: %w", a.where(), database, refused)
}

// notConnectable is the error of a database that is there and lets nobody in, not even a superuser.
func (a Access) notConnectable(database string, why error) *Error {
	return Permanent(ReasonDatabaseNotConnectable, "database %q of %s lets nobody connect, so it can be neither dumped nor looked at (%w): leave it "+
		"out of spec.database.names, or ALTER DATABASE %s ALLOW_CONNECTIONS true; where an interrupted DROP DATABASE left it, drop it",
		database, a.where(), why, pgsql.Identifier(database))
}

// queryError says why a control query failed, and names the server.
func (a Access) queryError(err error) error {
	if _, ok := err.(*Error); ok { //nolint:errorlint // only an error that is meant for people as it is
		return err
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case refused.Code == codeNoPrivilege:
			return Permanent(ReasonPermissionDenied, "user %q may not do what is needed on %s: grant it, or use a superuser: %w",
				a.Username, a.where(), err)
		case notUnderstood(refused):
			return a.notPostgreSQL(err)
		}
	}
	return Transient(ReasonServerUnreachable, "a question to %s failed: %w", a.where(), err)
}

// notUnderstood tells whether a server lacks what every PostgreSQL has: syntax, functions, catalogues, parameters.
func notUnderstood(refused *pgconn.PgError) bool {
	return strings.HasPrefix(refused.Code, "42") || strings.HasPrefix(refused.Code, "0A")
}

func (a Access) notPostgreSQL(err error) *Error {
	return Permanent(ReasonServerNotSupported, "%s does not answer as PostgreSQL %d and newer do: %w: check spec.database.host and port, and "+
		"spec.database.engine", a.where(), oldestServer, err)
}

package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// sslModes are libpq's names of the TLS modes.
var sslModes = map[TLSMode]string{
	TLSDisable: "disable", TLSRequire: "require", TLSVerifyCA: "verify-ca", TLSVerifyFull: "verify-full",
}

// conninfo is a libpq connection string without a password. It stands on command lines, so nothing secret may be in
// it; every value is quoted, so that none is taken for an option or for another connection string.
func (a Access) conninfo(database string) (string, error) {
	mode, known := sslModes[a.TLSMode]
	if !known {
		return "", Permanent(ReasonInvalidTask, "TLS mode %q is none of Disable, Require, VerifyCA and VerifyFull", a.TLSMode)
	}
	port := a.Port
	if port == 0 {
		port = postgreSQL{}.DefaultPort()
	}
	values := [][2]string{{"dbname", database}, {"host", a.Host}, {"port", strconv.Itoa(port)}, {"user", a.Username},
		{"sslmode", mode}, {"application_name", "holdfast"}, {"connect_timeout", strconv.Itoa(int(connectTimeout.Seconds()))}}
	if a.Verifies() {
		file, err := a.caFile()
		if err != nil {
			return "", err
		}
		values = append(values, [2]string{"sslrootcert", file})
	}
	var info []string
	for _, value := range values {
		info = append(info, value[0]+"="+pgsql.ConnValue(value[1]))
	}
	return strings.Join(info, " "), nil
}

// connect opens a control connection to a database.
func (a Access) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	info, err := a.conninfo(database)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(info)
	if err != nil {
		return nil, a.connectError(database, err)
	}
	config.Password = a.Password
	// no named prepared statements: a connection pooler may stand before the server
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := dial(ctx, config)
	if err != nil {
		return nil, a.connectError(database, err)
	}
	// what a role or a database sets by default must not cut long work short
	const unlimited = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; " +
		"SET default_transaction_read_only = off; SET search_path = pg_catalog"
	if _, err := conn.PgConn().Exec(ctx, unlimited).ReadAll(); err != nil {
		closeConn(conn)
		return nil, a.connectError(database, err)
	}
	return conn, nil
}

// dial connects, and asks again for a few seconds where TLS is refused: a server that cannot start a process for a connection,
// as in the moments when it comes or goes, refuses in the same way as one that has none, and the two are told apart by time.
func dial(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	for again := 3; ; again-- {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil || again == 0 || !tlsRefused(err) || Pause(ctx, time.Second) != nil {
			return conn, err
		}
	}
}

// tlsRefused goes by pgx's own words: it has no type for this.
func tlsRefused(err error) bool {
	return strings.Contains(err.Error(), "server refused TLS connection")
}

// ofOneDatabase are the reasons for which another database of the same server may be connected to.
var ofOneDatabase = []string{ReasonDatabaseNotFound, ReasonDatabaseNotConnectable, ReasonPermissionDenied}

// connectAny opens a control connection to the first of some databases that is there.
func (a Access) connectAny(ctx context.Context, databases ...string) (*pgx.Conn, error) {
	var failed error
	for _, database := range databases {
		conn, err := a.connect(ctx, database)
		if err == nil {
			return conn, nil
		}
		if e, ok := errors.AsType[*Error](err); !ok || !slices.Contains(ofOneDatabase, e.Reason) {
			return nil, err
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// connectError says why a database could not be connected to. It goes by codes and types, never by the server's
// words, which may be in any language.
func (a Access) connectError(database string, err error) *Error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return a.refusedError(database, refused)
	}
	if certificateRejected(err) {
		return Permanent(ReasonServerCertificate, "the certificate of %s is not accepted (tls.mode %s): %w: set tls.caSecretRef "+
			"to the authority that signed it, or a host that the certificate names", a.where(), a.TLSMode, shortConnectError(err))
	}
	if tlsRefused(err) {
		return Permanent(ReasonServerCertificate, "%s offers no TLS, and tls.mode is %s: switch TLS on in the server, or set "+
			"spec.database.tls.mode to Disable", a.where(), a.TLSMode)
	}
	return Transient(ReasonServerUnreachable, "%s cannot be reached: %w: check spec.database.host and port, that the server "+
		"runs, and that network policies let this pod reach it", a.where(), shortConnectError(err))
}

// shortConnectError leaves out the connection's settings that pgx puts before the cause.
func shortConnectError(err error) error {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if cause := connect.Unwrap(); cause != nil {
			return cause
		}
	}
	return err
}

package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Error numbers of MariaDB and MySQL.
const (
	myAccessDenied     = 1045
	myDatabaseDenied   = 1044
	myNoDatabase       = 1049
	myNoTable          = 1146
	myTableDenied      = 1142
	myColumnDenied     = 1143
	myRoutineDenied    = 1370
	mySpecificDenied   = 1227
	myLockWait         = 1205
	myDeadlock         = 1213
	myPacketTooLarge   = 1153
	myTooMany          = 1040
	myUserTooMany      = 1226
	myUserTooMany2     = 1203
	myHostBlocked      = 1129
	myHostDenied       = 1130
	mySecureTransport  = 3159
	myShutdown         = 1053
	myInterrupted      = 1317
	myConnectionKilled = 1927
	myTimeout          = 1969
	myGeneratedIgnored = 1906
)

// mySession is one connection to a server, and what is asked and told over it.
type mySession struct {
	Access
	db   *sql.DB
	conn *sql.Conn
	id   uint64 // of the connection on the server
}

// openMy connects without choosing a database.
func openMy(ctx context.Context, a Access) (*mySession, error) {
	config, err := a.myConfig()
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, Permanent(ReasonInvalidTask, "the connection to %s cannot be described: %w", a.where(), err)
	}
	s := &mySession{Access: a, db: sql.OpenDB(connector)}
	s.db.SetMaxOpenConns(1)
	if s.conn, err = s.db.Conn(ctx); err != nil {
		_ = s.db.Close()
		return nil, a.myError("", err)
	}
	// what the server or the account sets by default must not cut long work short
	for _, statement := range []string{"SET SESSION net_read_timeout = 3600, net_write_timeout = 3600, wait_timeout = 28800",
		"SET SESSION max_statement_time = 0"} {
		if err := s.exec(ctx, statement); err != nil && !hasNumber(err, 1193) { // MySQL knows no such variable
			s.close()
			return nil, a.myError("", err)
		}
	}
	if err := s.scan(ctx, []any{&s.id}, "SELECT CONNECTION_ID()"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// quietDriver keeps the driver from writing to the process's stderr. What it would say is in the errors too.
type quietDriver struct{ log *slog.Logger }

func (q quietDriver) Print(v ...any) {
	if q.log != nil {
		q.log.Debug("driver", "text", fmt.Sprint(v...))
	}
}

func (a Access) myConfig() (*mysql.Config, error) {
	security, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.myPort()))
	config.User, config.Passwd, config.TLS = a.Username, a.Password, security
	config.Timeout = connectTimeout
	config.InterpolateParams = true
	config.Collation = "utf8mb4_general_ci"
	config.MaxAllowedPacket = 0 // the server's own
	config.Logger = quietDriver{a.Log}
	return config, nil
}

func (a Access) myPort() int {
	if a.Port == 0 {
		return mariaDB{}.DefaultPort()
	}
	return a.Port
}

func (s *mySession) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.db.Close()
}

// exec runs one statement as it stands.
func (s *mySession) exec(ctx context.Context, statement string) error {
	_, err := s.conn.ExecContext(ctx, statement)
	return err
}

// scan asks for one row.
func (s *mySession) scan(ctx context.Context, into []any, query string, args ...any) error {
	if err := s.conn.QueryRowContext(ctx, query, args...).Scan(into...); err != nil {
		return s.myError("", err)
	}
	return nil
}

// strings asks for one column of text.
func (s *mySession) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

func hasNumber(err error, numbers ...uint16) bool {
	failed, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return false
	}
	return slices.Contains(numbers, failed.Number)
}

// gone tells an error of a connection that broke from what a server answered.
func gone(err error) bool {
	var network net.Error
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network) ||
		errors.Is(err, sql.ErrConnDone) || hasNumber(err, myShutdown, myConnectionKilled) || strings.Contains(err.Error(), "bad connection")
}

// myError says why a server refused a connection or a question. It goes by numbers and types, never by the server's
// words, which may be in any language.
func (a Access) myError(database string, err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case hasNumber(err, myAccessDenied):
		return Permanent(ReasonAuthenticationFailed, "%s does not let user %q in: check the name and the password in the Secret of "+
			"spec.database.credentialsSecretRef, and that the account may connect from this pod's address: %w", a.where(), a.Username, err)
	case hasNumber(err, mySecureTransport):
		return Permanent(ReasonAuthenticationFailed, "%s takes no connection without TLS: set spec.database.tls.mode to Require, or to "+
			"VerifyCA or VerifyFull: %w", a.where(), err)
	case hasNumber(err, myHostDenied, myHostBlocked):
		return Permanent(ReasonAuthenticationFailed, "%s lets nobody in from this pod's address: create the account for it (user@'%%'), or "+
			"FLUSH HOSTS where it is blocked: %w", a.where(), err)
	case hasNumber(err, myNoDatabase):
		return a.noDatabase(database)
	case hasNumber(err, myDatabaseDenied, myTableDenied, myColumnDenied, myRoutineDenied, mySpecificDenied):
		return Permanent(ReasonPermissionDenied, "user %q may not do what is needed on %s: grant it: %w", a.Username, a.where(), err)
	case errors.Is(err, mysql.ErrNoTLS):
		return Permanent(ReasonServerCertificate, "%s offers no TLS, and tls.mode is %s: switch TLS on in the server, or set "+
			"spec.database.tls.mode to Disable", a.where(), a.TLSMode)
	case certificateRejected(err):
		return Permanent(ReasonServerCertificate, "the certificate of %s is not accepted (tls.mode %s): %w: set tls.caSecretRef "+
			"to the authority that signed it, or a host that the certificate names", a.where(), a.TLSMode, err)
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrOldPassword):
		return Permanent(ReasonAuthenticationFailed, "user %q of %s logs in by a way that is not served: use an account with a password "+
			"(mysql_native_password, caching_sha2_password or ed25519): %w", a.Username, a.where(), err)
	case gone(err), hasNumber(err, myTooMany, myUserTooMany, myUserTooMany2, myInterrupted, myTimeout):
		return Transient(ReasonServerUnreachable, "%s cannot be reached: %w: check spec.database.host and port, that the server "+
			"runs, and that network policies let this pod reach it", a.where(), err)
	}
	return Transient(ReasonServerUnreachable, "a question to %s failed: %w", a.where(), err)
}

func (a Access) noDatabase(name string) *Error {
	return Permanent(ReasonDatabaseNotFound, "%s has no database %q: check spec.database.names", a.where(), name)
}

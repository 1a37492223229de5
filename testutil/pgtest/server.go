// Package pgtest starts real PostgreSQL servers for tests: on a free port of the loopback interface, with their data
// in a temporary folder, and stopped with the test. Debian's server of version 15 brings the client programs with it;
// servers of other versions are fetched by install.sh.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

const (
	// Superuser of every server.
	Superuser = "postgres"
	// Password of the superuser: one that every kind of careless quoting breaks.
	Password = `p@:/%'" \ß$x`
	// DebianVersion is the version whose client programs the tests use.
	DebianVersion = "15"
)

// Server is a running PostgreSQL.
type Server struct {
	Host string
	Port int

	version string
	bin     string
	dir     string
	owner   *syscall.Credential // nil: our own user
	args    []string

	process servertest.Process
}

// BinDir returns the folder of a version's programs. The test fails when it is not installed.
func BinDir(tb testing.TB, version string) string {
	tb.Helper()
	dir, err := binDir(version)
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func binDir(version string) (string, error) {
	if version == DebianVersion {
		dir := "/usr/lib/postgresql/15/bin"
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
			return "", errors.New("the tests need PostgreSQL 15: apt-get install postgresql-15")
		}
		return dir, nil
	}
	cache, err := servertest.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "postgres-"+version, "bin")
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
		return "", fmt.Errorf("the tests need PostgreSQL %s: run testutil/pgtest/install.sh", version)
	}
	return dir, nil
}

// Start starts a server for one test. args are further arguments of the server, such as -c and a setting.
func Start(tb testing.TB, version string, args ...string) *Server {
	tb.Helper()
	s, err := launch(version, args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Remove)
	return s
}

func launch(version string, args []string) (*Server, error) {
	bin, err := binDir(version)
	if err != nil {
		return nil, err
	}
	s := &Server{Host: "127.0.0.1", version: version, bin: bin, args: args}
	if s.dir, err = os.MkdirTemp("", "holdfast-postgres-"); err != nil {
		return nil, err
	}
	if err := s.initialise(); err != nil {
		s.Remove()
		return nil, fmt.Errorf("PostgreSQL %s: %w\n%s", version, err, s.process.Log())
	}
	return s, nil
}

func (s *Server) initialise() error {
	var err error
	if s.owner, err = servertest.Owner(s.dir, "postgres", "nobody"); err != nil { // PostgreSQL refuses to run as root
		return err
	}
	if err := s.bringPrograms(); err != nil {
		return err
	}
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(Password), 0o644); err != nil {
		return err
	}
	initdb := s.program("initdb", "--pgdata="+s.data(), "--username="+Superuser, "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if s.Port, err = servertest.FreePort(); err != nil {
		return err
	}
	return s.Restart()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// program is one of the server's own programs, run by the server's user.
func (s *Server) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "LD_LIBRARY_PATH=" + filepath.Join(filepath.Dir(s.bin), "lib")}
	return s.process.Prepare(cmd, s.owner)
}

// Restart starts the server on its port with its data, and waits until it takes connections.
func (s *Server) Restart() error {
	cmd := s.program("postgres", append([]string{"-D", s.data(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_prepared_transactions=5",
		"-c", "wal_level=logical"}, s.args...)...)
	return s.process.Start(cmd, s.ask)
}

// ask whether it takes connections.
func (s *Server) ask(ctx context.Context) error {
	conn, err := s.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Kill ends the server at once, as a crash of its machine would, and waits until it is gone.
func (s *Server) Kill() {
	s.process.Signal(syscall.SIGQUIT) // the children, which have process groups of their own, end with it, unlike with SIGKILL
}

// Remove ends the server and deletes what it kept.
func (s *Server) Remove() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// Log is what the server wrote.
func (s *Server) Log() string { return s.process.Log() }

func (s *Server) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s sslmode=disable connect_timeout=5", s.Host, s.Port, Superuser))
	if err != nil {
		return nil, err
	}
	config.Database, config.Password = database, Password
	return pgx.ConnectConfig(ctx, config)
}

// Conn opens a connection of the superuser, which is closed with the test.
func (s *Server) Conn(tb testing.TB, database string) *pgx.Conn {
	tb.Helper()
	conn, err := s.connect(context.Background(), database)
	if err != nil {
		tb.Fatalf("connect to %q: %v", database, err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs statements as the superuser.
func (s *Server) Exec(tb testing.TB, database string, statements ...string) {
	tb.Helper()
	conn, err := s.connect(context.Background(), database)
	if err != nil {
		tb.Fatalf("connect to %q: %v", database, err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.PgConn().Exec(context.Background(), statement).ReadAll(); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}

// Query returns the rows of a query as text, columns joined by | and rows by line breaks.
func (s *Server) Query(tb testing.TB, database, query string) string {
	tb.Helper()
	conn, err := s.connect(context.Background(), database)
	if err != nil {
		tb.Fatalf("connect to %q: %v", database, err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	results, err := conn.PgConn().Exec(context.Background(), query).ReadAll()
	if err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	var lines []string
	for _, row := range results[len(results)-1].Rows {
		lines = append(lines, string(bytes.Join(row, []byte("|"))))
	}
	return strings.Join(lines, "\n")
}

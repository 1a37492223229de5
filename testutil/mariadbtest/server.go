// Package mariadbtest starts real MariaDB servers for tests: Debian's, on a free port of the loopback interface, with
// their data in a temporary folder, and stopped with the test. The client programs come from Debian's package too.
package mariadbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

const (
	// Superuser of every server.
	Superuser = "root"
	// Password of the superuser: one that every kind of careless quoting breaks.
	Password = "p@:/%'\" \\ß$x#;`\t\\n"
)

// Server is a running MariaDB.
type Server struct {
	Host string
	Port int

	dir   string
	owner *syscall.Credential // nil: our own user
	args  []string

	process servertest.Process
}

// Start starts a server for one test. args are further arguments of the server.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := launch(args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Remove)
	return s
}

func launch(args []string) (*Server, error) {
	s := &Server{Host: "127.0.0.1", args: args}
	var err error
	if s.dir, err = os.MkdirTemp("", "holdfast-mariadb-"); err != nil {
		return nil, err
	}
	if err := s.initialise(); err != nil {
		s.Remove()
		return nil, fmt.Errorf("MariaDB: %w\n%s", err, s.process.Log())
	}
	return s, nil
}

func (s *Server) initialise() error {
	var err error
	if s.owner, err = servertest.Owner(s.dir, "mysql", "nobody"); err != nil { // MariaDB refuses to run as root
		return err
	}
	install, err := s.program("mariadb-install-db", "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve")
	if err != nil {
		return err
	}
	if err := install.Run(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w", err)
	}
	// the accounts are made by the server itself as it starts, where no password stands on a command line
	if err := s.writeFor("init.sql", "ALTER USER 'root'@'localhost' IDENTIFIED BY "+literal(Password)+
		";\nDELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';\nFLUSH PRIVILEGES;\nCREATE USER 'root'@'%' IDENTIFIED BY "+literal(Password)+";\nGRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;\n"); err != nil {
		return err
	}
	if s.Port, err = servertest.FreePort(); err != nil {
		return err
	}
	if err := s.start("--init-file=" + filepath.Join(s.dir, "init.sql")); err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.dir, "init.sql"))
}

func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

func (s *Server) writeFor(name, content string) error {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil || s.owner == nil {
		return err
	}
	return os.Chown(path, int(s.owner.Uid), int(s.owner.Gid))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// program is one of the server's own programs, run by the server's user.
func (s *Server) program(name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		return nil, fmt.Errorf("the tests need MariaDB: apt-get install mariadb-server: %w", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	return s.process.Prepare(cmd, s.owner), nil
}

// Restart starts the server on its port with its data, and waits until it takes connections.
func (s *Server) Restart() error { return s.start() }

func (s *Server) start(more ...string) error {
	cmd, err := s.program("mariadbd", append(append([]string{"--no-defaults", "--datadir=" + s.data(), "--port=" + strconv.Itoa(s.Port),
		"--bind-address=127.0.0.1", "--socket=" + filepath.Join(s.dir, "socket"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M", "--event-scheduler=ON", "--character-set-server=utf8mb4",
		"--skip-ssl"}, s.args...), more...)...)
	if err != nil {
		return err
	}
	return s.process.Start(cmd, s.ask)
}

// ask whether it takes connections.
func (s *Server) ask(ctx context.Context) error {
	db := s.open("")
	defer func() { _ = db.Close() }()
	err := db.PingContext(ctx)
	if refused, answered := errors.AsType[*mysql.MySQLError](err); answered {
		return fmt.Errorf("the server lets nobody in: %w: %w", refused, servertest.ErrFinal)
	}
	return err
}

// Kill ends the server at once, as a crash of its machine would, and waits until it is gone.
func (s *Server) Kill() { s.process.Kill() }

// Remove ends the server and deletes what it kept.
func (s *Server) Remove() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// quiet keeps the driver's words about servers that are not up yet out of the tests' output.
type quiet struct{}

func (quiet) Print(...any) {}

func (s *Server) open(database string) *sql.DB {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	config.User, config.Passwd, config.DBName = Superuser, Password, database
	config.Collation, config.Timeout, config.Logger = "utf8mb4_general_ci", 5*time.Second, quiet{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		panic(err) // a setting above is wrong
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db
}

// DB opens a connection of the superuser, which is closed with the test.
func (s *Server) DB(tb testing.TB, database string) *sql.DB {
	tb.Helper()
	db := s.open(database)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Exec runs statements as the superuser, over one connection.
func (s *Server) Exec(tb testing.TB, database string, statements ...string) {
	tb.Helper()
	db := s.open(database)
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			tb.Fatalf("%.300s: %v", statement, err)
		}
	}
}

// Query returns the rows of a query as text, columns joined by | and rows by line breaks.
func (s *Server) Query(tb testing.TB, database, query string) string {
	tb.Helper()
	db := s.open(database)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		tb.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values := make([]sql.RawBytes, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			tb.Fatal(err)
		}
		var texts []string
		for _, value := range values {
			texts = append(texts, string(value))
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return strings.Join(lines, "\n")
}

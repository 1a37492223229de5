// Package redistest starts real Redis and Valkey servers for tests: Debian's, on a free port of the loopback interface, with their
// data in a temporary folder, and stopped with the test. Newer ones are fetched by install.sh.
package redistest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

const (
	// Superuser of every server.
	Superuser = "default"
	// Password of the superuser: one that every kind of careless quoting breaks.
	Password = "r@:/%'\" \\ß$x#;`\t\\n"
)

// ContentScript prints, by EVAL, a line for each key of a database that tells it and its content from all others.
//
//go:embed content.lua
var ContentScript string

// Server is a running Redis.
type Server struct {
	Host string
	Port int

	program string
	// sentinel says that the server watches others and holds no keys.
	sentinel bool
	dir      string
	config   []string

	process servertest.Process
}

// Start starts a server for one test. config are further lines of redis.conf.
func Start(tb testing.TB, config ...string) *Server {
	tb.Helper()
	return start(tb, "redis-server", config)
}

// Newer servers than Debian's.
const (
	Redis8  = "redis-8"
	Valkey8 = "valkey-8"
	Valkey9 = "valkey-9"
)

// StartNewer starts one of the newer servers for one test. config are further lines of its configuration.
func StartNewer(tb testing.TB, server string, config ...string) *Server {
	tb.Helper()
	cache, err := servertest.CacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	program := filepath.Join(cache, server, "server")
	if _, err := os.Stat(program); err != nil {
		tb.Fatalf("the tests need %s: run testutil/redistest/install.sh", server)
	}
	return start(tb, program, config)
}

func start(tb testing.TB, program string, config []string) *Server {
	tb.Helper()
	return (&Server{program: program, config: config}).begin(tb)
}

// StartSentinel starts a Sentinel for one test.
func StartSentinel(tb testing.TB) *Server {
	tb.Helper()
	return (&Server{program: "redis-server", sentinel: true}).begin(tb)
}

func (s *Server) begin(tb testing.TB) *Server {
	tb.Helper()
	s, err := s.launch()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Remove)
	return s
}

func (s *Server) launch() (*Server, error) {
	logging.Disable()
	s.Host = "127.0.0.1"
	var err error
	if s.dir, err = os.MkdirTemp("", "holdfast-redis-"); err != nil {
		return nil, err
	}
	if s.Port, err = servertest.FreePort(); err == nil {
		err = s.Restart()
	}
	if err != nil {
		s.Remove()
		return nil, fmt.Errorf("%s: %w\n%s", s.program, err, s.process.Log())
	}
	return s, nil
}

// Restart starts the server on its port with its data, and waits until it takes commands. config are further lines of redis.conf
// from now on.
func (s *Server) Restart(config ...string) error {
	s.config = append(s.config, config...)
	lines := append([]string{"bind 127.0.0.1", fmt.Sprintf("port %d", s.Port), "dir " + s.dir, "unixsocket " + s.socket(), `save ""`,
		"repl-diskless-sync-delay 0", "enable-debug-command local", fmt.Sprintf("user %s on ~* &* +@all #%x", Superuser, sha256.Sum256([]byte(Password)))}, s.config...)
	file := filepath.Join(s.dir, "server.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(s.program, file)
	if s.sentinel { // which writes its file anew
		cmd.Args = append(cmd.Args, "--sentinel")
	}
	cmd.Dir = s.dir
	err := s.process.Start(s.process.Prepare(cmd, nil), s.ask)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the tests need Redis: apt-get install redis-server: %w", err)
	}
	return err
}

func (s *Server) socket() string { return filepath.Join(s.dir, "socket") }

// ask whether it takes commands.
func (s *Server) ask(ctx context.Context) error {
	client := s.open(0)
	defer func() { _ = client.Close() }()
	return client.Ping(ctx).Err()
}

// Kill ends the server at once, as a crash of its machine would, and waits until it is gone.
func (s *Server) Kill() { s.process.Kill() }

// Remove ends the server and deletes what it kept.
func (s *Server) Remove() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// open connects by the socket, which stays without TLS.
func (s *Server) open(database int) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(), Username: Superuser, Password: Password, DB: database,
		MaxRetries: -1, DisableIdentity: true, ReadTimeout: time.Minute})
}

// Client opens a connection of the superuser to a database, which is closed with the test.
func (s *Server) Client(tb testing.TB, database int) *redis.Client {
	tb.Helper()
	client := s.open(database)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Do runs one command in a database and returns what was answered, as text.
func (s *Server) Do(tb testing.TB, database int, command ...any) string {
	tb.Helper()
	client := s.open(database)
	defer func() { _ = client.Close() }()
	reply, err := client.Do(context.Background(), command...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatalf("%v: %v", command, err)
	}
	return fmt.Sprint(reply)
}

// Content tells the keys of a database and what they hold, a line each.
func (s *Server) Content(tb testing.TB, database int) string {
	tb.Helper()
	client := s.open(database)
	defer func() { _ = client.Close() }()
	lines, err := client.Eval(context.Background(), ContentScript, nil).StringSlice()
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Fill makes keys that begin with k, which is much faster than by commands.
func (s *Server) Fill(tb testing.TB, database, keys int) {
	tb.Helper()
	s.Do(tb, database, "DEBUG", "POPULATE", keys, "k", 60)
}

// Digest tells all keys of the server and what they hold from all others: it is for many keys, and Content for what differs.
func (s *Server) Digest(tb testing.TB) string {
	tb.Helper()
	return s.Do(tb, 0, "DEBUG", "DIGEST")
}

// Keys is how many keys each database holds, such as db0=3 db7=1.
func (s *Server) Keys(tb testing.TB) string {
	tb.Helper()
	var held []string
	for line := range strings.Lines(s.Do(tb, 0, "INFO", "keyspace")) {
		name, counts, found := strings.Cut(strings.TrimSpace(line), ":keys=")
		if count, _, _ := strings.Cut(counts, ","); found {
			held = append(held, name+"="+count)
		}
	}
	return strings.Join(held, " ")
}

// Address is host and port.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Dir is where the server keeps its files.
func (s *Server) Dir() string { return s.dir }

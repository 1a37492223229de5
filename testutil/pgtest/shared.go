package pgtest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared are the servers that all tests of a package use, one a version: a server takes a second or two to start.
var shared struct {
	sync.Mutex
	running bool
	servers map[string]*Server
}

var databases atomic.Int64

// Shared returns the server of a version that all tests of a package use. The package's TestMain must call Run. Tests
// keep apart by databases.
func Shared(tb testing.TB, version string) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		tb.Fatal("TestMain must call pgtest.Run")
	}
	if s := shared.servers[version]; s != nil {
		return s
	}
	s, err := launch(version, nil)
	if err != nil {
		tb.Fatal(err)
	}
	shared.servers[version] = s
	return s
}

// Run runs the tests of a package and stops the shared servers: func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }.
// Client programs are looked for among Debian's first.
func Run(m interface{ Run() int }) int {
	if dir, err := binDir(DebianVersion); err == nil {
		_ = os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	shared.Lock()
	shared.running, shared.servers = true, map[string]*Server{}
	shared.Unlock()
	code := m.Run()
	for _, s := range shared.servers {
		s.remove()
	}
	return code
}

// Name returns a name of a database that no other test uses.
func Name(tb testing.TB) string {
	tb.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(tb.Name()))
	return fmt.Sprintf("t%d_%.40s", databases.Add(1), clean)
}

// Database creates a database for one test, which is dropped with it, whatever became of it.
func (s *Server) Database(tb testing.TB, statements ...string) string {
	tb.Helper()
	name := Name(tb)
	s.Exec(tb, "postgres", `CREATE DATABASE "`+name+`"`)
	tb.Cleanup(func() { s.Drop(tb, name) })
	s.Exec(tb, name, statements...)
	return name
}

// Drop drops a database with its sessions, if it is there.
func (s *Server) Drop(tb testing.TB, name string) {
	tb.Helper()
	quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	s.Exec(tb, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+strings.ReplaceAll(name, "'", "''")+"'",
		"DROP DATABASE IF EXISTS "+quoted)
}

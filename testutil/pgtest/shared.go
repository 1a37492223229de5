package pgtest

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

// shared are the servers that all tests of a package use, one a version.
var shared servertest.Shared[*Server]

// Shared returns the server of a version that all tests of a package use. The package's TestMain must call Run. Tests
// keep apart by databases.
func Shared(tb testing.TB, version string) *Server {
	tb.Helper()
	return shared.Get(tb, version, func() (*Server, error) { return launch(version, nil) })
}

// Run runs the tests of a package and stops the shared servers: func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }.
// Client programs are looked for among Debian's first.
func Run(m interface{ Run() int }) int {
	if dir, err := binDir(DebianVersion); err == nil {
		_ = os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	return shared.Run(m)
}

// Name returns a name of a database that no other test uses.
func Name(tb testing.TB) string { return servertest.DatabaseName(tb) }

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

package mariadbtest

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

var shared servertest.Shared[*Server]

// Shared returns the server that all tests of a package use. The package's TestMain must call Run. Tests keep apart by
// databases.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	return shared.Get(tb, "", func() (*Server, error) { return launch(nil) })
}

// Run runs the tests of a package and stops the shared server: func TestMain(m *testing.M) { os.Exit(mariadbtest.Run(m)) }.
func Run(m interface{ Run() int }) int { return shared.Run(m) }

// Name returns a name of a database that no other test uses.
func Name(tb testing.TB) string { return servertest.DatabaseName(tb) }

// Database creates a database for one test, which is dropped with it, whatever became of it.
func (s *Server) Database(tb testing.TB, statements ...string) string {
	tb.Helper()
	name := Name(tb)
	s.Create(tb, name, "", statements...)
	return name
}

// Create creates a database of a name, with options such as CHARACTER SET latin1, which is dropped with the test.
func (s *Server) Create(tb testing.TB, name, options string, statements ...string) {
	tb.Helper()
	s.Exec(tb, "", "CREATE DATABASE "+Quote(name)+" "+options)
	tb.Cleanup(func() { s.Drop(tb, name) })
	s.Exec(tb, name, statements...)
}

// Drop drops a database, if it is there.
func (s *Server) Drop(tb testing.TB, name string) {
	tb.Helper()
	s.Exec(tb, "", "SET foreign_key_checks = 0", "DROP DATABASE IF EXISTS "+Quote(name))
}

// Quote quotes a name as an identifier.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

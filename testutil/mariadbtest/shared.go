package mariadbtest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the server that all tests of a package use: a server takes a few seconds to start.
var shared struct {
	sync.Mutex
	running bool
	server  *Server
}

var databases atomic.Int64

// Shared returns the server that all tests of a package use. The package's TestMain must call Run. Tests keep apart by
// databases.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		tb.Fatal("TestMain must call mariadbtest.Run")
	}
	if shared.server == nil {
		s, err := launch(nil)
		if err != nil {
			tb.Fatal(err)
		}
		shared.server = s
	}
	return shared.server
}

// Run runs the tests of a package and stops the shared server: func TestMain(m *testing.M) { os.Exit(mariadbtest.Run(m)) }.
func Run(m interface{ Run() int }) int {
	shared.Lock()
	shared.running = true
	shared.Unlock()
	code := m.Run()
	if shared.server != nil {
		shared.server.remove()
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

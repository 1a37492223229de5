package mongotest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the server that all tests of a package use.
var shared struct {
	sync.Mutex
	running bool
	server  *Server
}

var databases atomic.Int64

// Shared returns the server that all tests of a package use. The package's TestMain must call Run. Tests keep apart by databases.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		tb.Fatal("TestMain must call mongotest.Run")
	}
	if shared.server == nil {
		s := &Server{}
		if err := s.launch(); err != nil {
			tb.Fatal(err)
		}
		shared.server = s
	}
	return shared.server
}

// Run runs the tests of a package and stops the shared server.
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

// Database returns the name of a database for one test, which is dropped with it, whatever became of it.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := Name(tb)
	tb.Cleanup(func() { s.Drop(tb, name) })
	return name
}

// Drop drops a database, if it is there.
func (s *Server) Drop(tb testing.TB, name string) {
	tb.Helper()
	if err := s.client.Database(name).Drop(context.Background()); err != nil {
		tb.Errorf("drop database %s: %v", name, err)
	}
}

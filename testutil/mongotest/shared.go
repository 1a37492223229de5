package mongotest

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
)

var shared servertest.Shared[*Server]

// Shared returns the server that all tests of a package use. The package's TestMain must call Run. Tests keep apart by databases.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	return shared.Get(tb, "", func() (*Server, error) {
		s := &Server{}
		return s, s.launch()
	})
}

// Run runs the tests of a package and stops the shared server.
func Run(m interface{ Run() int }) int { return shared.Run(m) }

// Name returns a name of a database that no other test uses.
func Name(tb testing.TB) string { return servertest.DatabaseName(tb) }

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

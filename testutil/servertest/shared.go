package servertest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Shared are servers that all tests of a package use, each by a name of its own: to start one takes a second or more.
type Shared[S interface{ Remove() }] struct {
	mu      sync.Mutex
	running bool
	servers map[string]S
}

// Get returns the server of a name, which launch starts for whoever asks first. The package's TestMain must have called Run.
func (s *Shared[S]) Get(tb testing.TB, name string, launch func() (S, error)) S {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		tb.Fatal("TestMain must call the Run of the package that starts the server")
	}
	if server, there := s.servers[name]; there {
		return server
	}
	server, err := launch()
	if err != nil {
		tb.Fatal(err)
	}
	s.servers[name] = server
	return server
}

// Run runs the tests of a package and removes the shared servers.
func (s *Shared[S]) Run(m interface{ Run() int }) int {
	s.mu.Lock()
	s.running, s.servers = true, map[string]S{}
	s.mu.Unlock()
	code := m.Run()
	for _, server := range s.servers {
		server.Remove()
	}
	return code
}

var databases atomic.Int64

// DatabaseName returns a name of a database that no other test uses.
func DatabaseName(tb testing.TB) string {
	tb.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(tb.Name()))
	return fmt.Sprintf("t%d_%.40s", databases.Add(1), clean)
}

package pgtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/tlstest"
)

// EnableTLS switches TLS on, with a certificate for 127.0.0.1 alone that a CA of its own signed, restarts the server
// and returns the CA's file.
func (s *Server) EnableTLS(tb testing.TB) (caFile string) {
	tb.Helper()
	c := tlstest.Loopback(tb)
	s.writePrivate(tb, "server.crt", c.Certificate)
	s.writePrivate(tb, "server.key", c.Key)
	s.Exec(tb, "postgres", "ALTER SYSTEM SET ssl = on")
	s.Kill()
	must(tb, s.Restart())
	return c.CAFile
}

func (s *Server) writePrivate(tb testing.TB, name string, content []byte) {
	tb.Helper()
	path := filepath.Join(s.data(), name)
	must(tb, os.WriteFile(path, content, 0o600))
	if s.owner != nil {
		must(tb, os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

package mariadbtest

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/tlstest"
)

// EnableTLS switches TLS on, with a certificate for 127.0.0.1 alone that a CA of its own signed, restarts the server
// and returns the CA's file.
func (s *Server) EnableTLS(tb testing.TB) (caFile string) {
	tb.Helper()
	c := tlstest.Loopback(tb)
	for name, content := range map[string][]byte{"server.crt": c.Certificate, "server.key": c.Key} {
		if err := s.writeFor(name, string(content)); err != nil {
			tb.Fatal(err)
		}
	}
	s.args = append(s.args, "--ssl-cert="+filepath.Join(s.dir, "server.crt"), "--ssl-key="+filepath.Join(s.dir, "server.key"), "--ssl=ON")
	s.Kill()
	if err := s.Restart(); err != nil {
		tb.Fatalf("%v\n%s", err, s.process.Log())
	}
	return c.CAFile
}

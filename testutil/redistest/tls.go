package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/tlstest"
)

// EnableTLS makes the server's port one for TLS alone, with a certificate for 127.0.0.1 that a CA of its own signed, restarts the
// server and returns the CA's file.
func (s *Server) EnableTLS(tb testing.TB) (caFile string) {
	tb.Helper()
	c := tlstest.Loopback(tb)
	certificate, key := filepath.Join(s.dir, "server.crt"), filepath.Join(s.dir, "server.key")
	for path, content := range map[string][]byte{certificate: c.Certificate, key: c.Key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	s.Kill()
	err := s.Restart("port 0", fmt.Sprintf("tls-port %d", s.Port), "tls-cert-file "+certificate, "tls-key-file "+key, "tls-ca-cert-file "+c.CAFile, "tls-auth-clients no")
	if err != nil {
		tb.Fatalf("%v\n%s", err, s.process.Log())
	}
	return c.CAFile
}

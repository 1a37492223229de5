package mariadbtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// EnableTLS switches TLS on, with a certificate for 127.0.0.1 alone that a CA of its own signed, restarts the server
// and returns the CA's file.
func (s *Server) EnableTLS(tb testing.TB) (caFile string) {
	tb.Helper()
	caFile = filepath.Join(tb.TempDir(), "ca.crt")
	ca, caKey := pgtest.WriteCA(tb, caFile)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		tb.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: raw}, "server.key": {Type: "PRIVATE KEY", Bytes: rawKey}} {
		if err := s.writeFor(name, string(pem.EncodeToMemory(block))); err != nil {
			tb.Fatal(err)
		}
	}
	s.args = append(s.args, "--ssl-cert="+filepath.Join(s.dir, "server.crt"), "--ssl-key="+filepath.Join(s.dir, "server.key"), "--ssl=ON")
	s.Kill()
	if err := s.Restart(); err != nil {
		tb.Fatalf("%v\n%s", err, s.log.String())
	}
	return caFile
}

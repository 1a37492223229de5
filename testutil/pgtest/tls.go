package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// EnableTLS switches TLS on, with a certificate for 127.0.0.1 alone that a CA of its own signed, restarts the server
// and returns the CA's file.
func (s *Server) EnableTLS(tb testing.TB) (caFile string) {
	tb.Helper()
	caFile = filepath.Join(tb.TempDir(), "ca.crt")
	ca, caKey := WriteCA(tb, caFile)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	template := certificate("server")
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	must(tb, err)
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	s.writePrivate(tb, "server.crt", "CERTIFICATE", raw)
	s.writePrivate(tb, "server.key", "PRIVATE KEY", rawKey)
	s.Exec(tb, "postgres", "ALTER SYSTEM SET ssl = on")
	s.Kill()
	must(tb, s.Restart())
	return caFile
}

// WriteCA makes a new certificate authority and writes its certificate.
func WriteCA(tb testing.TB, path string) (*x509.Certificate, *ecdsa.PrivateKey) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	template := certificate("test CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(tb, err)
	ca, err := x509.ParseCertificate(raw)
	must(tb, err)
	must(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o644))
	return ca, key
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
}

func (s *Server) writePrivate(tb testing.TB, name, kind string, raw []byte) {
	tb.Helper()
	path := filepath.Join(s.data(), name)
	must(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
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

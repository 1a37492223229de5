// Package tlstest makes certificates for the servers of tests.
package tlstest

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

// Certificate is a server's certificate and key in PEM, and the file of the authority that signed it.
type Certificate struct {
	CAFile           string
	Certificate, Key []byte
}

// Loopback makes a certificate for 127.0.0.1 alone, not for localhost, that an authority of its own signed.
func Loopback(tb testing.TB) Certificate {
	tb.Helper()
	c := Certificate{CAFile: filepath.Join(tb.TempDir(), "ca.crt")}
	ca, caKey := WriteCA(tb, c.CAFile)
	key := newKey(tb)
	subject := template("server")
	subject.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	raw, err := x509.CreateCertificate(rand.Reader, subject, ca, &key.PublicKey, caKey)
	must(tb, err)
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	c.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	c.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey})
	return c
}

// WriteCA makes a new certificate authority and writes its certificate.
func WriteCA(tb testing.TB, path string) (*x509.Certificate, *ecdsa.PrivateKey) {
	tb.Helper()
	key := newKey(tb)
	subject := template("test CA")
	subject.IsCA, subject.BasicConstraintsValid, subject.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, subject, subject, &key.PublicKey, key)
	must(tb, err)
	ca, err := x509.ParseCertificate(raw)
	must(tb, err)
	must(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o644))
	return ca, key
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	return key
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

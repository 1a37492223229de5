//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// certificate is a server's certificate and key, with the authority that signed it, all in PEM.
type certificate struct {
	authority, certificate, key string
}

func newCertificate(t *testing.T, host string) certificate {
	t.Helper()
	authority := template(1, "e2e authority")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityKey, serverKey := newKey(t), newKey(t)
	server := template(2, host)
	server.DNSNames = []string{host}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

	key, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{
		authority:   sign(t, authority, authority, authorityKey, authorityKey),
		certificate: sign(t, server, authority, serverKey, authorityKey),
		key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	}
}

func template(serial int64, name string) *x509.Certificate {
	// A common name has at most 64 characters; what is checked is the DNS name.
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name[:min(len(name), 64)]},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, subject, issuer *x509.Certificate, subjectKey, issuerKey *ecdsa.PrivateKey) string {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, subject, issuer, &subjectKey.PublicKey, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

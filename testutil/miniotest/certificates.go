package miniotest

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

// authority is a CA and the file that its certificate lies in.
type authority struct {
	file  string
	roots *x509.CertPool
}

// OtherCA writes a CA that signed nothing into a file and returns its path.
func OtherCA(tb testing.TB) string {
	tb.Helper()
	other, err := newAuthority(filepath.Join(tb.TempDir(), "certs"))
	if err != nil {
		tb.Fatal(err)
	}
	return other.file
}

// newAuthority makes a CA, and in dir the key pair of a server under the names that MinIO looks for. The CA lies
// beside dir: MinIO would trust it in there.
func newAuthority(dir string) (authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return authority{}, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	ca := template("Holdfast test CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	rawCA, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return authority{}, err
	}
	if ca, err = x509.ParseCertificate(rawCA); err != nil {
		return authority{}, err
	}
	made := authority{file: filepath.Join(filepath.Dir(dir), "ca.crt"), roots: x509.NewCertPool()}
	made.roots.AddCert(ca)
	if err := writePEM(made.file, "CERTIFICATE", rawCA); err != nil {
		return authority{}, err
	}
	return made, writeServer(dir, ca, caKey)
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func writeServer(dir string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := template("minio")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	raw, err := x509.CreateCertificate(rand.Reader, server, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "public.crt"), "CERTIFICATE", raw); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "private.key"), "PRIVATE KEY", rawKey)
}

func writePEM(path, kind string, raw []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}

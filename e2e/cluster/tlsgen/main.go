// Command tlsgen makes a private CA and one server certificate: tlsgen DIR NAME… writes ca.crt,
// tls.crt and tls.key for the given DNS names and IP addresses into DIR.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 10 * 365 * 24 * time.Hour

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: tlsgen DIR NAME…")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error: making the test certificates:", err)
		os.Exit(1)
	}
}

func generate(dir string, names []string) error {
	caKey, serverKey, err := newKeys()
	if err != nil {
		return err
	}
	ca := caTemplate()
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("signing the CA: %w", err)
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, serverTemplate(names), ca, &serverKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("signing the server certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return fmt.Errorf("encoding the server key: %w", err)
	}
	return writeAll(dir, map[string]*pem.Block{
		"ca.crt":  {Type: "CERTIFICATE", Bytes: caDER},
		"tls.crt": {Type: "CERTIFICATE", Bytes: serverDER},
		"tls.key": {Type: "PRIVATE KEY", Bytes: keyDER},
	})
}

func newKeys() (ca, server *ecdsa.PrivateKey, err error) {
	if ca, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("making the CA's key: %w", err)
	}
	if server, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("making the server's key: %w", err)
	}
	return ca, server, nil
}

func caTemplate() *x509.Certificate {
	t := template("Holdfast test CA", 1)
	t.IsCA = true
	t.BasicConstraintsValid = true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return t
}

func serverTemplate(names []string) *x509.Certificate {
	t := template(names[0], 2)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	return t
}

// The start lies an hour back: a node's clock may be a little behind.
func template(commonName string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
	}
}

func writeAll(dir string, files map[string]*pem.Block) error {
	for name, block := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

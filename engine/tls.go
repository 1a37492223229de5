package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// connectTimeout bounds how long a server may take until a connection is there.
const connectTimeout = 15 * time.Second

// tlsConfig is how a connection is protected; nil where it is not.
func (a Access) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{ServerName: a.Host, MinVersion: tls.VersionTLS12}
	switch a.TLSMode {
	case TLSDisable:
		return nil, nil //nolint:nilnil // as drivers take no TLS
	case TLSRequire:
		config.InsecureSkipVerify = true //nolint:gosec // the mode that checks nothing was asked for
		return config, nil
	case TLSVerifyCA, TLSVerifyFull:
	default:
		return nil, Permanent(ReasonInvalidTask, "TLS mode %q is none of Disable, Require, VerifyCA and VerifyFull", a.TLSMode)
	}
	file, err := a.caFile()
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(raw) {
		return nil, Permanent(ReasonServerCertificate, "tls.caSecretRef holds no PEM certificate")
	}
	if a.TLSMode == TLSVerifyCA {
		config.InsecureSkipVerify = true //nolint:gosec // the chain is checked below, without the name
		config.VerifyConnection = chainOf(config.RootCAs)
	}
	return config, nil
}

// chainOf checks who signed a certificate and not whom it names.
func chainOf(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}

// systemCAs are where images keep the authorities that they trust. libpq before version 16 has no word for them.
var systemCAs = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
	"/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
}

func (a Access) caFile() (string, error) {
	if a.CAFile != "" {
		return a.CAFile, nil
	}
	for _, file := range systemCAs {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return file, nil
		}
	}
	return "", Permanent(ReasonServerCertificate, "tls.mode %s needs a certificate authority, and the image %s brings none: "+
		"set spec.database.tls.caSecretRef, or use an image with the package ca-certificates", a.TLSMode, a.Image)
}

func certificateRejected(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) ||
		strings.Contains(err.Error(), "unable to add CA to cert pool")
}

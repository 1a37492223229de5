package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/minio/minio-go/v7"
)

var kinds = []error{ErrNotFound, ErrBucketNotFound, ErrCredentials, ErrAccessDenied, ErrCertificate, ErrUnreachable,
	ErrStore, ErrSource, ErrStopped, ErrInvalidConfig, ErrCredentialsMissing, ErrManifest, ErrNotOurs}

// assertKind checks that an error is of this kind and of no other.
func assertKind(t *testing.T, err, want error) {
	t.Helper()
	var found []error
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			found = append(found, kind)
		}
	}
	if len(found) != 1 || found[0] != want {
		t.Fatalf("got kinds %v, want %v, of: %v", found, want, err)
	}
}

func xmlError(status int, code, message string) error {
	said := minio.ErrorResponse{StatusCode: status, Code: code, Message: message}
	said.XMLName.Local = "Error"
	return said
}

func onWire(err error) error { return &url.Error{Op: "Put", URL: "https://minio/b/k", Err: err} }

func TestKindOfEveryError(t *testing.T) {
	cases := map[string]struct{ err, want error }{
		"no key":                 {xmlError(404, "NoSuchKey", ""), ErrNotFound},
		"no key, AWS":            {&smithy.GenericAPIError{Code: "NoSuchKey"}, ErrNotFound},
		"404 of a web server":    {minio.ErrorResponse{StatusCode: 404, Code: "NoSuchKey"}, ErrStore},
		"no bucket":              {xmlError(404, "NoSuchBucket", ""), ErrBucketNotFound},
		"no upload":              {xmlError(404, "NoSuchUpload", ""), ErrStore},
		"unknown key ID":         {xmlError(403, "InvalidAccessKeyId", ""), ErrCredentials},
		"wrong secret":           {xmlError(403, "SignatureDoesNotMatch", ""), ErrCredentials},
		"token expired":          {xmlError(400, "ExpiredToken", ""), ErrCredentials},
		"malformed credential":   {xmlError(400, "AuthorizationHeaderMalformed", "the Credential is malformed"), ErrCredentials},
		"wrong region":           {xmlError(400, "AuthorizationHeaderMalformed", "the region is wrong"), ErrInvalidConfig},
		"redirect":               {xmlError(301, "PermanentRedirect", ""), ErrInvalidConfig},
		"401":                    {xmlError(401, "Whatever", ""), ErrCredentials},
		"denied":                 {xmlError(403, "AccessDenied", ""), ErrAccessDenied},
		"403 without a code":     {xmlError(403, "", ""), ErrAccessDenied},
		"clock":                  {xmlError(403, "RequestTimeTooSkewed", ""), ErrStore},
		"slow down":              {xmlError(503, "SlowDown", ""), ErrUnreachable},
		"429":                    {xmlError(429, "", ""), ErrUnreachable},
		"500":                    {xmlError(500, "InternalError", ""), ErrUnreachable},
		"502 of a proxy":         {minio.ErrorResponse{StatusCode: 502, Code: "502 Bad Gateway"}, ErrUnreachable},
		"time-out in a 400":      {xmlError(400, "RequestTimeout", ""), ErrUnreachable},
		"not implemented":        {xmlError(501, "NotImplemented", ""), ErrStore},
		"full":                   {xmlError(507, "XMinioStorageFull", ""), ErrStore},
		"bad digest":             {xmlError(400, "BadDigest", ""), ErrStore},
		"refused":                {onWire(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), ErrUnreachable},
		"no such host":           {onWire(&net.DNSError{Err: "no such host", Name: "minio"}), ErrUnreachable},
		"cut":                    {onWire(io.ErrUnexpectedEOF), ErrUnreachable},
		"unknown CA":             {onWire(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), ErrCertificate},
		"name not in it":         {onWire(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), ErrCertificate},
		"expired":                {onWire(x509.CertificateInvalidError{Reason: x509.Expired}), ErrCertificate},
		"protocol version":       {onWire(tls.AlertError(70)), ErrCertificate},
		"trouble of its own":     {onWire(tls.AlertError(80)), ErrUnreachable},
		"no TLS":                 {onWire(errors.New("http: server gave HTTP response to HTTPS client")), ErrCertificate},
		"no XML":                 {errors.New("expected element type"), ErrStore},
		"source":                 {sourceError{io.ErrUnexpectedEOF}, ErrSource},
		"source, marked deeper":  {fmt.Errorf("hash: %w", sourceError{errors.New("disk")}), ErrSource},
		"source fails as a wire": {sourceError{onWire(io.EOF)}, ErrSource},
	}
	s := &store{bucket: "b", endpoint: "https://minio"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := s.explain(nil, operation{verbUpload, "k"}, c.err)
			assertKind(t, err, c.want)
			if !strings.Contains(err.Error(), "upload of s3://b/k at https://minio: "+c.want.Error()) {
				t.Errorf("it does not say what failed on what: %v", err)
			}
			if !errors.Is(err, c.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestErrorAfterTheContextEnded(t *testing.T) {
	stop := errors.New("SIGTERM")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	err := (&store{}).explain(context.Cause(ctx), operation{}, onWire(context.Canceled))
	assertKind(t, err, ErrStopped)
	if !strings.Contains(err.Error(), "SIGTERM") || !errors.Is(err, context.Canceled) || !Retryable(err) {
		t.Error(err)
	}
}

func TestExplainedErrorStaysAsItIs(t *testing.T) {
	s := &store{}
	first := s.explain(nil, operation{verbUpload, "k"}, xmlError(404, "NoSuchBucket", ""))
	second := s.explain(errors.New("later"), operation{verbAbort, "k"}, fmt.Errorf("more: %w", first))
	assertKind(t, second, ErrBucketNotFound)
}

func TestStoreTextIsKeptAndSecretsAreNot(t *testing.T) {
	s := &store{bucket: "b", endpoint: "https://minio", secrets: []string{"hunter2-hunter2", "token-of-3", "id", ""}}
	err := s.explain(nil, operation{verbUpload, "k"}, xmlError(403, "SignatureDoesNotMatch", "signed hunter2-hunter2 and token-of-3 by id"))
	if text := err.Error(); !strings.Contains(text, "SignatureDoesNotMatch: signed [removed] and [removed] by id") ||
		!strings.Contains(text, "check accessKeyID") {
		t.Error(text)
	}
}

func TestRetryable(t *testing.T) {
	want := map[error]bool{ErrUnreachable: true, ErrStore: true, ErrStopped: true, ErrCredentialsMissing: true}
	for _, kind := range kinds {
		if got := Retryable(&Error{Kind: kind}); got != want[kind] {
			t.Errorf("%v: got %v", kind, got)
		}
	}
}

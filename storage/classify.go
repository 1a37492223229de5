package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// reply is what a store said about a request that failed.
type reply struct {
	status  int
	code    string
	message string
}

// finding is what classify makes of an error.
type finding struct {
	kind   error
	reason string
	advice string
}

// sourceError marks an error of what was to be uploaded, apart from those of the store.
type sourceError struct{ err error }

func (e sourceError) Error() string { return e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

// classify finds the kind of a library's error. stopped is the cause for which the caller's context ended, or nil.
func classify(stopped, err error) finding {
	var source sourceError
	switch said, replied := replyOf(err); {
	case errors.As(err, &source):
		return finding{ErrSource, source.Error(), ""}
	case stopped != nil:
		return finding{ErrStopped, stopped.Error(), ""}
	case replied:
		return classifyReply(said)
	default:
		return classifyTransport(err)
	}
}

func replyOf(err error) (reply, bool) {
	if said, ok := awsReply(err); ok {
		return said, true
	}
	return minioReply(err)
}

func classifyReply(said reply) finding {
	kind := kindOfReply(said)
	advice := adviceOf[kind]
	switch {
	case said.code == "RequestTimeTooSkewed":
		advice = "set the clock of the node or of the store"
	case strings.Contains(said.code, "StorageFull"), said.code == "QuotaExceeded", said.status == http.StatusInsufficientStorage:
		advice = "the store is full: make room in it"
	case errors.Is(kind, ErrStore) && said.status == http.StatusNotFound:
		advice = "this is not how an object store answers: check the endpoint"
	}
	return finding{kind, reasonOfReply(said), advice}
}

func reasonOfReply(said reply) string {
	code := said.code
	if code == "" {
		code = strings.TrimSpace(fmt.Sprintf("%d %s", said.status, http.StatusText(said.status)))
	}
	if message := strings.TrimSpace(said.message); message != "" && message != code {
		return "the store says " + code + ": " + message
	}
	return "the store says " + code
}

// kindOfCode has the codes of S3 and of its best-known kin that say more than their HTTP status.
var kindOfCode = map[string]error{
	"NoSuchKey":                          ErrNotFound,
	"NoSuchBucket":                       ErrBucketNotFound,
	"InvalidBucketName":                  ErrBucketNotFound,
	"InvalidAccessKeyId":                 ErrCredentials,
	"SignatureDoesNotMatch":              ErrCredentials,
	"ExpiredToken":                       ErrCredentials,
	"ExpiredTokenException":              ErrCredentials,
	"InvalidToken":                       ErrCredentials,
	"InvalidTokenId":                     ErrCredentials,
	"InvalidClientTokenId":               ErrCredentials,
	"TokenRefreshRequired":               ErrCredentials,
	"InvalidSecurity":                    ErrCredentials,
	"XMinioInvalidAccessKeyID":           ErrCredentials,
	"AccessDenied":                       ErrAccessDenied,
	"AllAccessDisabled":                  ErrAccessDenied,
	"AccountProblem":                     ErrAccessDenied,
	"PermanentRedirect":                  ErrInvalidConfig,
	"InvalidRegion":                      ErrInvalidConfig,
	"IllegalLocationConstraintException": ErrInvalidConfig,
	"RequestTimeout":                     ErrUnreachable,
	"SlowDown":                           ErrUnreachable,
	"Throttling":                         ErrUnreachable,
	"OperationAborted":                   ErrUnreachable,
	"TemporaryRedirect":                  ErrUnreachable,
	"InternalError":                      ErrUnreachable,
	"ServiceUnavailable":                 ErrUnreachable,
	"XMinioServerNotInitialized":         ErrUnreachable,
	"RequestTimeTooSkewed":               ErrStore,
	"InvalidObjectState":                 ErrStore, // archived: it must be brought back first
	"XMinioStorageFull":                  ErrStore, // waiting does not make room
	"QuotaExceeded":                      ErrStore,
}

func kindOfReply(said reply) error {
	if kind, known := kindOfCode[said.code]; known {
		return kind
	}
	if said.code == "AuthorizationHeaderMalformed" {
		if strings.Contains(said.message, "region") {
			return ErrInvalidConfig
		}
		return ErrCredentials
	}
	return kindOfStatus(said.status)
}

func kindOfStatus(status int) error {
	switch status {
	case http.StatusMovedPermanently:
		return ErrInvalidConfig
	case http.StatusUnauthorized:
		return ErrCredentials
	case http.StatusForbidden:
		return ErrAccessDenied
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return ErrUnreachable
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusInsufficientStorage:
		return ErrStore
	}
	if status >= http.StatusInternalServerError {
		return ErrUnreachable
	}
	return ErrStore
}

// classifyTransport finds the kind of an error that no reply of the store caused.
func classifyTransport(err error) finding {
	reason := innermost(err).Error()
	if strings.HasPrefix(reason, "Connection closed by foreign host") { // minio-go's own words, with the whole URL
		reason = "the connection was closed before the answer"
	}
	switch {
	case speaksNoTLS(err):
		return finding{ErrCertificate, reason, "the endpoint speaks plain HTTP: write http:// or correct its port"}
	case rejectsCertificate(err):
		return finding{ErrCertificate, reason, adviceOf[ErrCertificate]}
	case isNetwork(err):
		return finding{ErrUnreachable, reason, adviceOf[ErrUnreachable]}
	default:
		return finding{ErrStore, reason, "check that the endpoint is that of an object store"}
	}
}

func speaksNoTLS(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

func rejectsCertificate(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		alert        tls.AlertError
	)
	const internalError = tls.AlertError(80) // the server's own trouble, which may pass
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || (errors.As(err, &alert) && alert != internalError)
}

// isNetwork takes every failure of a request as a whole for one of the network: http.Client wraps them all alike.
func isNetwork(err error) bool {
	var (
		request *url.Error
		network net.Error
	)
	return errors.As(err, &request) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded)
}

// innermost drops what the libraries put before the error of a request: operation, request ID, the whole URL.
func innermost(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

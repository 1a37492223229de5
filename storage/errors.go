package storage

import (
	"errors"
	"fmt"
	"strings"
)

// Error is the error of a Store: one kind, and a text for people that says what failed, on what, why, and what to do
// next. No secret stands in it.
type Error struct {
	// Kind is one of the kinds of this package.
	Kind error
	// Subject says what failed and on what: upload of s3://backups/a to https://minio:9000.
	Subject string
	// Reason is why: what the store or the network said.
	Reason string
	// Advice says what to do next; empty where there is nothing.
	Advice string

	cause error
}

// Error returns subject, kind, reason and advice as one sentence.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", e.Subject, e.Kind)
	if e.Reason != "" {
		fmt.Fprintf(&text, " (%s)", e.Reason)
	}
	if e.Advice != "" {
		text.WriteString("; " + e.Advice)
	}
	return text.String()
}

// Unwrap returns the kind and the error of the library.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// adviceOf says what to do about an error of a kind, where nothing better is known.
var adviceOf = map[error]string{
	ErrNotFound:       "check the key, and whether something else deleted the object",
	ErrBucketNotFound: "create the bucket, or correct its name or the endpoint",
	ErrCredentials:    "check accessKeyID and secretAccessKey in the store's Secret",
	ErrAccessDenied: "let the policy of these credentials allow this on the bucket (stores also deny reading an object " +
		"that does not exist to those who may not list the bucket)",
	ErrCertificate: "name the CA that signed the store's certificate in caSecretRef, and reach the store under a name " +
		"that its certificate holds",
	ErrUnreachable:   "check the endpoint, its DNS name, the network policies and the store's health, then try again",
	ErrStore:         "the store's own log says more",
	ErrInvalidConfig: "set the region to the bucket's own",
}

// operation is what a Store is doing, for its errors.
type operation struct {
	verb string // upload of, read of …
	key  string // may be empty
}

// explain turns an error of a library into an Error of one kind. An Error stays as it is.
func (s *store) explain(stopped error, what operation, err error) error {
	if err == nil {
		return nil
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return err
	}
	found := classify(stopped, err)
	return &Error{Kind: found.kind, Subject: s.subject(what), Reason: s.redact(found.reason),
		Advice: found.advice, cause: err}
}

func (s *store) subject(what operation) string {
	return fmt.Sprintf("%s %s at %s", what.verb, URL(s.bucket, what.key), s.endpoint)
}

// leastSecret is the length from which a credential is redacted: stores issue none below 8 bytes, and removing a
// short word would garble the text.
const leastSecret = 8

// redact removes the credentials from a text that a store or a library wrote.
func (s *store) redact(text string) string {
	for _, secret := range s.secrets {
		if len(secret) >= leastSecret {
			text = strings.ReplaceAll(text, secret, "[removed]")
		}
	}
	return text
}

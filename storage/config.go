package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// Files of Config.CredentialsDir.
const (
	AccessKeyIDFile     = "accessKeyID"
	SecretAccessKeyFile = "secretAccessKey"
	SessionTokenFile    = "sessionToken"
)

// New returns the store that config describes. It reads the credentials and the CA once, and sends nothing to the
// store itself; where no CredentialsDir is set, it asks the environment's own source of credentials.
func New(ctx context.Context, config Config) (Store, error) {
	s, err := open(ctx, config, defaultTuning)
	if err != nil {
		return nil, err // and no *store that is nil
	}
	return s, nil
}

func open(ctx context.Context, config Config, tune tuning) (*store, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	keys, err := readKeys(config.CredentialsDir)
	if err != nil {
		return nil, err
	}
	trust, err := config.tls()
	if err != nil {
		return nil, err
	}
	transport := tune.wrap(newTransport(trust))
	s := &store{bucket: config.Bucket, endpoint: config.Endpoint, checksums: config.PartChecksums, tune: tune}
	s.plain = strings.HasPrefix(config.Endpoint, "http://")
	switch config.Provider {
	case ProviderAWS:
		err = s.useAWS(ctx, config, keys, transport)
	case ProviderS3Compatible:
		err = s.useMinIO(config, keys, transport)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c Config) validate() error {
	problem := bucketProblem(c.Bucket)
	switch {
	case c.Provider != ProviderAWS && c.Provider != ProviderS3Compatible:
		problem = fmt.Sprintf("provider %q is neither %s nor %s", c.Provider, ProviderAWS, ProviderS3Compatible)
	case problem != "":
	case c.Endpoint == "" && c.Provider == ProviderS3Compatible:
		problem = "provider S3Compatible needs an endpoint, for example https://minio.minio.svc:9000"
	case c.Endpoint != "":
		problem = endpointProblem(c.Endpoint)
	}
	if problem == "" && strings.ContainsFunc(c.Region, notInRegion) {
		problem = fmt.Sprintf("%q is no name of a region", c.Region)
	}
	if problem != "" {
		return &Error{Kind: ErrInvalidConfig, Subject: "object store", Reason: problem}
	}
	return nil
}

func notInRegion(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
}

func endpointProblem(endpoint string) string {
	// A URL that does not parse or that holds a password is not repeated.
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "the endpoint is no URL; write it as https://host:port"
	case parsed.User != nil:
		return "the endpoint holds a user name or password; these belong into the store's Secret"
	case parsed.Scheme != "https" && parsed.Scheme != "http":
		return fmt.Sprintf("the endpoint %q does not begin with https:// (or http://)", endpoint)
	case parsed.Hostname() == "":
		return fmt.Sprintf("the endpoint %q names no host", endpoint)
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Sprintf("the endpoint %q has more than scheme, host and port; the bucket is a field of its own", endpoint)
	}
	return ""
}

// accessKeys are credentials. They have no String method that shows them, on purpose.
type accessKeys struct {
	id, secret, token string
}

func (k accessKeys) String() string   { return "[credentials]" }
func (k accessKeys) GoString() string { return k.String() }

// readKeys reads the credentials of dir; without one, it returns none.
func readKeys(dir string) (accessKeys, error) {
	if dir == "" {
		return accessKeys{}, nil
	}
	var (
		keys accessKeys
		err  error
	)
	if keys.id, err = readKey(dir, AccessKeyIDFile); err != nil {
		return accessKeys{}, err
	}
	if keys.secret, err = readKey(dir, SecretAccessKeyFile); err != nil {
		return accessKeys{}, err
	}
	keys.token, err = readKey(dir, SessionTokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEmptyKey) {
		return accessKeys{}, err
	}
	return keys, nil
}

var errEmptyKey = errors.New("empty")

// readKey reads one credential, without the newline that editors and `kubectl create secret --from-file` leave at its
// end.
func readKey(dir, name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	value := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	problem := &Error{Kind: ErrCredentialsMissing, Subject: "credentials of the object store", cause: err,
		Advice: "set it in the store's Secret"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem.Reason = fmt.Sprintf("the key %s is absent", name)
	case err != nil:
		problem.Reason = fmt.Sprintf("the key %s cannot be read: %v", name, errors.Unwrap(err))
	case value == "":
		problem.Reason, problem.cause = fmt.Sprintf("the key %s is empty", name), errEmptyKey
	case strings.ContainsFunc(value, notInKey):
		problem.Kind = ErrCredentials
		problem.Reason = fmt.Sprintf("the key %s holds white space or another character that no credential has", name)
	default:
		return value, nil
	}
	return "", problem
}

func notInKey(r rune) bool {
	return r <= ' ' || r >= unicode.MaxASCII
}

// tls returns how the store's certificate is verified.
func (c Config) tls() (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return trust, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, badCA(fmt.Sprintf("%s cannot be read: %v", filepath.Base(c.CAFile), errors.Unwrap(err)), err)
	}
	trust.RootCAs = x509.NewCertPool()
	if !trust.RootCAs.AppendCertsFromPEM(pem) {
		return nil, badCA(filepath.Base(c.CAFile)+" holds no certificate in PEM form", nil)
	}
	return trust, nil
}

func badCA(reason string, cause error) error {
	return &Error{Kind: ErrInvalidConfig, Subject: "CA of the object store", Reason: reason, cause: cause,
		Advice: "let caSecretRef name a key that holds the CA's certificate"}
}

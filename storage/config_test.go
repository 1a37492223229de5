package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigThatCannotBeRight(t *testing.T) {
	good := Config{Provider: ProviderS3Compatible, Bucket: "backups", Endpoint: "https://minio:9000"}
	cases := map[string]struct {
		change  func(*Config)
		problem string
	}{
		"no provider":          {func(c *Config) { c.Provider = "" }, "neither AWS nor S3Compatible"},
		"no bucket":            {func(c *Config) { c.Bucket = "" }, "no bucket"},
		"bucket with a slash":  {func(c *Config) { c.Bucket = "backups/prod" }, "no name of a bucket"},
		"no endpoint":          {func(c *Config) { c.Endpoint = "" }, "needs an endpoint"},
		"no scheme":            {func(c *Config) { c.Endpoint = "minio:9000" }, "https://"},
		"other scheme":         {func(c *Config) { c.Endpoint = "ftp://minio" }, "https://"},
		"no host":              {func(c *Config) { c.Endpoint = "https://" }, "no host"},
		"path":                 {func(c *Config) { c.Endpoint = "https://minio:9000/backups" }, "scheme, host and port"},
		"query":                {func(c *Config) { c.Endpoint = "https://minio:9000?x=1" }, "scheme, host and port"},
		"password":             {func(c *Config) { c.Endpoint = "https://me:hunter2@minio:9000" }, "Secret"},
		"no URL":               {func(c *Config) { c.Endpoint = "https://me:hunter2@minio:port" }, "no URL"},
		"region":               {func(c *Config) { c.Region = "eu west" }, "region"},
		"CA is absent":         {func(c *Config) { c.CAFile = "/nowhere/ca.crt" }, "ca.crt"},
		"CA is no certificate": {func(c *Config) { c.CAFile = fileWith(t, "hello") }, "PEM"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := good
			config.CredentialsDir = credentialsOf(t, map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "secret"})
			c.change(&config)
			store, err := New(t.Context(), config)
			if store != nil || !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v, want one of %q", err, c.problem)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Error("the password is shown")
			}
		})
	}
}

func TestAWSNeedsARegionOrAnEndpoint(t *testing.T) {
	for _, variable := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(variable, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	config := Config{Provider: ProviderAWS, Bucket: "backups",
		CredentialsDir: credentialsOf(t, map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "secret"})}
	if _, err := New(t.Context(), config); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "region") {
		t.Errorf("got %v", err)
	}
	config.Region = "eu-west-3"
	if _, err := New(t.Context(), config); err != nil {
		t.Errorf("with a region: %v", err)
	}
}

func TestCredentialFiles(t *testing.T) {
	cases := map[string]struct {
		files   map[string]string
		kind    error
		problem string
	}{
		"all":           {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "s+/=", SessionTokenFile: "t"}, nil, ""},
		"newline":       {map[string]string{AccessKeyIDFile: "id\n", SecretAccessKeyFile: "s+/=\r\n", SessionTokenFile: "t\n"}, nil, ""},
		"no ID":         {map[string]string{SecretAccessKeyFile: "s"}, ErrCredentialsMissing, AccessKeyIDFile},
		"no secret":     {map[string]string{AccessKeyIDFile: "id"}, ErrCredentialsMissing, SecretAccessKeyFile},
		"empty secret":  {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "\n"}, ErrCredentialsMissing, SecretAccessKeyFile},
		"two newlines":  {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "hunter2\n\n"}, ErrCredentials, SecretAccessKeyFile},
		"line break":    {map[string]string{AccessKeyIDFile: "hunter2\nb", SecretAccessKeyFile: "s"}, ErrCredentials, AccessKeyIDFile},
		"no token":      {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "s+/="}, nil, ""},
		"an empty one":  {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "s+/=", SessionTokenFile: ""}, nil, ""},
		"broken token":  {map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "s", SessionTokenFile: "a b"}, ErrCredentials, SessionTokenFile},
		"nothing there": {nil, ErrCredentialsMissing, AccessKeyIDFile},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys, err := readKeys(credentialsOf(t, c.files))
			if c.kind == nil {
				if err != nil || keys.id != "id" || keys.secret != "s+/=" || strings.TrimSuffix(c.files[SessionTokenFile], "\n") != keys.token {
					t.Errorf("read %q %q %q, %v", keys.id, keys.secret, keys.token, err)
				}
				return
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v, want %v of %s", err, c.kind, c.problem)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Error("the secret is shown")
			}
		})
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	keys := accessKeys{id: "hunter1", secret: "hunter2", token: "hunter3"}
	if text := fmt.Sprintf("%v %+v %#v %s", keys, keys, keys, keys); strings.Contains(text, "hunter") {
		t.Error(text)
	}
}

func TestNoCredentialsAnywhere(t *testing.T) {
	for name, value := range map[string]string{"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "",
		"AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/nobody-listens"} {
		t.Setenv(name, value)
	}
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		_, err := New(t.Context(), Config{Provider: provider, Bucket: "backups", Region: "eu-west-3", Endpoint: "https://minio:9000"})
		assertKind(t, err, ErrCredentialsMissing)
		if !strings.Contains(err.Error(), "credentialsSecretRef") {
			t.Errorf("%s: %v", provider, err)
		}
	}
}

func credentialsOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func fileWith(t *testing.T, content string) string {
	t.Helper()
	return filepath.Join(credentialsOf(t, map[string]string{"ca.crt": content}), "ca.crt")
}

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

// everyCall makes each call of Store and hands its error on.
func everyCall(ctx context.Context, s Store, check func(call string, err error)) {
	large := bytes.NewReader(content(2 * testPart))
	_, err := s.Put(ctx, testKey, strings.NewReader("small"), 5)
	check("Put", err)
	check("Put of 3 MiB", putUntilAnswered(ctx, s, content(3*mebi)))
	_, err = s.Put(ctx, testKey, large, large.Size())
	check("Put in parts", err)
	_, err = s.PutStream(ctx, testKey, large)
	check("PutStream", err)
	reader, _, err := s.Get(ctx, testKey, 0)
	if err == nil {
		_ = reader.Close()
	}
	check("Get", err)
	_, err = s.Stat(ctx, testKey)
	check("Stat", err)
	check("Delete", s.Delete(ctx, testKey))
	check("AbortUploads", s.AbortUploads(ctx, testKey))
	_, err = s.CheckWrite(ctx, testKey)
	check("CheckWrite", err)
}

// putUntilAnswered puts again what broke off before an answer was read. A store that refuses a body may close the
// connection while it is still being sent, and then TCP throws its answer away: who uploads asks again, as agents do.
func putUntilAnswered(ctx context.Context, s Store, body []byte) error {
	for tries := 1; ; tries++ {
		_, err := s.Put(ctx, testKey, bytes.NewReader(body), int64(len(body)))
		if tries == 10 || err == nil || !strings.Contains(err.Error(), "connection reset by peer") {
			return err
		}
	}
}

func TestWhatTheStoreRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(f *fixture)
		kind   error
	}{
		"wrong key ID": {func(f *fixture) {
			f.config.CredentialsDir = miniotest.CredentialsDir(f.T, "nobody-knows-me", f.server.SecretKey, "")
		}, ErrCredentials},
		"wrong secret": {func(f *fixture) {
			f.config.CredentialsDir = miniotest.CredentialsDir(f.T, f.server.AccessKey, "hunter2hunter2", "")
		}, ErrCredentials},
		"wrong token": {func(f *fixture) {
			f.config.CredentialsDir = miniotest.CredentialsDir(f.T, f.server.AccessKey, f.server.SecretKey, "hunter2")
		}, ErrCredentials},
		"no permission": {func(f *fixture) {
			f.config.CredentialsDir = f.server.LimitedCredentialsDir(f.T, policyFor("s3:GetObject", "elsewhere"))
		}, ErrAccessDenied},
		"wrong bucket": {func(f *fixture) { f.config.Bucket = "nobody-made-me" }, ErrBucketNotFound},
		"wrong region": {func(f *fixture) { f.config.Region = "eu-west-3" }, ErrInvalidConfig},
		"wrong CA":     {func(f *fixture) { f.config.CAFile = miniotest.OtherCA(f.T) }, ErrCertificate},
		"no CA":        {func(f *fixture) { f.config.CAFile = "" }, ErrCertificate},
		"name not in it": {func(f *fixture) {
			f.config.Endpoint = strings.Replace(f.config.Endpoint, "127.0.0.1", "localhost", 1)
		}, ErrCertificate},
		"nobody listens": {func(f *fixture) { f.config.Endpoint = "https://127.0.0.1:1" }, ErrUnreachable},
		"no such host":   {func(f *fixture) { f.config.Endpoint = "https://minio.invalid:9000" }, ErrUnreachable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(f *fixture) {
				c.change(f)
				s, err := open(f.Context(), f.config, f.tune)
				if err != nil {
					f.Fatal(err)
				}
				everyCall(f.Context(), s, func(call string, err error) {
					f.Run(call, func(t *testing.T) {
						assertKind(t, err, c.kind)
						assertForPeople(t, f, err)
					})
				})
			})
		})
	}
}

// The server answers in plain text and hangs up; which of the two arrives first is chance.
func TestPlainHTTPToAStoreWithTLS(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.Endpoint = strings.Replace(f.config.Endpoint, "https", "http", 1)
		everyCall(f.Context(), f.open(), func(call string, err error) {
			if !errors.Is(err, ErrStore) && !errors.Is(err, ErrUnreachable) {
				f.Errorf("%s: %v", call, err)
			}
		})
		f.assertNothing()
	})
}

func policyFor(action, bucket string) string { return policyOf([]string{action}, bucket) }

// policyOf allows actions on a bucket and on all that is in it.
func policyOf(actions []string, bucket string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["%s"],"Resource":["arn:aws:s3:::%s","arn:aws:s3:::%s/*"]}]}`,
		strings.Join(actions, `","`), bucket, bucket)
}

// assertForPeople checks that an error names the object and the endpoint, and holds no secret.
func assertForPeople(t *testing.T, f *fixture, err error) {
	t.Helper()
	text := err.Error()
	for _, part := range []string{URL(f.config.Bucket, testKey), f.config.Endpoint, "; "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
	for _, secret := range []string{f.server.SecretKey, f.server.AccessKey, "hunter2", "Signature="} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is in: %s", text)
		}
	}
}

func TestLimitedCredentialsWithATokenWork(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.CredentialsDir = f.server.LimitedCredentialsDir(f.T, policyFor("s3:*", f.config.Bucket))
		want := content(2*testPart + 1)
		info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(len(want)))
		f.assertStored(f.T, info, err, want)
	})
}

func TestCredentialsOfTheEnvironment(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.CredentialsDir = ""
		f.Setenv("AWS_ACCESS_KEY_ID", f.server.AccessKey)
		f.Setenv("AWS_SECRET_ACCESS_KEY", f.server.SecretKey)
		info, err := f.open().Put(f.Context(), testKey, strings.NewReader("x"), 1)
		f.assertStored(f.T, info, err, []byte("x"))
	})
}

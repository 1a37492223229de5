package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

func TestMain(m *testing.M) { os.Exit(miniotest.Run(m)) }

const (
	testKey  = "prod/shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst"
	testUID  = "3f2a91c0-7d55-4e0a-9b0e-2f1f0d6a4c11"
	testPart = 5 * mebi // the smallest that S3 takes
)

// fixture is one implementation at a bucket of its own.
type fixture struct {
	*testing.T
	server *miniotest.Server
	config Config
	tune   tuning
}

// eachProvider runs a test of the contract of Store for both implementations.
func eachProvider(t *testing.T, test func(f *fixture)) {
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		t.Run(string(provider), func(t *testing.T) {
			server := miniotest.Shared(t)
			test(newFixture(t, server, provider))
		})
	}
}

func newFixture(t *testing.T, server *miniotest.Server, provider Provider) *fixture {
	return &fixture{T: t, server: server, tune: smallParts(), config: Config{Provider: provider,
		Bucket: server.Bucket(t), Endpoint: server.Endpoint, Region: "us-east-1",
		CredentialsDir: server.CredentialsDir(t), CAFile: server.CAFile}}
}

// smallParts makes many parts of little content, and waits shortly between tries.
func smallParts() tuning {
	tune := defaultTuning
	tune.partSize = func(int64) int64 { return testPart }
	tune.streamPart = func(number int) (int64, int) { // two steps, so that the slab is cut anew
		if number <= 3 {
			return testPart, 3
		}
		return 2 * testPart, 2
	}
	tune.delay = func(int) time.Duration { return 20 * time.Millisecond }
	return tune
}

func (f *fixture) open() *store {
	f.Helper()
	s, err := open(f.Context(), f.config, f.tune)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *fixture) object(key string) []byte { return f.server.Object(f.T, f.config.Bucket, key) }

// assertNothing checks with an independent client that neither an object nor an upload is left.
func (f *fixture) assertNothing() {
	f.Helper()
	if keys := f.server.Keys(f.T, f.config.Bucket); len(keys) > 0 {
		f.Errorf("objects are left: %q", keys)
	}
	f.assertNoUploads()
}

func (f *fixture) assertNoUploads() {
	f.Helper()
	if ids := f.server.Uploads(f.T, f.config.Bucket, testKey); len(ids) > 0 {
		f.Errorf("uploads are left: %q", ids)
	}
	if count := f.server.UploadsOnDisk(f.T); count > 0 {
		f.Errorf("%d uploads are left on the server's disk", count)
	}
}

// content returns bytes that look random and are the same at each call.
func content(size int) []byte {
	made := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(made)
	return made
}

func assertSame(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("%s: got %d bytes that differ from the %d sent", what, len(got), len(want))
	}
}

var uploadSizes = map[string]int{
	"empty":                   0,
	"one byte":                1,
	"one part":                testPart,
	"one part and a byte":     testPart + 1,
	"three parts":             3 * testPart,
	"seven of unequal parts":  6*testPart + 12345,
	"70 MiB":                  70 * mebi,
	"small but over 1 MiB":    2*mebi + 7, // asks before it sends
	"first step of a stream":  3*testPart + 1,
	"second step of a stream": 7 * testPart,
}

func TestPutAndReadBack(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		for name, size := range uploadSizes {
			f.Run(name, func(t *testing.T) {
				want := content(size)
				info, err := f.open().Put(t.Context(), testKey, bytes.NewReader(want), int64(size))
				f.assertStored(t, info, err, want)
			})
		}
	})
}

func TestPutStreamAndReadBack(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		for name, size := range uploadSizes {
			f.Run(name, func(t *testing.T) {
				want := content(size)
				// A source that returns little at a time, as a pipe does.
				info, err := f.open().PutStream(t.Context(), testKey, &dribble{bytes.NewReader(want)})
				f.assertStored(t, info, err, want)
			})
		}
	})
}

type dribble struct{ io.Reader }

func (d *dribble) Read(p []byte) (int, error) { return d.Reader.Read(p[:min(len(p), 64<<10)]) }

// assertStored checks what the store holds with an independent client and through the store itself.
func (f *fixture) assertStored(t *testing.T, info Info, err error, want []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if info.SizeBytes != int64(len(want)) || info.ETag == "" || info.ChecksumsAgree {
		t.Errorf("got %+v", info)
	}
	assertSame(t, "independent client", f.object(testKey), want)
	reader, found, err := f.open().Get(t.Context(), testKey, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	assertSame(t, "read back", got, want)
	if found != info {
		t.Errorf("Get says %+v, the upload said %+v", found, info)
	}
	f.assertNoUploads()
}

func TestPartChecksums(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.PartChecksums = true
		want := content(3*testPart + 5)
		for _, size := range []int{0, 100, len(want)} {
			info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(size))
			if err != nil || !info.ChecksumsAgree {
				f.Errorf("Put of %d bytes: %+v, %v", size, info, err)
			}
			assertSame(f.T, "Put", f.object(testKey), want[:size])
			info, err = f.open().PutStream(f.Context(), testKey, bytes.NewReader(want[:size]))
			if err != nil || !info.ChecksumsAgree {
				f.Errorf("PutStream of %d bytes: %+v, %v", size, info, err)
			}
			assertSame(f.T, "PutStream", f.object(testKey), want[:size])
		}
	})
}

// A store that computes another SHA-256 than was sent has received other bytes.
func TestPartChecksumThatDisagrees(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.PartChecksums = true
		f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil && r.Method == http.MethodPut {
					answer.Header.Set(headerSHA256, base64Of(make([]byte, sha256.Size)))
				}
				return answer, err
			})
		}
		_, err := f.open().Put(f.Context(), testKey, bytes.NewReader(content(2*testPart)), 2*testPart)
		assertKind(f.T, err, ErrStore)
		f.assertNothing()
	})
}

func TestGetFromAnOffset(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		want := "0123456789"
		f.server.Put(f.T, f.config.Bucket, testKey, want)
		s := f.open()
		for _, offset := range []int64{0, 1, 9, 10} {
			reader, info, err := s.Get(f.Context(), testKey, offset)
			if err != nil {
				f.Fatalf("offset %d: %v", offset, err)
			}
			got, err := io.ReadAll(reader)
			if err != nil || string(got) != want[offset:] || info.SizeBytes != 10 || info.ETag == "" {
				f.Errorf("offset %d: %q, %+v, %v", offset, got, info, err)
			}
			if err := reader.Close(); err != nil {
				f.Error(err)
			}
		}
		for _, offset := range []int64{-1, 11} {
			_, _, err := s.Get(f.Context(), testKey, offset)
			assertKind(f.T, err, ErrStore)
		}
	})
}

func TestStat(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "12345")
		info, err := f.open().Stat(f.Context(), testKey)
		if err != nil || info.SizeBytes != 5 || info.ETag == "" || strings.Contains(info.ETag, `"`) {
			f.Errorf("%+v, %v", info, err)
		}
	})
}

func TestObjectThatIsNotThere(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		s := f.open()
		_, err := s.Stat(f.Context(), testKey)
		assertKind(f.T, err, ErrNotFound)
		_, _, err = s.Get(f.Context(), testKey, 0)
		assertKind(f.T, err, ErrNotFound)
		_, _, err = s.Get(f.Context(), testKey, 5)
		assertKind(f.T, err, ErrNotFound)
		if err := s.AbortUploads(f.Context(), testKey); err != nil {
			f.Error(err)
		}
	})
}

func TestDeleteTwice(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "x")
		f.server.Put(f.T, f.config.Bucket, testKey+".other", "x")
		for range 2 {
			if err := f.open().Delete(f.Context(), testKey); err != nil {
				f.Fatal(err)
			}
			if keys := f.server.Keys(f.T, f.config.Bucket); !slices.Equal(keys, []string{testKey + ".other"}) {
				f.Errorf("left: %q", keys)
			}
		}
	})
}

func TestAbortUploadsOfExactlyOneKey(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		longer := testKey + ".other"
		kept := f.server.StartUpload(f.T, f.config.Bucket, longer)
		for range 2 {
			f.server.StartUpload(f.T, f.config.Bucket, testKey)
		}
		if err := f.open().AbortUploads(f.Context(), testKey); err != nil {
			f.Fatal(err)
		}
		if ids := f.server.Uploads(f.T, f.config.Bucket, testKey); len(ids) > 0 {
			f.Errorf("left: %q", ids)
		}
		if ids := f.server.Uploads(f.T, f.config.Bucket, longer); !slices.Equal(ids, []string{kept}) {
			f.Errorf("of another key: %q", ids)
		}
		if err := f.open().AbortUploads(f.Context(), longer); err != nil {
			f.Fatal(err)
		}
		f.assertNothing()
	})
}

func TestAwkwardKeys(t *testing.T) {
	keys := []string{"a b/c+d%20e%/f&g=h;i", "ünï/日本語/💾.zst", `quo"te's/<x>/[y]{z}`, "a#b?c=d/~e!*()", "s3:/x",
		"trailing.dots.../..x/.hidden", strings.Repeat("long/", 180) + "end"}
	eachProvider(t, func(f *fixture) {
		s := f.open()
		for _, key := range keys {
			if _, err := s.Put(f.Context(), key, strings.NewReader(key), int64(len(key))); err != nil {
				f.Errorf("%q: %v", key, err)
				continue
			}
			if got := f.object(key); string(got) != key {
				f.Errorf("%q: holds %q", key, got)
			}
			f.server.StartUpload(f.T, f.config.Bucket, key)
			if err := errors.Join(s.AbortUploads(f.Context(), key), s.Delete(f.Context(), key)); err != nil {
				f.Errorf("%q: %v", key, err)
			}
		}
		f.assertNothing()
	})
}

func TestKeysThatAreRefused(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		s := f.open()
		for _, key := range []string{"", "/a", "a//b", "a/../b", "..", "a/", "a\nb", "\xff", strings.Repeat("k", 1025)} {
			_, err := s.Put(f.Context(), key, strings.NewReader(""), 0)
			assertKind(f.T, err, ErrInvalidConfig)
			_, err = s.PutStream(f.Context(), key, strings.NewReader(""))
			assertKind(f.T, err, ErrInvalidConfig)
			_, _, err = s.Get(f.Context(), key, 0)
			assertKind(f.T, err, ErrInvalidConfig)
			_, err = s.Stat(f.Context(), key)
			assertKind(f.T, err, ErrInvalidConfig)
			assertKind(f.T, s.Delete(f.Context(), key), ErrInvalidConfig)
			assertKind(f.T, s.AbortUploads(f.Context(), key), ErrInvalidConfig)
		}
	})
}

// everyCall makes each call of Store and hands its error on.
func everyCall(ctx context.Context, s Store, check func(call string, err error)) {
	large := bytes.NewReader(content(2 * testPart))
	_, err := s.Put(ctx, testKey, strings.NewReader("small"), 5)
	check("Put", err)
	_, err = s.Put(ctx, testKey, bytes.NewReader(content(3*mebi)), 3*mebi)
	check("Put of 3 MiB", err)
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

func policyFor(action, bucket string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":[%q],"Resource":["arn:aws:s3:::%s/*"]}]}`,
		action, bucket)
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

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// counter counts calls across goroutines.
type counter struct{ atomic.Int64 }

package storage

import (
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"os"
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

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// counter counts calls across goroutines.
type counter struct{ atomic.Int64 }

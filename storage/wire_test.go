package storage

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is the least of an S3 store: it takes what is uploaded and keeps the requests.
type recorder struct {
	mutex    sync.Mutex
	requests []*http.Request
	bodies   map[string][]byte // by part number; empty for a whole object
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests = append(s.requests, r)
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case r.Method == http.MethodPut:
		s.bodies[r.URL.Query().Get("partNumber")] = body
	case r.Method == http.MethodHead:
		size := 0
		for _, stored := range s.bodies {
			size += len(stored)
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
	case isCreate(r):
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case isComplete(r):
		_, _ = io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>backups</Bucket><ETag>e</ETag></CompleteMultipartUploadResult>")
	}
}

// Bodies must arrive as they are: what the SDKs write around them for checksums or signatures of chunks is stored as
// content by some of S3's kin and refused by others.
func TestBodiesAreSentWithoutFraming(t *testing.T) {
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		for _, secure := range []bool{true, false} {
			for _, checksums := range []bool{true, false} {
				name := fmt.Sprintf("%s, TLS %v, checksums %v", provider, secure, checksums)
				t.Run(name, func(t *testing.T) { checkFraming(t, provider, secure, checksums) })
			}
		}
	}
}

func checkFraming(t *testing.T, provider Provider, secure, checksums bool) {
	config := Config{Provider: provider, Bucket: "backups", Region: "us-east-1", PartChecksums: checksums,
		CredentialsDir: credentialsOf(t, map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "secret"})}
	for _, size := range []int{0, 10, 3*testPart + 1} {
		seen := &recorder{bodies: map[string][]byte{}}
		server := serve(t, seen, secure, &config)
		s, err := open(t.Context(), config, smallParts())
		if err != nil {
			t.Fatal(err)
		}
		want := content(size)
		if _, err := s.Put(t.Context(), "k", bytes.NewReader(want), int64(size)); err != nil {
			t.Fatal(err)
		}
		server.Close()
		assertSame(t, "received", seen.whole(), want)
		for _, request := range seen.requests {
			assertUnframed(t, request, checksums)
		}
	}
}

func serve(t *testing.T, handler http.Handler, secure bool, config *Config) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	if secure {
		server.StartTLS()
		raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		config.CAFile = filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(config.CAFile, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		server.Start()
	}
	config.Endpoint = server.URL
	t.Cleanup(server.Close)
	return server
}

func (s *recorder) whole() []byte {
	if whole, found := s.bodies[""]; found {
		return whole
	}
	var joined []byte
	for number := 1; number <= len(s.bodies); number++ {
		joined = append(joined, s.bodies[fmt.Sprint(number)]...)
	}
	return joined
}

func assertUnframed(t *testing.T, r *http.Request, checksums bool) {
	t.Helper()
	if r.Header.Get("X-Amz-Trailer") != "" || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") || len(r.TransferEncoding) > 0 {
		t.Errorf("%s %s is framed: %v", r.Method, r.URL, r.Header)
	}
	if r.Method != http.MethodPut {
		return
	}
	var sums []string
	for header := range r.Header {
		if strings.HasPrefix(header, "X-Amz-Checksum-") {
			sums = append(sums, header)
		}
	}
	if checksums != (len(sums) == 1 && sums[0] == "X-Amz-Checksum-Sha256") || !checksums && len(sums) > 0 {
		t.Errorf("%s %s has checksums %v, wanted: %v", r.Method, r.URL, sums, checksums)
	}
}

// webServer reads what it is sent and knows nothing of it. One that answers before it has read all cuts the connection, and
// whether its answer is read first is then a matter of chance.
func webServer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	http.NotFound(w, r)
}

// A web server that is no object store must not be taken for one without the object.
func TestWebServerIsNoStoreWithoutTheObject(t *testing.T) {
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		t.Run(string(provider), func(t *testing.T) {
			config := Config{Provider: provider, Bucket: "backups", Region: "us-east-1",
				CredentialsDir: credentialsOf(t, map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "secret"})}
			serve(t, http.HandlerFunc(webServer), true, &config)
			s, err := New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			everyCall(t.Context(), s, func(call string, err error) {
				t.Run(call, func(t *testing.T) { assertKind(t, err, ErrStore) })
			})
		})
	}
}

func TestHTTPSToAStoreWithoutTLS(t *testing.T) {
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		config := Config{Provider: provider, Bucket: "backups", Region: "us-east-1",
			CredentialsDir: credentialsOf(t, map[string]string{AccessKeyIDFile: "id", SecretAccessKeyFile: "secret"})}
		serve(t, http.NotFoundHandler(), false, &config)
		config.Endpoint = strings.Replace(config.Endpoint, "http:", "https:", 1)
		s, err := New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Stat(t.Context(), "k")
		assertKind(t, err, ErrCertificate)
		if !strings.Contains(err.Error(), "write http://") {
			t.Errorf("%s: %v", provider, err)
		}
	}
}

func TestConnectionOnWhichNothingMoves(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	connection := &stallingConn{Conn: near, limit: 10 * time.Millisecond}
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := connection.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	assertKind(t, (&store{}).explain(nil, operation{}, os.ErrDeadlineExceeded), ErrUnreachable)
}

// A large part takes longer to send than its answer may be waited for.
func TestWriteKeepsAWaitingReadAlive(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	const limit = 200 * time.Millisecond
	connection := &stallingConn{Conn: near, limit: limit}
	answered := make(chan error, 1)
	go func() {
		_, err := connection.Read(make([]byte, 1))
		answered <- err
	}()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	one := make([]byte, 1)
	for begun := time.Now(); time.Since(begun) < 3*limit; time.Sleep(limit / 20) { // as a slow link
		if _, err := connection.Write(one); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-answered:
		t.Errorf("the read ended meanwhile: %v", err)
	default:
	}
	_ = connection.Close()
	if err := <-answered; err != nil {
		t.Log("the server ended with:", err)
	}
}

func TestBackoffGrows(t *testing.T) {
	for attempt := 1; attempt < defaultTuning.attempts; attempt++ {
		least := 300 * time.Millisecond * 3 / 4
		for range attempt - 1 {
			least *= 3
		}
		if delay := backoff(attempt); delay < least || delay > 2*least {
			t.Errorf("attempt %d: %s", attempt, delay)
		}
	}
}

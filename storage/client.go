package storage

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// client is what a library must do for a store: single requests, tried once, with the library's own errors.
type client interface {
	putObject(ctx context.Context, key string, b body) (part, error)
	createUpload(ctx context.Context, key string) (id string, err error)
	putPart(ctx context.Context, key, upload string, number int, b body) (part, error)
	completeUpload(ctx context.Context, key, upload string, parts []part) error
	abortUpload(ctx context.Context, key, upload string) error
	// uploads lists the open uploads of exactly this key.
	uploads(ctx context.Context, key string) ([]string, error)
	// get opens the given byte range, in the form of the Range header; empty: all.
	get(ctx context.Context, key, byteRange string) (answer, error)
	head(ctx context.Context, key string) (Info, error)
	remove(ctx context.Context, key string) error
}

// part is what the store said of bytes that it received.
type part struct {
	number int
	etag   string
	sha256 string // base64, empty where the store computed none
}

// answer is an open object. Its info has the size of the whole object.
type answer struct {
	body io.ReadCloser
	info Info
	// ranged says that the store honoured the byte range.
	ranged bool
}

// body is a section of what is uploaded, sent as one request's body. It is read anew for each try.
type body struct {
	source *watchedSource
	offset int64
	size   int64
	sha256 []byte // where the store must check it
	md5    []byte // the same
}

func (b body) reader() *io.SectionReader { return io.NewSectionReader(b.source, b.offset, b.size) }

// hash reads the body once to fill in its SHA-256, or else its MD5.
func (b *body) hash(withSHA256 bool) error {
	hash := md5.New()
	if withSHA256 {
		hash = sha256.New()
	}
	if _, err := io.CopyBuffer(hash, onlyReader{b.reader()}, make([]byte, bufferSize)); err != nil {
		return sourceError{err}
	}
	if withSHA256 {
		b.sha256 = hash.Sum(nil)
	} else {
		b.md5 = hash.Sum(nil)
	}
	return nil
}

// onlyReader hides WriteTo, which would read in small pieces.
type onlyReader struct{ io.Reader }

// watchedSource remembers the first error of its reader, since libraries report a body that cannot be read as a
// failure of the network.
type watchedSource struct {
	reader io.ReaderAt
	size   int64
	failed atomic.Pointer[error]
}

func bytesSource(content []byte) *watchedSource {
	return &watchedSource{reader: bytes.NewReader(content), size: int64(len(content))}
}

// ReadAt reads from the source. A source that ends before its size is an error.
func (w *watchedSource) ReadAt(p []byte, offset int64) (int, error) {
	n, err := w.reader.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) && offset+int64(n) < w.size {
		err = fmt.Errorf("it ends after %d of %d bytes", offset+int64(n), w.size)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		w.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// blame returns the source's own error where there was one, and err otherwise.
func (w *watchedSource) blame(err error) error {
	if failed := w.failed.Load(); err != nil && failed != nil {
		return sourceError{*failed}
	}
	return err
}

// store makes a Store of a client: it cuts what is uploaded into parts, tries again, cleans up and explains errors.
type store struct {
	client    client
	bucket    string
	endpoint  string
	plain     bool // no TLS: payloads are signed
	checksums bool
	secrets   []string
	tune      tuning
}

// tuning is what tests change.
type tuning struct {
	partSize   func(size int64) int64
	streamPart func(number int) (size int64, buffers int)
	// attempts is how often a request is sent at most while the store is unreachable.
	attempts int
	// delay is how long to wait after an attempt (from 1 on).
	delay func(attempt int) time.Duration
	wrap  func(http.RoundTripper) http.RoundTripper
}

var defaultTuning = tuning{
	partSize:   PartSize,
	streamPart: StreamPart,
	attempts:   5,
	delay:      backoff,
	wrap:       func(t http.RoundTripper) http.RoundTripper { return t },
}

// backoff returns about 0.3 s, 0.9 s, 2.7 s, 8.1 s.
func backoff(attempt int) time.Duration {
	delay := 300 * time.Millisecond
	for range attempt - 1 {
		delay *= 3
	}
	return delay*3/4 + rand.N(delay/2)
}

// try calls until it succeeds, fails for another reason than an unreachable store, or was tried often enough.
func (s *store) try(ctx context.Context, what operation, call func() error) error {
	for attempt := 1; ; attempt++ {
		err := call() // first: the context may end meanwhile
		err = s.explain(context.Cause(ctx), what, err)
		if err == nil || attempt >= s.tune.attempts || !isUnreachable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return s.explain(context.Cause(ctx), what, ctx.Err())
		case <-time.After(s.tune.delay(attempt)):
		}
	}
}

func base64Of(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

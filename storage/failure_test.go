package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

var errDisk = errors.New("input/output error of the disk")

// failingAt reads well until an offset.
type failingAt struct {
	io.ReaderAt
	offset int64
}

func (r failingAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset+int64(len(p)) > r.offset {
		return 0, errDisk
	}
	return r.ReaderAt.ReadAt(p, offset)
}

func TestSourceThatFailsMidway(t *testing.T) {
	whole := content(4 * testPart)
	midway := int64(3*testPart - 100)
	sources := map[string]func(s Store, ctx context.Context) error{
		"Put": func(s Store, ctx context.Context) error {
			_, err := s.Put(ctx, testKey, failingAt{bytes.NewReader(whole), midway}, int64(len(whole)))
			return err
		},
		"Put of one part": func(s Store, ctx context.Context) error {
			_, err := s.Put(ctx, testKey, failingAt{bytes.NewReader(whole), 100}, 1000)
			return err
		},
		"PutStream": func(s Store, ctx context.Context) error {
			source := io.MultiReader(bytes.NewReader(whole[:midway]), iotest.ErrReader(errDisk))
			_, err := s.PutStream(ctx, testKey, source)
			return err
		},
		"PutStream at once": func(s Store, ctx context.Context) error {
			_, err := s.PutStream(ctx, testKey, iotest.ErrReader(errDisk))
			return err
		},
	}
	eachProvider(t, func(f *fixture) {
		for name, upload := range sources {
			f.Run(name, func(t *testing.T) {
				err := upload(f.open(), t.Context())
				assertKind(t, err, ErrSource)
				if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), errDisk.Error()) {
					t.Errorf("its own error is lost: %v", err)
				}
				f.assertNothing()
			})
		}
	})
}

// A source that is cut must never look like one that ended.
func TestSourceThatIsShorterThanItSays(t *testing.T) {
	short := content(3*testPart - 1)
	eachProvider(t, func(f *fixture) {
		_, err := f.open().Put(f.Context(), testKey, bytes.NewReader(short), 3*testPart)
		assertKind(f.T, err, ErrSource)
		_, err = f.open().Put(f.Context(), testKey, bytes.NewReader(short[:9]), 10)
		assertKind(f.T, err, ErrSource)
		for _, cut := range []int{10, 2*testPart + 10} {
			source := io.MultiReader(bytes.NewReader(short[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF))
			_, err = f.open().PutStream(f.Context(), testKey, source)
			assertKind(f.T, err, ErrSource)
		}
		f.assertNothing()
	})
}

func TestSourceThatIsTooLarge(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		for _, size := range []int64{-1, MaxObjectSize + 1} {
			_, err := f.open().Put(f.Context(), testKey, strings.NewReader(""), size)
			assertKind(f.T, err, ErrSource)
		}
		f.assertNothing()
	})
}

// cancelAtPart ends a context when the n-th part is about to be sent.
func cancelAtPart(n int64, cancel func()) func(http.RoundTripper) http.RoundTripper {
	var sent counter
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("partNumber") && sent.Add(1) == n {
				cancel()
			}
			return next.RoundTrip(r)
		})
	}
}

func TestContextThatEndsMidway(t *testing.T) {
	whole := content(6 * testPart)
	stop := errors.New("told to end")
	uploads := map[string]func(s Store, ctx context.Context) error{
		"Put": func(s Store, ctx context.Context) error {
			_, err := s.Put(ctx, testKey, bytes.NewReader(whole), int64(len(whole)))
			return err
		},
		"PutStream": func(s Store, ctx context.Context) error {
			_, err := s.PutStream(ctx, testKey, bytes.NewReader(whole))
			return err
		},
	}
	eachProvider(t, func(f *fixture) {
		for name, upload := range uploads {
			f.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				f.tune.wrap = cancelAtPart(3, func() { cancel(stop) })
				err := upload(f.open(), ctx)
				assertKind(t, err, ErrStopped)
				if !strings.Contains(err.Error(), stop.Error()) {
					t.Error(err)
				}
				f.assertNothing()
			})
		}
	})
}

func TestContextThatEndedBefore(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		s := f.open()
		cancel()
		everyCall(ctx, s, func(call string, err error) {
			f.Run(call, func(t *testing.T) { assertKind(t, err, ErrStopped) })
		})
		f.assertNothing()
	})
}

func TestFormerObjectStaysWhenItsSuccessorFails(t *testing.T) {
	whole := content(4 * testPart)
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "former")
		_, err := f.open().Put(f.Context(), testKey, failingAt{bytes.NewReader(whole), 3 * testPart}, int64(len(whole)))
		assertKind(f.T, err, ErrSource)
		_, err = f.open().Put(f.Context(), testKey, failingAt{bytes.NewReader(whole), 1}, 100)
		assertKind(f.T, err, ErrSource)
		if got := f.object(testKey); string(got) != "former" {
			f.Errorf("it holds %d other bytes", len(got))
		}
		f.assertNoUploads()
	})
}

// troubled lets the first n requests that match fail: with an answer of the store, or with its answer lost on the way.
func troubled(n int64, matches func(*http.Request) bool, trouble func(next http.RoundTripper, r *http.Request) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	var seen counter
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if matches(r) && seen.Add(1) <= n {
				return trouble(next, r)
			}
			return next.RoundTrip(r)
		})
	}
}

func isPart(r *http.Request) bool { return r.URL.Query().Has("partNumber") }
func isCreate(r *http.Request) bool {
	return r.URL.Query().Has("uploads") && r.Method == http.MethodPost
}
func isComplete(r *http.Request) bool {
	return r.URL.Query().Has("uploadId") && r.Method == http.MethodPost
}
func isAny(*http.Request) bool { return true }

func slowDown(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	const text = `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`
	return &http.Response{Status: "503 Service Unavailable", StatusCode: http.StatusServiceUnavailable, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}, nil
}

func answerLost(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	answer, err := next.RoundTrip(r)
	if err == nil {
		_ = answer.Body.Close()
		err = errors.New("connection reset by peer")
	}
	return nil, err
}

func TestTroubleThatPasses(t *testing.T) {
	requests := map[string]func(*http.Request) bool{"part": isPart, "create": isCreate, "complete": isComplete, "any": isAny}
	for name, matches := range requests {
		t.Run(name+" told to slow down", func(t *testing.T) {
			eachProvider(t, func(f *fixture) { f.putThrough(troubled(3, matches, slowDown)) })
		})
		t.Run(name+" of lost answer", func(t *testing.T) {
			eachProvider(t, func(f *fixture) { f.putThrough(troubled(2, matches, answerLost)) })
		})
	}
}

// putThrough uploads parts through a troubled transport.
func (f *fixture) putThrough(trouble func(http.RoundTripper) http.RoundTripper) {
	f.tune.wrap = trouble
	want := content(5*testPart + 3)
	info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(len(want)))
	f.tune = smallParts()
	f.assertStored(f.T, info, err, want)
}

func TestTroubleThatLasts(t *testing.T) {
	for name, matches := range map[string]func(*http.Request) bool{"part": isPart, "create": isCreate, "complete": isComplete} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(f *fixture) {
				f.tune.wrap = troubled(1000, matches, slowDown)
				_, err := f.open().PutStream(f.Context(), testKey, bytes.NewReader(content(3*testPart)))
				assertKind(f.T, err, ErrUnreachable)
				if !strings.Contains(err.Error(), "SlowDown: Please reduce your request rate") {
					f.Error(err)
				}
				f.assertNothing()
			})
		})
	}
}

// An upload whose parts cannot be removed says so.
func TestAbortThatFails(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.tune.wrap = troubled(1000, func(r *http.Request) bool { return isPart(r) || r.Method == http.MethodDelete }, slowDown)
		_, err := f.open().Put(f.Context(), testKey, bytes.NewReader(content(2*testPart)), 2*testPart)
		assertKind(f.T, err, ErrUnreachable)
		if !strings.Contains(err.Error(), "parts stay in the store") {
			f.Error(err)
		}
		f.tune = smallParts()
		if err := f.open().AbortUploads(f.Context(), testKey); err != nil {
			f.Error(err)
		}
		f.assertNothing()
	})
}

func TestServerKilledMidUpload(t *testing.T) {
	server := miniotest.Start(t)
	whole := content(8 * testPart)
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		t.Run(string(provider), func(t *testing.T) {
			f := newFixture(t, server, provider)
			restarted := make(chan error, 1)
			f.tune.wrap = cancelAtPart(4, func() {
				server.Kill()
				go func() { restarted <- server.Restart() }()
			})
			f.tune.attempts, f.tune.delay = defaultTuning.attempts, backoff
			info, err := f.open().Put(t.Context(), testKey, bytes.NewReader(whole), int64(len(whole)))
			if startErr := <-restarted; startErr != nil {
				t.Fatal(startErr)
			}
			if err == nil {
				f.assertStored(t, info, nil, whole)
				return
			}
			assertKind(t, err, ErrUnreachable)
			if err := f.open().AbortUploads(t.Context(), testKey); err != nil {
				t.Error(err)
			}
			f.assertNothing()
		})
	}
}

// A body that ends early, as one of a store that died, is an error and no short artifact.
func TestReadThatIsCut(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "0123456789")
		for name, end := range map[string]error{"clean end": io.EOF, "reset": errors.New("reset"), "cut": io.ErrUnexpectedEOF} {
			f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					answer, err := next.RoundTrip(r)
					if err == nil {
						answer.Body = cutBody{io.MultiReader(io.LimitReader(answer.Body, 4), iotest.ErrReader(end)), answer.Body}
					}
					return answer, err
				})
			}
			reader, _, err := f.open().Get(f.Context(), testKey, 0)
			if err != nil {
				f.Fatal(err)
			}
			got, err := io.ReadAll(reader)
			if string(got) != "0123" || !(errors.Is(err, ErrUnreachable) || errors.Is(err, ErrStore)) {
				f.Errorf("%s: %q, %v", name, got, err)
			}
			if err := reader.Close(); err != nil {
				f.Error(err)
			}
		}
	})
}

type cutBody struct {
	io.Reader
	io.Closer
}

// The memory of a stream is that of its buffers; of a source of known size, no part is held.
func TestMemoryIsBounded(t *testing.T) {
	const size = 200 * mebi
	eachProvider(t, func(f *fixture) {
		f.tune.partSize, f.tune.streamPart = PartSize, StreamPart
		bounds := map[string]struct {
			limit  uint64
			upload func(s Store) error
		}{
			"PutStream": {64*mebi + 16*mebi, func(s Store) error {
				_, err := s.PutStream(f.Context(), testKey, io.LimitReader(zeros{}, size))
				return err
			}},
			"Put": {16 * mebi, func(s Store) error {
				_, err := s.Put(f.Context(), testKey, zeros{}, size)
				return err
			}},
		}
		for name, bound := range bounds {
			f.Run(name, func(t *testing.T) {
				peak := watchHeap(f, func() error { return bound.upload(f.open()) })
				if peak > bound.limit {
					t.Errorf("%d MiB of heap, at most %d MiB were expected", peak/mebi, bound.limit/mebi)
				}
			})
		}
	})
}

// zeros is an endless source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error)            { clear(p); return len(p), nil }
func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

// watchHeap returns the most that upload added to the heap in use, looked at with each part that is sent.
func watchHeap(f *fixture, upload func() error) (peak uint64) {
	f.Helper()
	base := heapInUse()
	looks := make(chan uint64, 100)
	f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if isPart(r) {
				looks <- heapInUse()
			}
			return answer, err
		})
	}
	if err := upload(); err != nil {
		f.Fatal(err)
	}
	close(looks)
	for look := range looks {
		peak = max(peak, look)
	}
	if peak == 0 {
		f.Fatal(fmt.Errorf("no part was sent"))
	}
	return peak - min(base, peak)
}

func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
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
			if string(got) != "0123" || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrStore) {
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

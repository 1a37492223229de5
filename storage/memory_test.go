package storage

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
)

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

package pool

import (
	"errors"
	"testing"
)

func TestChoose(t *testing.T) {
	const mib, total = int64(1 << 20), int64(10 << 30)
	for _, tc := range []struct {
		name  string
		size  Range
		least int64
		want  int64 // 0: ErrSize
	}{
		{"nothing asked for", Range{}, 0, defaultVolumeBytes},
		{"only a limit, below the default", Range{Limit: 100 * mib}, 0, 100 * mib},
		{"only a limit, above the default", Range{Limit: 4 << 30}, 0, defaultVolumeBytes},
		{"a size", Range{Required: 64 * mib}, 0, 64 * mib},
		{"tiny is rounded up", Range{Required: 1}, 0, minVolumeBytes},
		{"tiny, and rounding up is forbidden", Range{Required: 1, Limit: 2}, 0, 0},
		{"a clone as large as its source", Range{}, 64 * mib, 64 * mib},
		{"a larger clone", Range{Required: 128 * mib}, 64 * mib, 128 * mib},
		{"a clone smaller than its source", Range{Required: 32 * mib}, 64 * mib, 0},
		{"a clone limited to less than its source", Range{Limit: 32 * mib}, 64 * mib, 0},
		{"the whole pool", Range{Required: total}, 0, total},
		{"more than the pool", Range{Required: total + 1}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := choose(tc.size, tc.least, total)
			if got != tc.want || errors.Is(err, ErrSize) != (tc.want == 0) {
				t.Errorf("got %d, %v; want %d", got, err, tc.want)
			}
		})
	}
}

// Package pooltest gives tests a pool of their own.
package pooltest

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
)

// Config says where a pool of the test's own would lie, sparse and of 2 GiB, in a folder that goes with the test.
func Config(t *testing.T) pool.Config {
	t.Helper()
	dir := t.TempDir()
	return pool.Config{Image: filepath.Join(dir, "pool.img"), Size: 2 << 30, Mount: filepath.Join(dir, "pool")}
}

// Open opens a pool and closes it when the test ends.
func Open(t *testing.T, cfg pool.Config) *pool.Pool {
	t.Helper()
	p, err := pool.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("this test needs root, loop devices, a kernel with btrfs, and btrfs-progs installed: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

package pool_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/command"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
)

// keepWritingPairs writes until the test ends. Between the two files lie many others, which take a copy its time.
func keepWritingPairs(t *testing.T, dir string) {
	t.Helper()
	mustWrite(t, filepath.Join(dir, "a"), 0)
	for i := range 1000 {
		mustWrite(t, filepath.Join(dir, fmt.Sprint("between-", i)), 0)
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- writePairs(dir, stop) }()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func writePairs(dir string, stop <-chan struct{}) error {
	for i := 1; ; i++ {
		for _, name := range []string{"a", "b"} {
			if err := writeNumber(filepath.Join(dir, name), i); err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func writeNumber(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%020d", n); err != nil {
		return err
	}
	return f.Sync()
}

func number(path string) int {
	raw, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return -1
	}
	return n
}

func mustCreate(t *testing.T, p *pool.Pool, name string, bytes int64, source pool.Source) (pool.Volume, string) {
	t.Helper()
	vol, err := p.CreateVolume(t.Context(), name, pool.Range{Required: bytes}, source)
	if err != nil {
		t.Fatal(err)
	}
	_, dir, err := p.Volume(vol.ID)
	if err != nil {
		t.Fatal(err)
	}
	return vol, dir
}

func mustSnapshot(t *testing.T, p *pool.Pool, name, volumeID string) pool.Snapshot {
	t.Helper()
	snap, err := p.CreateSnapshot(t.Context(), name, volumeID, false)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func mustWrite(t *testing.T, path string, bytes int64) {
	t.Helper()
	if err := fill(path, bytes); err != nil {
		t.Fatal(err)
	}
}

func mustOverflow(t *testing.T, path string, bytes int64) {
	t.Helper()
	if err := fill(path, bytes); !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("writing %d bytes to %s: %v; want the quota to be exceeded", bytes, path, err)
	}
}

// fill writes zeroes, which btrfs stores like any bytes as long as it does not compress.
func fill(path string, bytes int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(f, zeroes{}, bytes); err != nil || bytes == 0 {
		return err
	}
	return f.Sync()
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func awaitNumber(t *testing.T, path string, least int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); number(path) < least; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not reach %d", path, least)
		}
	}
}

func loopDevices(t *testing.T, image string) []string {
	t.Helper()
	return strings.Fields(mustRun(t, "losetup", "--noheadings", "--output", "NAME", "--associated", image))
}

func mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command.Run(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

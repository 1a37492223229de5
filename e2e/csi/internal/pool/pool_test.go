package pool_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pooltest"
)

const mib = int64(1 << 20)

func TestAWritePastTheSizeFails(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	small, smallDir := mustCreate(t, p, "small", 32*mib, pool.Source{})
	_, otherDir := mustCreate(t, p, "other", 64*mib, pool.Source{})

	mustWrite(t, filepath.Join(smallDir, "fits"), 24*mib)
	mustOverflow(t, filepath.Join(smallDir, "too-much"), 16*mib)
	mustWrite(t, filepath.Join(otherDir, "not-concerned"), 48*mib)

	used, err := p.Used(t.Context(), small.ID)
	if err != nil || used < 24*mib || used > 32*mib {
		t.Errorf("used: %d bytes, %v; want between 24 and 32 MiB", used, err)
	}
}

func TestACloneStartsFullAndGrowsToItsOwnSize(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	vol, dir := mustCreate(t, p, "origin", 32*mib, pool.Source{})
	mustWrite(t, filepath.Join(dir, "data"), 24*mib)
	snap := mustSnapshot(t, p, "snap", vol.ID)

	_, same := mustCreate(t, p, "same", 32*mib, pool.Source{SnapshotID: snap.ID})
	mustOverflow(t, filepath.Join(same, "more"), 16*mib)
	_, larger := mustCreate(t, p, "larger", 64*mib, pool.Source{VolumeID: vol.ID})
	mustWrite(t, filepath.Join(larger, "more"), 24*mib)
	mustOverflow(t, filepath.Join(larger, "much-more"), 24*mib)
}

func TestSnapshotsDoNotFillTheirVolume(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	vol, dir := mustCreate(t, p, "database", 32*mib, pool.Source{})
	for i := range 4 {
		mustWrite(t, filepath.Join(dir, "pages"), 20*mib)
		mustSnapshot(t, p, fmt.Sprint("snap-", i), vol.ID)
		if err := os.Remove(filepath.Join(dir, "pages")); err != nil {
			t.Fatal(err)
		}
		mustRun(t, "btrfs", "filesystem", "sync", dir)
	}
}

// A writer sets file a, then file b, to the same rising number. A copy made file by file catches b ahead of a; a snapshot never does.
func TestASnapshotIsAtomic(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	vol, dir := mustCreate(t, p, "written", 64*mib, pool.Source{})
	keepWritingPairs(t, dir)
	last := 0
	for i := range 20 {
		awaitNumber(t, filepath.Join(dir, "b"), last+1)
		snap := mustSnapshot(t, p, fmt.Sprint("snap-", i), vol.ID)
		_, clone := mustCreate(t, p, fmt.Sprint("clone-", i), 64*mib, pool.Source{SnapshotID: snap.ID})
		a, b := number(filepath.Join(clone, "a")), number(filepath.Join(clone, "b"))
		if b < last+1 || a < b || a > b+1 {
			t.Errorf("snapshot %d: a is %d, b is %d, b before it at least %d", i, a, b, last+1)
		}
		last = b
	}
}

func TestACloneKeepsOwnerModeAndSetgidBit(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	vol, dir := mustCreate(t, p, "data", 64*mib, pool.Source{})
	if err := os.Chown(dir, 100, 102); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(dir, 0o2770); err != nil {
		t.Fatal(err)
	}
	snap := mustSnapshot(t, p, "snap", vol.ID)
	for _, source := range []pool.Source{{SnapshotID: snap.ID}, {VolumeID: vol.ID}} {
		_, clone := mustCreate(t, p, fmt.Sprintf("%+v", source), 64*mib, source)
		var st unix.Stat_t
		if err := unix.Stat(clone, &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode != unix.S_IFDIR|0o2770 || st.Uid != 100 || st.Gid != 102 {
			t.Errorf("clone of %+v: mode %o, owner %d:%d; want 42770, 100:102", source, st.Mode, st.Uid, st.Gid)
		}
	}
}

func TestARestartFindsEverything(t *testing.T) {
	cfg := pooltest.Config(t)
	first, err := pool.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	vol, dir := mustCreate(t, first, "data", 32*mib, pool.Source{})
	snap := mustSnapshot(t, first, "snap", vol.ID)
	published := t.TempDir()
	if err := unix.Mount(dir, published, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(published, 0); err != nil {
			t.Error(err)
		}
	})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(published, "while-away"), mib)

	second := pooltest.Open(t, cfg)
	again, dir := mustCreate(t, second, "data", 32*mib, pool.Source{})
	if _, err := os.Stat(filepath.Join(dir, "while-away")); err != nil || again != vol {
		t.Errorf("volume %+v, %v; want %+v with what was written while the driver was away", again, err, vol)
	}
	if found, err := second.Snapshot(snap.ID); err != nil || !found.Created.Equal(snap.Created) {
		t.Errorf("snapshot %+v, %v; want %+v", found, err, snap)
	}
	mustOverflow(t, filepath.Join(published, "too-much"), 48*mib)
	if devices := loopDevices(t, cfg.Image); len(devices) != 1 {
		t.Errorf("loop devices of the image: %v; want one", devices)
	}
}

func TestTheLoopDeviceGoesWithTheLastMount(t *testing.T) {
	cfg := pooltest.Config(t)
	p, err := pool.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(loopDevices(t, cfg.Image)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still attached: %v", loopDevices(t, cfg.Image))
		}
	}
}

func TestARepeatedCallReplacesWhatACrashLeft(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	vol, dir := mustCreate(t, p, "data", 32*mib, pool.Source{})
	mustWrite(t, filepath.Join(dir, "half"), mib)
	if err := os.Remove(dir + ".json"); err != nil {
		t.Fatal(err)
	}
	again, dir := mustCreate(t, p, "data", 32*mib, pool.Source{})
	if _, err := os.Stat(filepath.Join(dir, "half")); !errors.Is(err, os.ErrNotExist) || again.ID != vol.ID {
		t.Errorf("volume %+v, old file: %v; want volume %s anew and empty", again, err, vol.ID)
	}
}

func TestDeletingLeavesNothing(t *testing.T) {
	cfg := pooltest.Config(t)
	p := pooltest.Open(t, cfg)
	vol, dir := mustCreate(t, p, "data", 32*mib, pool.Source{})
	snap := mustSnapshot(t, p, "snap", vol.ID)
	for range 2 {
		if err := errors.Join(p.DeleteVolume(t.Context(), vol.ID), p.DeleteSnapshot(t.Context(), snap.ID)); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"volumes", "snapshots"} {
		if left, err := os.ReadDir(filepath.Join(cfg.Mount, kind)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", kind, left, err)
		}
	}
	if err := p.DeleteVolume(t.Context(), "../volumes"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err != nil {
		t.Errorf("an ID that is a path reached a folder: %v", err)
	}
}

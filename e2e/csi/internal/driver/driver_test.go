package driver_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/driver"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pooltest"
)

const size = int64(64 << 20)

func TestPublishedVolume(t *testing.T) {
	d, volumeID := withVolume(t)
	target := filepath.Join(t.TempDir(), "pods", "mount")
	for range 2 {
		mustPublish(t, d, volumeID, target, false)
	}
	file := filepath.Join(target, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	commit(t, target) // what is used is known as of the last commit
	stats, err := d.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: target})
	if err != nil {
		t.Fatal(err)
	}
	if usage := stats.GetUsage()[0]; usage.GetTotal() != size || usage.GetUsed() == 0 || usage.GetUsed()+usage.GetAvailable() != size {
		t.Errorf("usage %v; want the volume's own size", usage)
	}
	for range 2 {
		mustUnpublish(t, d, volumeID, target)
	}
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target path is still there: %v", err)
	}

	mustPublish(t, d, volumeID, target, true)
	defer mustUnpublish(t, d, volumeID, target)
	if err := os.WriteFile(file, nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a read-only mount: %v", err)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "kept" {
		t.Errorf("read %q, %v", kept, err)
	}
}

func TestPublishRefusesATakenTarget(t *testing.T) {
	d, volumeID := withVolume(t)
	other := mustCreateVolume(t, d, "other")
	target := filepath.Join(t.TempDir(), "mount")
	mustPublish(t, d, volumeID, target, false)
	defer mustUnpublish(t, d, volumeID, target)
	if _, err := d.NodePublishVolume(t.Context(), publishRequest(other, target, false)); err == nil {
		t.Error("another volume was published over the first")
	}
}

func TestVolumesThatAreNotServed(t *testing.T) {
	d, _ := withVolume(t)
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	mounted := func(m *csi.VolumeCapability_MountVolume) *csi.VolumeCapability {
		return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Mount{Mount: m}}
	}
	for name, capability := range map[string]*csi.VolumeCapability{
		"a block volume":       {AccessMode: mode, AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}},
		"another file system":  mounted(&csi.VolumeCapability_MountVolume{FsType: "ext4"}),
		"mount options":        mounted(&csi.VolumeCapability_MountVolume{MountFlags: []string{"noexec"}}),
		"no access mode":       {AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}},
		"neither mount, block": {AccessMode: mode},
	} {
		req := &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability}}
		_, err := d.CreateVolume(t.Context(), req)
		wantCode(t, name, err, codes.InvalidArgument)
	}
}

func TestFirstAttemptsAtASnapshotFail(t *testing.T) {
	d, volumeID := withVolume(t)
	for _, name := range []string{"one", "two"} {
		req := snapshotRequest(name, volumeID, map[string]string{"holdfast.test/failFirst": "2"})
		for _, want := range []codes.Code{codes.Unavailable, codes.Unavailable, codes.OK, codes.OK} {
			_, err := d.CreateSnapshot(t.Context(), req)
			wantCode(t, name, err, want)
		}
	}
}

func TestASnapshotThatIsNeverReady(t *testing.T) {
	d, volumeID := withVolume(t)
	var snapshotID string
	for range 3 {
		resp, err := d.CreateSnapshot(t.Context(), snapshotRequest("snap", volumeID, map[string]string{"holdfast.test/neverReady": "true"}))
		if err != nil || resp.GetSnapshot().GetReadyToUse() {
			t.Fatalf("got %v, %v; want a snapshot that is not ready", resp, err)
		}
		snapshotID = resp.GetSnapshot().GetSnapshotId()
	}
	listed, err := d.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SnapshotId: snapshotID})
	if err != nil || len(listed.GetEntries()) != 1 || listed.GetEntries()[0].GetSnapshot().GetReadyToUse() {
		t.Errorf("listed %v, %v; want one snapshot that is not ready", listed, err)
	}
	req := volumeRequest("clone")
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshotID},
	}}
	_, err = d.CreateVolume(t.Context(), req)
	wantCode(t, "clone of it", err, codes.Unavailable)
	_, err = d.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshotID})
	wantCode(t, "deletion", err, codes.OK)
}

func TestParametersThatAreWrong(t *testing.T) {
	d, volumeID := withVolume(t)
	for key, value := range map[string]string{
		"holdfast.test/failFirst":  "twice",
		"holdfast.test/neverReady": "perhaps",
		"holdfast.test/failfirst":  "2",
	} {
		_, err := d.CreateSnapshot(t.Context(), snapshotRequest("snap", volumeID, map[string]string{key: value}))
		wantCode(t, key, err, codes.InvalidArgument)
	}
}

func withVolume(t *testing.T) (*driver.Driver, string) {
	t.Helper()
	d := driver.New(pooltest.Open(t, pooltest.Config(t)), "node-a", "test")
	return d, mustCreateVolume(t, d, "data")
}

func mustCreateVolume(t *testing.T, d *driver.Driver, name string) string {
	t.Helper()
	resp, err := d.CreateVolume(t.Context(), volumeRequest(name))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetVolume().GetVolumeId()
}

func mustPublish(t *testing.T, d *driver.Driver, volumeID, target string, readOnly bool) {
	t.Helper()
	if _, err := d.NodePublishVolume(t.Context(), publishRequest(volumeID, target, readOnly)); err != nil {
		t.Fatal(err)
	}
}

func mustUnpublish(t *testing.T, d *driver.Driver, volumeID, target string) {
	t.Helper()
	req := &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: target}
	if _, err := d.NodeUnpublishVolume(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

func volumeRequest(name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{writer()},
	}
}

func publishRequest(volumeID, target string, readOnly bool) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: volumeID, TargetPath: target, VolumeCapability: writer(), Readonly: readOnly}
}

func snapshotRequest(name, volumeID string, parameters map[string]string) *csi.CreateSnapshotRequest {
	return &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volumeID, Parameters: parameters}
}

func writer() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: code %s (%v); want %s", what, got, err, want)
	}
}

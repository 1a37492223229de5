package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetCapabilities implements csi.NodeServer.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stats := &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
		Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_GET_VOLUME_STATS},
	}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{stats}}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.nodeName}, nil
}

// NodePublishVolume implements csi.NodeServer: it bind mounts the volume's subvolume.
func (d *Driver) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := validatePublish(req); err != nil {
		return nil, err
	}
	_, source, err := d.pool.Volume(req.GetVolumeId())
	if err != nil {
		return nil, coded(err)
	}
	d.publish.Lock()
	defer d.publish.Unlock()
	if err := bind(source, req.GetTargetPath(), req.GetReadonly()); err != nil {
		return nil, status.Errorf(codes.Internal, "publish volume %s: %v", req.GetVolumeId(), err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func validatePublish(req *csi.NodePublishVolumeRequest) error {
	switch {
	case req.GetVolumeId() == "":
		return missing("volume ID")
	case req.GetTargetPath() == "":
		return missing("target path")
	case req.GetVolumeCapability() == nil:
		return missing("volume capability")
	}
	return validateCapability(req.GetVolumeCapability())
}

// NodeUnpublishVolume implements csi.NodeServer. It removes the target path, mounted or not, and whether or not the
// volume still exists.
func (d *Driver) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, missing("volume ID")
	}
	if req.GetTargetPath() == "" {
		return nil, missing("target path")
	}
	d.publish.Lock()
	defer d.publish.Unlock()
	if err := unbind(req.GetTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "unpublish volume %s: %v", req.GetVolumeId(), err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats implements csi.NodeServer. It tells of the volume's own size; statfs tells of the whole pool.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, missing("volume ID")
	}
	if req.GetVolumePath() == "" {
		return nil, missing("volume path")
	}
	vol, _, err := d.pool.Volume(req.GetVolumeId())
	if err != nil {
		return nil, coded(err)
	}
	if mounted, err := mountinfo.Mounted(req.GetVolumePath()); err != nil || !mounted {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted on %s", vol.ID, req.GetVolumePath())
	}
	used, err := d.pool.Used(ctx, vol.ID)
	if err != nil {
		return nil, coded(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: vol.Bytes, Used: used, Available: max(0, vol.Bytes-used),
	}}}, nil
}

// bind mounts source on target unless that is done already.
func bind(source, target string, readOnly bool) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	mounted, err := mountedFrom(target)
	if err != nil {
		return err
	}
	if mounted == "" {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind mount %s on %s: %w", source, target, err)
		}
	} else if filepath.Base(mounted) != filepath.Base(source) {
		return fmt.Errorf("%s is already mounted on %s", mounted, target)
	}
	if !readOnly {
		return nil
	}
	// A bind mount takes no options of its own; it can only be given them afterwards.
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", target, err), unbind(target))
	}
	return nil
}

// mountedFrom returns the path, inside its file system, of what is mounted on target, or "".
func mountedFrom(target string) (string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(filepath.Clean(target)))
	if err != nil || len(mounts) == 0 {
		return "", err
	}
	return mounts[len(mounts)-1].Root, nil
}

func unbind(target string) error {
	if err := unix.Unmount(target, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

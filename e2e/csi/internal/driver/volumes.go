package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
)

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// CreateVolume implements csi.ControllerServer.
func (d *Driver) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if req.GetName() == "" {
		return nil, missing("name")
	}
	if err := validateCapabilities(req.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	source, err := d.source(req.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	size := pool.Range{Required: req.GetCapacityRange().GetRequiredBytes(), Limit: req.GetCapacityRange().GetLimitBytes()}
	vol, err := d.pool.CreateVolume(ctx, req.GetName(), size, source)
	if err != nil {
		return nil, coded(err)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: vol.ID, CapacityBytes: vol.Bytes, ContentSource: req.GetVolumeContentSource(),
	}}, nil
}

// source refuses a snapshot that is not ready, as a driver that still copies it would.
func (d *Driver) source(from *csi.VolumeContentSource) (pool.Source, error) {
	source := pool.Source{SnapshotID: from.GetSnapshot().GetSnapshotId(), VolumeID: from.GetVolume().GetVolumeId()}
	if from != nil && source == (pool.Source{}) {
		return source, missing("ID of the content source")
	}
	if source.SnapshotID == "" {
		return source, nil
	}
	snap, err := d.pool.Snapshot(source.SnapshotID)
	if err != nil {
		return source, coded(err)
	}
	if snap.NeverReady {
		return source, status.Errorf(codes.Unavailable, "snapshot %s is not ready to use", snap.ID)
	}
	return source, nil
}

// DeleteVolume implements csi.ControllerServer. Snapshots of the volume stay whole.
func (d *Driver) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, missing("volume ID")
	}
	if err := d.pool.DeleteVolume(ctx, req.GetVolumeId()); err != nil {
		return nil, coded(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, missing("volume ID")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, missing("volume capabilities")
	}
	if _, _, err := d.pool.Volume(req.GetVolumeId()); err != nil {
		return nil, coded(err)
	}
	resp := &csi.ValidateVolumeCapabilitiesResponse{}
	if err := validateCapabilities(req.GetVolumeCapabilities()); err != nil {
		resp.Message = err.Error()
	} else {
		resp.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
		}
	}
	return resp, nil
}

// GetCapacity implements csi.ControllerServer.
func (d *Driver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	_, free, err := d.pool.Capacity()
	if err != nil {
		return nil, coded(err)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}

func validateCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return missing("volume capabilities")
	}
	for _, c := range capabilities {
		if err := validateCapability(c); err != nil {
			return err
		}
	}
	return nil
}

// validateCapability takes every access mode: there is one node, and any number of its pods may share a mount.
func validateCapability(c *csi.VolumeCapability) error {
	mount := c.GetMount()
	switch {
	case mount == nil:
		return status.Error(codes.InvalidArgument, "only file system volumes are served, no block volumes")
	case mount.GetFsType() != "" && mount.GetFsType() != "btrfs":
		return status.Errorf(codes.InvalidArgument, "file system %s is not served, only btrfs", mount.GetFsType())
	case len(mount.GetMountFlags()) > 0:
		return status.Error(codes.InvalidArgument, "mount options are not served")
	case c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN:
		return missing("access mode")
	}
	return nil
}

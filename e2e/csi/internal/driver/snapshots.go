package driver

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
)

// CreateSnapshot implements csi.ControllerServer.
func (d *Driver) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if req.GetName() == "" {
		return nil, missing("name")
	}
	if req.GetSourceVolumeId() == "" {
		return nil, missing("source volume ID")
	}
	wanted, err := parseTrouble(req.GetParameters())
	if err != nil {
		return nil, err
	}
	if err := d.trouble.next(req.GetName(), wanted.failFirst); err != nil {
		return nil, err
	}
	snap, err := d.pool.CreateSnapshot(ctx, req.GetName(), req.GetSourceVolumeId(), wanted.neverReady)
	if err != nil {
		return nil, coded(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: described(snap)}, nil
}

// DeleteSnapshot implements csi.ControllerServer. Volumes cloned from the snapshot stay whole.
func (d *Driver) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if req.GetSnapshotId() == "" {
		return nil, missing("snapshot ID")
	}
	if err := d.pool.DeleteSnapshot(ctx, req.GetSnapshotId()); err != nil {
		return nil, coded(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements csi.ControllerServer. A token is the ID of the last snapshot of the page before, which stays a
// place in the order when that snapshot is deleted between two pages.
func (d *Driver) ListSnapshots(_ context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	all, err := d.pool.Snapshots()
	if err != nil {
		return nil, coded(err)
	}
	page := slices.DeleteFunc(all, func(s pool.Snapshot) bool { return !selected(s, req) })
	resp := &csi.ListSnapshotsResponse{}
	if most := int(req.GetMaxEntries()); most > 0 && most < len(page) {
		page = page[:most]
		resp.NextToken = page[most-1].ID
	}
	for _, s := range page {
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: described(s)})
	}
	return resp, nil
}

func selected(s pool.Snapshot, req *csi.ListSnapshotsRequest) bool {
	return s.ID > req.GetStartingToken() &&
		(req.GetSnapshotId() == "" || req.GetSnapshotId() == s.ID) &&
		(req.GetSourceVolumeId() == "" || req.GetSourceVolumeId() == s.VolumeID)
}

func described(s pool.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId:     s.ID,
		SourceVolumeId: s.VolumeID,
		SizeBytes:      s.Bytes,
		CreationTime:   timestamppb.New(s.Created),
		ReadyToUse:     !s.NeverReady,
	}
}

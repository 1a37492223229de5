package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/command"
)

// Snapshot is a read-only subvolume.
type Snapshot struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	VolumeID string `json:"volumeID"`
	// Bytes is the size of the volume when the snapshot was taken: the least size of a clone.
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	// NeverReady marks a snapshot that is to be reported as not ready for as long as it exists.
	NeverReady bool `json:"neverReady,omitempty"`
}

// CreateSnapshot takes an atomic snapshot of a volume, or returns the one of that name. It returns ErrNotFound if the
// volume is absent, ErrConflict if the name is taken by a snapshot of another volume.
func (p *Pool) CreateSnapshot(ctx context.Context, name, volumeID string, neverReady bool) (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	snap, err := p.snapshots.get(idOf(name))
	if err == nil {
		return snap, snap.fits(volumeID)
	}
	if !errors.Is(err, ErrNotFound) {
		return Snapshot{}, err
	}
	vol, err := p.volumes.get(volumeID)
	if err != nil {
		return Snapshot{}, err
	}
	snap = Snapshot{ID: idOf(name), Name: name, VolumeID: volumeID, Bytes: vol.Bytes, NeverReady: neverReady}
	return p.takeSnapshot(ctx, snap)
}

func (p *Pool) takeSnapshot(ctx context.Context, snap Snapshot) (Snapshot, error) {
	path := p.snapshots.path(snap.ID)
	if err := deleteSubvolume(ctx, path); err != nil {
		return Snapshot{}, err
	}
	if _, err := command.Run(ctx, "btrfs", "subvolume", "snapshot", "-r", p.volumes.path(snap.VolumeID), path); err != nil {
		return Snapshot{}, err
	}
	snap.Created = time.Now()
	return snap, p.snapshots.put(snap.ID, snap)
}

// DeleteSnapshot removes a snapshot; one that is absent is no error.
func (p *Pool) DeleteSnapshot(ctx context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshots.remove(ctx, id)
}

// Snapshot returns a snapshot, or ErrNotFound.
func (p *Pool) Snapshot(id string) (Snapshot, error) { return p.snapshots.get(id) }

// Snapshots returns all snapshots in the order of their IDs.
func (p *Pool) Snapshots() ([]Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshots.list()
}

func (s Snapshot) fits(volumeID string) error {
	if s.VolumeID != volumeID {
		return fmt.Errorf("snapshot %s (name %s) of volume %s: %w", s.ID, s.Name, s.VolumeID, ErrConflict)
	}
	return nil
}

package pool

import (
	"context"
	"errors"
	"fmt"
)

const (
	defaultVolumeBytes = 1 << 30
	// minVolumeBytes leaves room for the metadata that btrfs reserves before it writes a file.
	minVolumeBytes = 1 << 20
)

// Source says what a volume is cloned from: at most one of the two IDs is set.
type Source struct {
	SnapshotID string `json:"snapshotID,omitempty"`
	VolumeID   string `json:"volumeID,omitempty"`
}

// Volume is a writable subvolume.
type Volume struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Source Source `json:"source"`
}

// Range is a size in bytes between bounds; 0 stands for no bound.
type Range struct {
	Required, Limit int64
}

// CreateVolume makes a volume, or returns the one of that name if it fits what is asked for. It returns ErrNotFound if the
// source is absent, ErrConflict if the name is taken, ErrSize if no size in the range can be had.
func (p *Pool) CreateVolume(ctx context.Context, name string, size Range, source Source) (Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	vol, err := p.volumes.get(idOf(name))
	if err == nil {
		return vol, vol.fits(size, source)
	}
	if !errors.Is(err, ErrNotFound) {
		return Volume{}, err
	}
	path, least, err := p.lookUp(source)
	if err != nil {
		return Volume{}, err
	}
	total, _, err := p.Capacity()
	if err != nil {
		return Volume{}, err
	}
	vol = Volume{ID: idOf(name), Name: name, Source: source}
	if vol.Bytes, err = choose(size, least, total); err != nil {
		return Volume{}, err
	}
	return vol, p.makeVolume(ctx, vol, path)
}

func (p *Pool) makeVolume(ctx context.Context, vol Volume, source string) error {
	path := p.volumes.path(vol.ID)
	if err := makeSubvolume(ctx, path, source); err != nil {
		return err
	}
	if err := limit(ctx, path, vol.Bytes); err != nil {
		return err
	}
	return p.volumes.put(vol.ID, vol)
}

// DeleteVolume removes a volume; one that is absent is no error.
func (p *Pool) DeleteVolume(ctx context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes.remove(ctx, id)
}

// Volume returns a volume and the path of its subvolume, or ErrNotFound.
func (p *Pool) Volume(id string) (Volume, string, error) {
	vol, err := p.volumes.get(id)
	return vol, p.volumes.path(id), err
}

// Used returns how many bytes of its size a volume uses, or ErrNotFound.
func (p *Pool) Used(ctx context.Context, id string) (int64, error) {
	_, path, err := p.Volume(id)
	if err != nil {
		return 0, err
	}
	return p.referenced(ctx, path)
}

func (v Volume) fits(size Range, source Source) error {
	if v.Source != source || v.Bytes < size.Required || (size.Limit > 0 && v.Bytes > size.Limit) {
		return fmt.Errorf("volume %s (name %s, %d bytes, source %+v): %w", v.ID, v.Name, v.Bytes, v.Source, ErrConflict)
	}
	return nil
}

// lookUp returns the subvolume of a source and the least size of a clone of it.
func (p *Pool) lookUp(source Source) (path string, least int64, err error) {
	switch {
	case source.SnapshotID != "":
		snap, err := p.snapshots.get(source.SnapshotID)
		return p.snapshots.path(source.SnapshotID), snap.Bytes, err
	case source.VolumeID != "":
		vol, err := p.volumes.get(source.VolumeID)
		return p.volumes.path(source.VolumeID), vol.Bytes, err
	}
	return "", 0, nil
}

// choose picks the smallest size that is allowed, 0 bytes required meaning any. The pool is thin: what is refused for want
// of room is only a volume larger than the whole of it.
func choose(size Range, least, total int64) (int64, error) {
	bytes := size.Required
	if bytes == 0 && least == 0 {
		bytes = defaultVolumeBytes
		if size.Limit > 0 {
			bytes = min(bytes, size.Limit)
		}
	}
	switch {
	case size.Required > 0 && size.Required < least:
		return 0, fmt.Errorf("%d bytes are less than the source's %d: %w", size.Required, least, ErrSize)
	case bytes > total:
		return 0, fmt.Errorf("%d bytes are more than the pool's %d: %w", bytes, total, ErrSize)
	}
	bytes = max(bytes, least, minVolumeBytes)
	if size.Limit > 0 && bytes > size.Limit {
		return 0, fmt.Errorf("at least %d bytes are needed, at most %d allowed: %w", bytes, size.Limit, ErrSize)
	}
	return bytes, nil
}

package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/command"
)

const recordSuffix = ".json"

// records is a directory of subvolumes, each with a JSON record beside it. The record is written last and removed first:
// a subvolume without one is the rest of an interrupted call.
type records[T any] struct {
	dir string
}

// idOf makes the ID from the name, so that a call repeated after a crash finds what it began.
func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:12])
}

func (r records[T]) path(id string) string { return filepath.Join(r.dir, id) }

// get returns ErrNotFound if there is no such record.
func (r records[T]) get(id string) (T, error) {
	var rec T
	if !isID(id) {
		return rec, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	raw, err := os.ReadFile(r.path(id) + recordSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return rec, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(raw, &rec); err != nil {
		return rec, fmt.Errorf("read the record %s%s: %w", r.path(id), recordSuffix, err)
	}
	return rec, nil
}

func (r records[T]) put(id string, rec T) error {
	raw, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	unfinished := r.path(id) + ".tmp"
	if err := os.WriteFile(unfinished, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, r.path(id)+recordSuffix)
}

// remove removes the record and the subvolume, or what is left of them.
func (r records[T]) remove(ctx context.Context, id string) error {
	if !isID(id) {
		return nil
	}
	if err := os.Remove(r.path(id) + recordSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return deleteSubvolume(ctx, r.path(id))
}

// list returns all records in the order of their IDs.
func (r records[T]) list() ([]T, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, entry := range entries {
		id, isRecord := strings.CutSuffix(entry.Name(), recordSuffix)
		if !isRecord {
			continue
		}
		rec, err := r.get(id)
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// isID keeps everything that is not an ID of ours out of the paths.
func isID(id string) bool {
	return id != "" && !slices.ContainsFunc([]byte(id), func(c byte) bool { return !strings.ContainsRune("0123456789abcdef", rune(c)) })
}

func deleteSubvolume(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, err := command.Run(ctx, "btrfs", "subvolume", "delete", path)
	return err
}

// makeSubvolume makes path anew: an empty subvolume, or a writable snapshot of the one at source. A snapshot takes the
// source's root directory with it, owner, mode and setgid bit included; changing them would have the kubelet apply an
// fsGroup anew to every file of a clone, after which PostgreSQL refuses its data directory.
func makeSubvolume(ctx context.Context, path, source string) error {
	if err := deleteSubvolume(ctx, path); err != nil {
		return err
	}
	if source != "" {
		_, err := command.Run(ctx, "btrfs", "subvolume", "snapshot", source, path)
		return err
	}
	if _, err := command.Run(ctx, "btrfs", "subvolume", "create", path); err != nil {
		return err
	}
	return unix.Chmod(path, 0o755) // whatever the umask
}

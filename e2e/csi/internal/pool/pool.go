// Package pool keeps volumes and snapshots as btrfs subvolumes of one image file, which is mounted through a loop device.
//
// What is known of a volume or snapshot lies in a small JSON record beside its subvolume, so nothing is lost with the process.
package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/command"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: there is no volume or snapshot of that ID.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the name is taken by a volume or snapshot that was asked for in another way.
	ErrConflict = errors.New("exists with other properties")
	// ErrSize: the size asked for cannot be had.
	ErrSize = errors.New("size out of range")
)

// Config says where the pool lies.
type Config struct {
	// Image is the path of the image file; it is made and formatted if absent.
	Image string
	// Size is the size in bytes of a new image file, which is sparse.
	Size int64
	// Mount is the directory on which the image is mounted; it is made if absent.
	Mount string
}

// Pool is a mounted pool. Its methods may be called concurrently.
type Pool struct {
	root      string
	qgroups   string // directory of sysfs with the quota groups of this file system
	volumes   records[Volume]
	snapshots records[Snapshot]

	mu sync.Mutex // held while anything is made or removed
}

// Open makes the image if there is none, mounts it unless it is mounted, and turns quotas on.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	if err := ensureImage(ctx, cfg.Image, cfg.Size); err != nil {
		return nil, fmt.Errorf("make the pool's image %s: %w", cfg.Image, err)
	}
	if err := ensureMounted(ctx, cfg.Image, cfg.Mount); err != nil {
		return nil, fmt.Errorf("mount the pool's image %s on %s: %w", cfg.Image, cfg.Mount, err)
	}
	p := &Pool{
		root:      cfg.Mount,
		volumes:   records[Volume]{dir: filepath.Join(cfg.Mount, "volumes")},
		snapshots: records[Snapshot]{dir: filepath.Join(cfg.Mount, "snapshots")},
	}
	for _, dir := range []string{p.volumes.dir, p.snapshots.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("lay out the pool: %w", err)
		}
	}
	if err := p.enableQuotas(ctx); err != nil {
		return nil, fmt.Errorf("turn on quotas in %s: %w", cfg.Mount, err)
	}
	return p, nil
}

// Close unmounts the pool; the kernel then gives the loop device back. Volumes that are still published keep the file
// system alive, and the next Open finds it.
func (p *Pool) Close() error {
	if err := unix.Unmount(p.root, 0); err != nil {
		return fmt.Errorf("unmount the pool %s: %w", p.root, err)
	}
	return nil
}

// Capacity returns the size of the pool and what is free of it, in bytes.
func (p *Pool) Capacity() (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.root, &st); err != nil {
		return 0, 0, fmt.Errorf("read the capacity of the pool %s: %w", p.root, err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// ensureImage formats under another name and renames, so that an image that exists is a whole one.
func ensureImage(ctx context.Context, image string, size int64) error {
	if _, err := os.Stat(image); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(image), 0o700); err != nil {
		return err
	}
	unfinished := image + ".new"
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(unfinished, size); err != nil {
		return err
	}
	// One copy of the metadata: the image lies on one disk anyway, and half the writes is twice the speed of fsync.
	if _, err := command.Run(ctx, "mkfs.btrfs", "--quiet", "--force", "--metadata", "single", "--data", "single", unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, image)
}

// ensureMounted leaves the choice of the loop device to mount(8): it takes the one that already carries the image if a
// published volume still holds it (two devices with the same btrfs would be two kernels' views of one disk), and it has
// the kernel free the device after the last unmount.
func ensureMounted(ctx context.Context, image, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mounted, err := mountinfo.Mounted(dir)
	if err != nil || mounted {
		return err
	}
	if err := ensureLoopNode(); err != nil {
		return err
	}
	_, err = command.Run(ctx, "mount", "-t", "btrfs", "-o", "loop,noatime,discard=async", image, dir)
	return err
}

// ensureLoopNode makes the device file of the next free loop device. A node that is itself a container has a /dev of
// its own, in which devices that the kernel adds later never appear.
func ensureLoopNode() error {
	control, err := os.Open("/dev/loop-control")
	if err != nil {
		return fmt.Errorf("this needs root and the kernel's loop devices: %w", err)
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return fmt.Errorf("find a free loop device: %w", err)
	}
	const loopMajor = 7
	node := fmt.Sprintf("/dev/loop%d", number)
	err = unix.Mknod(node, unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(number))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", node, err)
	}
	return nil
}

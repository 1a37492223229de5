package pool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/command"
)

// Sizes are enforced with full quota groups, not with the kernel's newer simple quotas. Those charge an extent to the
// subvolume that wrote it for as long as any snapshot holds it: a database with a few snapshots would fill its claim
// without growing, and a clone would start out empty. "Referenced" of a full quota group is what a user of the volume sees.

// enableQuotas may be called again.
func (p *Pool) enableQuotas(ctx context.Context) error {
	if _, err := command.Run(ctx, "btrfs", "quota", "enable", p.root); err != nil {
		return err
	}
	// The scan also mends accounts that a crash left inconsistent, which the kernel would not enforce.
	if _, err := command.Run(ctx, "btrfs", "quota", "rescan", "-w", p.root); err != nil {
		return err
	}
	dir, err := qgroupsDir(p.root)
	if err != nil {
		return err
	}
	p.qgroups = dir
	return keepAccounting(dir)
}

// keepAccounting has the kernel account for the deletion of subvolumes of any depth. By default it gives up on deep ones,
// marks the quotas inconsistent and stops enforcing them until a rescan. Kernels before 6.2 neither give up nor have this file.
func keepAccounting(qgroups string) error {
	const deepest = "8"
	path := filepath.Join(qgroups, "drop_subtree_threshold")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return nil
	}
	return os.WriteFile(path, []byte(deepest), 0o644)
}

// qgroupsDir finds the file system in sysfs by the device it is mounted from.
func qgroupsDir(root string) (string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(root))
	if err != nil {
		return "", err
	}
	if len(mounts) == 0 {
		return "", fmt.Errorf("%s is not mounted", root)
	}
	device := filepath.Base(mounts[len(mounts)-1].Source)
	found, err := filepath.Glob("/sys/fs/btrfs/*/devices/" + device)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d file systems in /sys/fs/btrfs lie on %s; one was expected: is sysfs mounted?", len(found), device)
	}
	return filepath.Join(filepath.Dir(filepath.Dir(found[0])), "qgroups"), nil
}

// limit sets how many bytes a subvolume may refer to.
func limit(ctx context.Context, subvolume string, bytes int64) error {
	_, err := command.Run(ctx, "btrfs", "qgroup", "limit", strconv.FormatInt(bytes, 10), subvolume)
	return err
}

// referenced returns how many bytes a subvolume refers to, as of the last commit of the file system.
func (p *Pool) referenced(ctx context.Context, subvolume string) (int64, error) {
	id, err := command.Run(ctx, "btrfs", "inspect-internal", "rootid", subvolume)
	if err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(filepath.Join(p.qgroups, "0_"+id, "referenced"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}

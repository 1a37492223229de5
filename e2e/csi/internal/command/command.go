// Package command starts the programs that the driver is built on: btrfs, mkfs.btrfs and mount.
package command

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Run starts a program, waits for its end and returns its trimmed standard output.
// The error of a program that fails carries its whole command line and what it wrote to standard error.
func Run(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

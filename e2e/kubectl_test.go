//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// kubectl runs kubectl against the test cluster, as a user would, and returns what it printed.
func kubectl(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, env.kubectl, append([]string{"--kubeconfig", env.kubeconfig}, args...)...)
	var out, complaint bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = stdin, &out, &complaint
	if err := command.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}

// execIn runs a command in a pod's first container. Nothing of the command is seen by a shell.
func execIn(ctx context.Context, namespace, pod string, stdin io.Reader, command ...string) ([]byte, error) {
	args := []string{"exec", "--namespace", namespace, pod}
	if stdin != nil {
		args = append(args, "--stdin")
	}
	return kubectl(ctx, stdin, append(append(args, "--"), command...)...)
}

package engine

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
)

// loadArchive runs pg_restore, which stops at the first error. It does not run in one transaction: a transaction
// over thousands of tables or large objects runs out of locks, and a fresh database is thrown away as a whole anyway.
func (r *restore) loadArchive(ctx context.Context, item *restoreItem, archive io.Reader) error {
	args := []string{"--format=custom", "--exit-on-error"}
	if r.Options.OmitOwnership {
		args = append(args, "--no-owner")
	}
	if r.Options.OmitPrivileges {
		args = append(args, "--no-privileges")
	}
	if item.info.missingTablespace {
		args = append(args, "--no-tablespaces")
	}
	version, err := r.needTool(ctx, "pg_restore", r.server)
	if err != nil {
		return err
	}
	if majorOf(version) > r.server.major {
		err = r.loadAsScript(ctx, item, args, archive)
	} else {
		err = r.runTool(ctx, "pg_restore", item.fresh, args, archive, nil)
	}
	if failed, ok := errors.AsType[*ToolError](err); ok {
		return r.restoreToolFailed(ctx, item, failed)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return Permanent(ReasonClientMissing, "image %s has no pg_restore: set spec.database.image to one that carries it", r.Image)
	}
	return err
}

// loadAsScript lets pg_restore write the archive as a script, which this program runs: a pg_restore that is newer than
// the server sets parameters that the server does not know (transaction_timeout, from 17 on) and would stop at them.
func (r *restore) loadAsScript(ctx context.Context, item *restoreItem, args []string, archive io.Reader) error {
	script, out := io.Pipe()
	written := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := r.Tools.Run(ctx, Command{Program: "pg_restore", Args: append(args, "--file=-"), Stdin: archive, Stdout: out})
		out.CloseWithError(err)
		written <- err
	}()
	err := r.loadScript(ctx, item, script)
	script.CloseWithError(err)
	if err != nil {
		cancel(err)
	}
	wrote := <-written
	if _, failed := errors.AsType[*ToolError](wrote); failed && (err == nil || errors.Is(err, wrote)) {
		return wrote
	}
	return err
}

func (r *restore) restoreToolFailed(ctx context.Context, item *restoreItem, failed *ToolError) error {
	text := strings.Join(failed.Stderr, "\n")
	if role := missingRolePattern.FindStringSubmatch(text); role != nil {
		return roleMissing([]string{role[1]})
	}
	err := r.toolFailed(ctx, item.fresh, ReasonRestoreToolFailed, failed)
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != ReasonServerUnreachable {
		return Permanent(ReasonRestoreToolFailed, "the dump cannot be restored: %w", failed)
	}
	return err
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// How long what the swap left is cleared away: all of it, one database of it, and all of it once somebody asked to
// stop, as a pod that is told to end has 30 seconds. A DROP that waits for a lock gives way every few seconds, so that
// it does not hold up others behind it.
const (
	dropPatience = 15 * time.Second
	dropLockWait = "SET lock_timeout = '3s'"
)

// finish removes what the swap left. The restore has succeeded by then, whoever asks to stop: what cannot be removed
// becomes a note.
func (r *restore) finish(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	for _, name := range r.leftBehind(ctx) {
		if err := r.clearAway(ctx, name); err != nil {
			r.notef("the old database could not be dropped and is still there as %s (%v): remove it with DROP DATABASE IF EXISTS %s",
				name, err, quote(name))
		}
	}
	for _, item := range r.items {
		err := r.reconnect(ctx)
		if err == nil {
			err = r.unmark(ctx, item)
		}
		if err != nil {
			r.notef("the comment on database %s is still the mark of this restore (%v): set it with COMMENT ON DATABASE %s IS …",
				item.target, err, quote(item.target))
		}
	}
}

// leftBehind lists the temporary databases of this restore that are there; where the server cannot be asked, those that
// the swap made.
func (r *restore) leftBehind(ctx context.Context) []string {
	var olds, names []string
	for _, item := range r.items {
		olds = append(olds, item.old)
		names = append(names, item.old, item.fresh)
	}
	if r.reconnect(ctx) != nil {
		return olds
	}
	rows, err := r.admin.Query(ctx, `SELECT datname FROM pg_database WHERE datname = ANY ($1::text[]) ORDER BY datname`, names)
	if err != nil {
		return olds
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return olds
	}
	return there
}

// clearAway drops one database that the swap left.
func (r *restore) clearAway(ctx context.Context, name string) error {
	err := r.reconnect(ctx)
	if err == nil {
		err = r.drop(ctx, name)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// reconnect opens the control connection anew where it broke, or was given up in the midst of a statement.
func (r *restore) reconnect(ctx context.Context) error {
	if !r.admin.IsClosed() && !r.admin.PgConn().IsBusy() {
		return nil
	}
	conn, err := r.connect(ctx, r.adminDB)
	if err != nil {
		return err
	}
	closeConn(r.admin)
	r.admin = conn
	return nil
}

// unmark sets the comment that the database has in the dump, or none.
func (r *restore) unmark(ctx context.Context, item *restoreItem) error {
	var marked bool
	const query = `SELECT coalesce(shobj_description(oid, 'pg_database') = $2, false) FROM pg_database WHERE datname = $1`
	if err := r.admin.QueryRow(ctx, query, item.target, r.mark()).Scan(&marked); err != nil || !marked {
		return err
	}
	if item.info.owners == nil { // an earlier run swapped, this one knows nothing of the dump yet
		if err := r.readInfo(ctx); err != nil {
			return err
		}
	}
	statement := "COMMENT ON DATABASE " + quote(item.target) + " IS NULL"
	if item.info.comment != "" {
		statement = pgsql.RenameDatabase(item.info.comment, item.info.name, item.target)
	}
	return execute(ctx, r.admin, statement)
}

// dropFresh drops what an earlier try of this restore left.
func (r *restore) dropFresh(ctx context.Context) error {
	for _, item := range r.items {
		if err := r.drop(ctx, item.fresh); err != nil {
			return r.queryError(err)
		}
	}
	return nil
}

// drop drops a temporary database of this restore, with its sessions. It tries for a while where something holds it.
func (r *restore) drop(ctx context.Context, name string) error {
	if id := temporaryName("", r.UID, 0); !strings.Contains(name, strings.TrimPrefix(id, "holdfast_")) {
		return fmt.Errorf("refusing to drop %q, which is not of this restore", name)
	}
	// What an interrupted DROP left (its limit is -2) cannot be altered: PostgreSQL even ends the session that tries.
	var template bool
	const query = `SELECT datistemplate AND datconnlimit <> -2 FROM pg_database WHERE datname = $1`
	err := r.admin.QueryRow(ctx, query, name).Scan(&template)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if template { // which cannot be dropped
		_ = execute(ctx, r.admin, "ALTER DATABASE "+quote(name)+" IS_TEMPLATE false")
	}
	return r.dropPatiently(ctx, name)
}

func (r *restore) dropPatiently(ctx context.Context, name string) error {
	if err := execute(ctx, r.admin, dropLockWait); err != nil {
		return err
	}
	defer func() { _ = execute(ctx, r.admin, "SET lock_timeout = 0") }()
	for begin := time.Now(); ; {
		r.endOnce(ctx, r.admin, []string{name})
		err := execute(ctx, r.admin, "DROP DATABASE IF EXISTS "+quote(name))
		if err == nil || !hasCode(err, codeObjectInUse, codeLockNotFree) || time.Since(begin) > dropPatience {
			return err
		}
		if err := Pause(ctx, swapInterval); err != nil {
			return err
		}
	}
}

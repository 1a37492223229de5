package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// How long the swap tries to get the old databases for itself, and how long its commit may take.
const (
	swapPatience   = 60 * time.Second
	swapInterval   = 100 * time.Millisecond
	commitPatience = 10 * time.Second
)

// SQLSTATE codes.
const (
	codeNotInState    = "55000"
	codeObjectInUse   = "55006"
	codeLockNotFree   = "55P03"
	codeNoSuchObject  = "42704"
	codeNoSuchDB      = "3D000"
	codeNoPrivilege   = "42501"
	codeNotPossible   = "0A000"
	codeBadValue      = "22023"
	codeWrongObject   = "42809"
	codeDeadlock      = "40P01"
	codeDuplicateRole = "42710"
)

func hasCode(err error, codes ...string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, refused.Code)
}

// mark is the comment that a fresh database bears until its restore is noted down: so a later run knows that the swap
// has happened, even when nothing was there to be replaced.
func (r *restore) mark() string { return "holdfast: restored for " + r.UID }

// swappedBefore tells whether an earlier run of this restore put the new databases in place.
func (r *restore) swappedBefore(ctx context.Context) (bool, error) {
	if r.Swapped {
		return true, nil
	}
	for _, item := range r.items {
		var done bool
		const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1) OR EXISTS (SELECT FROM pg_database
			WHERE datname = $2 AND shobj_description(oid, 'pg_database') = $3)`
		if err := r.admin.QueryRow(ctx, query, item.old, item.target, r.mark()).Scan(&done); err != nil {
			return false, r.queryError(err)
		}
		if done {
			return true, nil
		}
	}
	return false, nil
}

// obstacles fails when something holds a target that ending sessions does not loosen.
func (r *restore) obstacles(ctx context.Context) error {
	for _, item := range r.items {
		var held *string
		const query = `SELECT string_agg(what, ', ') FROM (
			SELECT format('prepared transaction %L: COMMIT PREPARED or ROLLBACK PREPARED it', gid) AS what
				FROM pg_prepared_xacts WHERE database = $1
			UNION ALL SELECT format('logical replication slot %L: drop it with pg_drop_replication_slot', slot_name)
				FROM pg_replication_slots WHERE database = $1
			UNION ALL SELECT format('subscription %L: drop it', subname) FROM (SELECT s.subname FROM pg_subscription s
				JOIN pg_database d ON d.oid = s.subdbid WHERE d.datname = $1) sub
			UNION ALL SELECT 'it is a template: ALTER DATABASE … IS_TEMPLATE false' FROM pg_database
				WHERE datname = $1 AND datistemplate) held`
		err := r.admin.QueryRow(ctx, query, item.target).Scan(&held)
		if hasCode(err, codeNoPrivilege) { // pg_subscription may be closed to the user
			continue
		}
		if err != nil {
			return r.queryError(err)
		}
		if held != nil {
			return Permanent(ReasonSwapFailed, "database %q of %s cannot be replaced while it is held by %s", item.target, r.where(), *held)
		}
	}
	return nil
}

// mayRestore fails when the user lacks a right that the restore will need, and says how to grant it.
func (r *restore) mayRestore(ctx context.Context) error {
	if r.server.superuser {
		return nil
	}
	var creates bool
	if err := r.admin.QueryRow(ctx, `SELECT rolcreatedb FROM pg_roles WHERE rolname = current_user`).Scan(&creates); err != nil {
		return r.queryError(err)
	}
	if !creates {
		return Permanent(ReasonPermissionDenied, "user %q may not create databases on %s, and a restore loads into a fresh one: "+
			"ALTER ROLE %s CREATEDB", r.Username, r.where(), quote(r.Username))
	}
	for _, item := range r.items {
		if err := r.mayReplace(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) mayReplace(ctx context.Context, item *restoreItem) error {
	if !item.exists {
		return nil
	}
	var (
		owner string
		owns  bool
		ends  bool
	)
	const query = `SELECT pg_get_userbyid(datdba), pg_has_role(datdba, 'USAGE'), pg_has_role('pg_signal_backend', 'USAGE')
		FROM pg_database WHERE datname = $1`
	if err := r.admin.QueryRow(ctx, query, item.target).Scan(&owner, &owns, &ends); err != nil {
		return r.queryError(err)
	}
	if !owns {
		return Permanent(ReasonPermissionDenied, "user %q may not rename database %q, which role %q owns: GRANT %s TO %s",
			r.Username, item.target, owner, quote(owner), quote(r.Username))
	}
	if !ends {
		return Permanent(ReasonPermissionDenied, "user %q may not end the sessions of others in database %q, which replacing it "+
			"needs: GRANT pg_signal_backend TO %s", r.Username, item.target, quote(r.Username))
	}
	return nil
}

// swap puts the fresh databases in place of the old ones, all or none. Sessions in the old ones are ended for as
// long as the server waits for them to go; new sessions wait for the outcome.
func (r *restore) swap(ctx context.Context) error {
	for _, item := range r.items {
		if err := execute(ctx, r.admin, "COMMENT ON DATABASE "+quote(item.fresh)+" IS "+pgsql.Literal(r.mark())); err != nil {
			return r.queryError(err)
		}
	}
	for begin := time.Now(); ; {
		err := r.trySwap(ctx)
		if err == nil {
			return nil
		}
		if !hasCode(err, codeObjectInUse, codeLockNotFree, codeDeadlock) {
			return r.swapError(err)
		}
		if time.Since(begin) > swapPatience {
			return r.heldError(ctx, err)
		}
		if err := Pause(ctx, swapInterval); err != nil {
			return err
		}
	}
}

func (r *restore) swapError(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if r.admin.IsClosed() {
		return r.awayError(err)
	}
	return Permanent(ReasonSwapFailed, "the new databases cannot be put in place on %s: %w", r.where(), err)
}

// trySwap renames everything in one transaction.
func (r *restore) trySwap(ctx context.Context) error {
	var databases []string
	statements := []string{"BEGIN", "SET LOCAL lock_timeout = '10s'"}
	for _, item := range r.items {
		there, err := r.exists(ctx, item.target)
		if err != nil {
			return err
		}
		if there {
			if err := r.needSaved(item.target, r.Options); err != nil {
				return err
			}
			statements = append(statements, "ALTER DATABASE "+quote(item.target)+" RENAME TO "+quote(item.old))
		}
		statements = append(statements, "ALTER DATABASE "+quote(item.fresh)+" RENAME TO "+quote(item.target))
		databases = append(databases, item.target, item.fresh)
	}
	stop, err := r.endSessions(ctx, databases)
	if err != nil {
		return err
	}
	defer stop()
	for _, statement := range statements {
		if err := execute(ctx, r.admin, statement); err != nil {
			_ = execute(context.WithoutCancel(ctx), r.admin, "ROLLBACK")
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return r.commit(ctx)
}

// commit ends the transaction of the swap. Whoever asks to stop now gets to know whether it has happened; where the
// answer is lost, the server is asked.
func (r *restore) commit(ctx context.Context) error {
	ctx, cancel := outlast(ctx, commitPatience, commitPatience)
	defer cancel()
	err := execute(ctx, r.admin, "COMMIT")
	if err == nil || !r.admin.IsClosed() {
		return err
	}
	ctx, cancel = outlast(ctx, commitPatience, commitPatience)
	defer cancel()
	done, askErr := false, r.reconnect(ctx)
	if askErr == nil {
		done, askErr = r.swappedBefore(ctx)
	}
	switch {
	case done:
		return nil
	case askErr != nil:
		err = fmt.Errorf("%w: %w", err, errUnsure)
	}
	return r.awayError(err)
}

func (r *restore) awayError(err error) *Error {
	return Transient(ReasonServerUnreachable, "%s went away while the new databases were put in place: %w", r.where(), err)
}

// endSessions ends the sessions of some databases again and again, over a connection of its own, until stop is called.
func (r *restore) endSessions(ctx context.Context, databases []string) (stop func(), err error) {
	conn, err := r.connect(ctx, r.adminDB)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer closeConn(conn)
		for {
			r.endOnce(ctx, conn, databases)
			if Pause(ctx, swapInterval) != nil {
				return
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// endOnce asks each session to end. One that may not be ended is left to the message of the swap.
func (r *restore) endOnce(ctx context.Context, conn *pgx.Conn, databases []string) {
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = ANY ($1::text[]) AND pid <> pg_backend_pid()`, databases)
	if err != nil {
		return
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return
	}
	for _, pid := range pids {
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid); err != nil {
			r.Log.Warn("could not end a session", "pid", pid, "error", err.Error())
		}
	}
}

// heldError names who holds the targets.
func (r *restore) heldError(ctx context.Context, cause error) error {
	if err := r.obstacles(ctx); err != nil {
		return err
	}
	var targets []string
	for _, item := range r.items {
		targets = append(targets, item.target)
	}
	var holders string
	const query = `SELECT coalesce(string_agg(format('%s (%s, pid %s)', coalesce(usename, backend_type), application_name, pid), ', '), '')
		FROM pg_stat_activity WHERE datname = ANY ($1::text[])`
	if err := r.admin.QueryRow(ctx, query, targets).Scan(&holders); err != nil {
		return r.queryError(err)
	}
	return Transient(ReasonSwapFailed, "%s could not be replaced within %s, since sessions hold it: %s: stop what connects to it, or let "+
		"user %q end its sessions (GRANT pg_signal_backend; those of superusers only a superuser may end): %w",
		named(r.targets()), swapPatience, holders, r.Username, cause)
}

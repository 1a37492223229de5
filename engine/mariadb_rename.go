package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// mark is a table that is renamed with the others, so that it stands in the target from the RENAME on. It holds what a
// later run must know: the accounts that this restore made, and the triggers that it put aside.
func (r *myRestore) mark(database string) string {
	return mydump.QuoteName(database) + "." + mydump.QuoteName(r.markName())
}

func (r *myRestore) markName() string {
	return strings.Replace(temporaryName("new", r.UID, 0), "_new_", "_mark_", 1)
}

// marked tells whether an earlier run renamed the tables.
func (r *myRestore) marked(ctx context.Context) (bool, error) {
	return r.hasMark(ctx, r.items[0].target)
}

func (r *myRestore) hasMark(ctx context.Context, database string) (bool, error) {
	var count int
	err := r.scan(ctx, []any{&count}, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", database, r.markName())
	return count > 0, err
}

// marks reads one kind of what the mark holds.
func (r *myRestore) marks(ctx context.Context, database, what string) ([]string, error) {
	there, err := r.hasMark(ctx, database)
	if err != nil || !there {
		return nil, err
	}
	texts, err := r.strings(ctx, "SELECT text FROM "+r.mark(database)+" WHERE what = ? ORDER BY id", what)
	if err != nil {
		return nil, r.myError("", err)
	}
	return texts, nil
}

// The kinds of what the mark holds.
const (
	markAccount = "account"
	markTrigger = "trigger" // its database, its name and the statements that make it, joined by markSeparator
)

const markSeparator = "\x00"

// takeUp puts right what an earlier try of this restore left before the RENAME, and drops it.
func (r *myRestore) takeUp(ctx context.Context) error {
	fresh := r.items[0].fresh
	accounts, err := r.marks(ctx, fresh, markAccount)
	if err != nil {
		return err
	}
	r.accounts = append(r.accounts, accounts...)
	if err := r.returnTriggers(ctx, fresh); err != nil {
		return err
	}
	for _, item := range r.items {
		for _, name := range []string{item.fresh, item.old} {
			if err := r.drop(ctx, name); err != nil {
				return r.myError("", err)
			}
		}
	}
	return nil
}

// returnTriggers makes the triggers again that were put aside.
func (r *myRestore) returnTriggers(ctx context.Context, fresh string) error {
	triggers, err := r.marks(ctx, fresh, markTrigger)
	if err != nil {
		return err
	}
	for _, trigger := range triggers {
		statements := strings.Split(trigger, markSeparator)
		there, err := r.strings(ctx, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? AND TRIGGER_NAME = ?", statements[0], statements[1])
		if err != nil {
			return r.myError("", err)
		}
		if len(there) > 0 { // it was noted, and then not dropped
			continue
		}
		for _, statement := range statements[2:] {
			if err := r.exec(ctx, statement); err != nil {
				return r.myError("", err)
			}
		}
	}
	return r.exec(ctx, "SET SESSION sql_mode = DEFAULT")
}

// rename puts the tables in place, all or none.
func (r *myRestore) rename(ctx context.Context) error {
	if err := r.writeMark(ctx); err != nil {
		return err
	}
	if err := r.createAccounts(ctx); err != nil {
		return err
	}
	var moves []string
	for _, item := range r.items {
		these, err := r.moves(ctx, item)
		if err != nil {
			return err
		}
		moves = append(moves, these...)
	}
	for _, item := range r.items {
		if err := r.putTriggersAside(ctx, item); err != nil {
			return err // cleanUp returns them
		}
	}
	return r.patiently(ctx, "RENAME TABLE "+strings.Join(moves, ", "))
}

func (r *myRestore) writeMark(ctx context.Context) error {
	mark := r.mark(r.items[0].fresh)
	statements := []string{"SET NAMES utf8mb4", "SET SESSION foreign_key_checks = 0", "SET SESSION lock_wait_timeout = 5",
		"CREATE TABLE " + mark + " (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(16) NOT NULL, text LONGTEXT NOT NULL) ENGINE=InnoDB CHARACTER SET utf8mb4"}
	for _, statement := range statements {
		if err := r.exec(ctx, statement); err != nil {
			return r.myError("", err)
		}
	}
	return r.note(ctx, markAccount, r.accounts...)
}

func (r *myRestore) note(ctx context.Context, what string, texts ...string) error {
	for _, text := range texts {
		if _, err := r.conn.ExecContext(ctx, "INSERT INTO "+r.mark(r.items[0].fresh)+" (what, text) VALUES (?, ?)", what, text); err != nil {
			return r.myError("", err)
		}
	}
	return nil
}

// moves are the renames of one database's tables, the old ones out of it and the fresh ones into it.
func (r *myRestore) moves(ctx context.Context, item *myItem) ([]string, error) {
	there, err := r.databases(ctx)
	if err != nil {
		return nil, err
	}
	item.exists = slices.Contains(there, item.target)
	if err := r.mayLose(item); err != nil {
		return nil, err
	}
	for _, name := range []string{item.target, item.old} {
		if err := r.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+mydump.QuoteName(name)); err != nil {
			return nil, r.myError(name, err)
		}
	}
	var moves []string
	for _, move := range [][2]string{{item.target, item.old}, {item.fresh, item.target}} {
		tables, err := r.tables(ctx, move[0])
		if err != nil {
			return nil, err
		}
		for _, table := range tables {
			name := "." + mydump.QuoteName(table)
			moves = append(moves, mydump.QuoteName(move[0])+name+" TO "+mydump.QuoteName(move[1])+name)
		}
	}
	return moves, nil
}

// putTriggersAside drops the triggers of the old tables, after it noted how to make them again, and those of the fresh
// ones: no table can be renamed into another database with a trigger.
func (r *myRestore) putTriggersAside(ctx context.Context, item *myItem) error {
	for _, database := range []string{item.fresh, item.target} {
		names, err := r.strings(ctx, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? ORDER BY ACTION_ORDER", database)
		if err != nil {
			return r.myError("", err)
		}
		for _, name := range names {
			if database == item.target {
				if err := r.noteTrigger(ctx, database, name); err != nil {
					return err
				}
			}
			if err := r.patiently(ctx, "DROP TRIGGER IF EXISTS "+mydump.QuoteName(database)+"."+mydump.QuoteName(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *myRestore) noteTrigger(ctx context.Context, database, name string) error {
	var (
		trigger, mode, statement, client, connection, of string
		created                                          any
	)
	err := r.scan(ctx, []any{&trigger, &mode, &statement, &client, &connection, &of, &created},
		"SHOW CREATE TRIGGER "+mydump.QuoteName(database)+"."+mydump.QuoteName(name))
	if err != nil {
		return err
	}
	return r.note(ctx, markTrigger, strings.Join([]string{database, name, "USE " + mydump.QuoteName(database), "SET SESSION sql_mode = '" + mode + "'",
		"SET NAMES utf8mb4", "SET SESSION collation_connection = " + connection, statement}, markSeparator))
}

// patiently runs a statement that waits for whoever uses the tables, with pauses in which others get their turn.
func (r *myRestore) patiently(ctx context.Context, statement string) error {
	for begin := time.Now(); ; {
		err := r.exec(ctx, statement)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || gone(err):
			return r.askAgain(ctx, err)
		case !hasNumber(err, myLockWait, myDeadlock):
			return Permanent(ReasonSwapFailed, "the new tables cannot be put in place on %s: %w", r.where(), err)
		case time.Since(begin) > swapPatience:
			return r.heldBy(ctx, err)
		}
		if err := Pause(ctx, swapInterval); err != nil {
			return err
		}
	}
}

// askAgain asks a server whose answer to the RENAME was lost whether it has happened.
func (r *myRestore) askAgain(ctx context.Context, cause error) error {
	lasting, cancel := outlast(ctx, commitPatience, commitPatience)
	defer cancel()
	err := r.reconnect(lasting)
	if err == nil {
		var done bool
		if done, err = r.marked(lasting); done {
			return nil
		}
	}
	if err != nil {
		return Transient(ReasonServerUnreachable, "%s went away while the new tables were put in place: %w: %w", r.where(), cause, errUnsure)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return Transient(ReasonServerUnreachable, "%s went away while the new tables were put in place: %w", r.where(), cause)
}

// heldBy names who holds the tables, as far as the account may see others.
func (r *myRestore) heldBy(ctx context.Context, cause error) error {
	var targets []any
	for _, item := range r.items {
		targets = append(targets, item.target)
	}
	holders, err := r.strings(ctx, "SELECT CONCAT(USER, ' (', COALESCE(HOST, ''), ', id ', ID, ')') FROM information_schema.PROCESSLIST WHERE DB IN (?"+
		strings.Repeat(", ?", len(targets)-1)+") AND ID <> CONNECTION_ID()", targets...)
	if err != nil {
		return r.myError("", err)
	}
	return Transient(ReasonSwapFailed, "%s could not be replaced within %s, since sessions hold its tables in open transactions: %s: stop what connects "+
		"to it, or KILL them: %w", named(r.targets()), swapPatience, strings.Join(holders, ", "), cause)
}

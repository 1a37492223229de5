package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
)

// holder is a session in a transaction, which keeps the locks that it takes.
func (f *fixture) holder() *pgx.Conn {
	f.t.Helper()
	conn := f.pg.Conn(f.t, "postgres")
	if _, err := conn.Exec(f.t.Context(), "BEGIN"); err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// takeLock locks a database as an object, which keeps it from being renamed and dropped.
func takeLock(database string) string {
	return "ALTER ROLE postgres IN DATABASE " + quoted(database) + " SET work_mem = '5MB'"
}

// heldOldDatabase runs a load up to the DROP of the old database, and holds that. It returns what lets it go.
func (f *fixture) heldOldDatabase(ctx context.Context, r *job, db string) (done <-chan contract.Result, release func()) {
	f.t.Helper()
	f.sleepy(2)
	id := strings.ReplaceAll(r.task.Object.UID, "-", "")[:12]
	first, second := f.holder(), f.holder()
	done = r.start(ctx, contract.VerbLoad)
	f.asleep()
	// The swap renames the old database, then has to wait for the fresh one. Who asks for the old one meanwhile gets it as
	// soon as the swap is committed, before it can be dropped.
	if _, err := first.Exec(f.t.Context(), takeLock("holdfast_new_"+id)); err != nil {
		f.t.Fatal(err)
	}
	f.waits("ALTER DATABASE %holdfast_new%RENAME%")
	asked := make(chan error, 1)
	go func() {
		_, err := second.Exec(context.Background(), takeLock(db))
		asked <- err
	}()
	f.waits("ALTER ROLE postgres IN DATABASE%")
	if _, err := first.Exec(f.t.Context(), "ROLLBACK"); err != nil {
		f.t.Fatal(err)
	}
	if err := <-asked; err != nil {
		f.t.Fatal(err)
	}
	return done, func() {
		if _, err := second.Exec(context.Background(), "ROLLBACK"); err != nil {
			f.t.Error(err)
		}
	}
}

// waits until a statement waits for a lock.
func (f *fixture) waits(like string) {
	f.t.Helper()
	eventually(f.t, "a lock waited for by "+like, func() bool {
		return f.pg.Query(f.t, "postgres", `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '`+
			strings.ReplaceAll(like, "'", "''")+`'`) == "1"
	})
}

// The restore has succeeded when the swap has: that the old database cannot be dropped, or that somebody asks to stop
// meanwhile, is a note with the statement that removes it.
func TestOldDatabaseThatIsHeld(t *testing.T) {
	for name, stop := range map[string]bool{"for too long": false, "when somebody asks to stop": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r, db := f.fetched()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done, release := f.heldOldDatabase(ctx, r, db)
			f.waits("DROP DATABASE%")
			begun := time.Now()
			if stop {
				cancel(agent.ErrTerminated)
			}
			result := <-done
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("it took %s to end; a pod that is told to stop has 30 seconds", took)
			}
			release()
			if result.Failure != nil {
				t.Fatalf("the restore failed, though the swap is done: %+v", *result.Failure)
			}
			old := "holdfast_old_" + strings.ReplaceAll(r.task.Object.UID, "-", "")[:12]
			statement := "DROP DATABASE IF EXISTS " + quoted(old)
			if !strings.Contains(result.Note, "still there as "+old) || !strings.Contains(result.Note, statement) {
				t.Errorf("the note is %q", result.Note)
			}
			if stop && !strings.Contains(result.Note, agent.ErrTerminated.Error()) {
				t.Errorf("the note does not say why: %q", result.Note)
			}
			if strings.Contains(result.Note, "holdfast_new") {
				t.Errorf("the note names what is not there: %q", result.Note)
			}
			f.says(db, "old")
			f.pg.Exec(t, "postgres", statement)
			f.noLeftovers()
		})
	}
}

// The same task, run again, drops what the first had to leave.
func TestOldDatabaseThatIsHeldIsDroppedByTheNextTry(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	ctx, cancel := context.WithCancelCause(t.Context())
	done, release := f.heldOldDatabase(ctx, r, db)
	f.waits("DROP DATABASE%")
	cancel(agent.ErrTerminated)
	if note := (<-done).Note; !strings.Contains(note, "holdfast_old_") {
		t.Errorf("the note is %q", note)
	}
	release()
	f.pg.Exec(t, db, `UPDATE t SET v = 'newer'`)
	if note := r.must(contract.VerbLoad).Note; note != "" {
		t.Errorf("the note is %q", note)
	}
	f.says(db, "newer")
	f.noLeftovers()
}

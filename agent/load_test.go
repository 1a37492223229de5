package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// slow are statements whose restore takes as long as the setting test.sleep of the restoring role says.
var slow = []string{
	`CREATE FUNCTION slow() RETURNS int LANGUAGE sql AS $$ SELECT 1 FROM pg_sleep(coalesce(current_setting('test.sleep', true)::float, 0)) $$`,
	`CREATE MATERIALIZED VIEW waits AS SELECT public.slow()`, `CREATE TABLE t (v text)`, `INSERT INTO t VALUES ('old')`,
}

// fetched is a restore whose artifact is staged, of a database in which t says old; the database then says new.
func (f *fixture) fetched(statements ...string) (*job, string) {
	f.t.Helper()
	db := f.pg.Database(f.t, append([]string{}, append(slow, statements...)...)...)
	key := f.backup(db)
	f.pg.Exec(f.t, db, `UPDATE t SET v = 'new'`)
	r := f.restoreJob(key, db)
	r.fetch()
	return r, db
}

func (f *fixture) says(db, want string) {
	f.t.Helper()
	if got := f.pg.Query(f.t, db, `SELECT v FROM t`); got != want {
		f.t.Errorf("the database says %q, want %q", got, want)
	}
}

// sleepy makes restores of the superuser slow.
func (f *fixture) sleepy(seconds int) {
	f.pg.Exec(f.t, "postgres", fmt.Sprintf(`ALTER ROLE postgres SET test.sleep = '%d'`, seconds))
	f.t.Cleanup(f.awake)
}

func (f *fixture) awake() { f.pg.Exec(f.t, "postgres", `ALTER ROLE postgres RESET test.sleep`) }

// asleep waits until a restore is in the middle of it.
func (f *fixture) asleep() {
	f.t.Helper()
	eventually(f.t, "a restore in the middle", func() bool {
		return f.pg.Query(f.t, "postgres", `SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'holdfast_new%' AND wait_event = 'PgSleep'`) == "1"
	})
}

func TestRestoreThatFailsLeavesTheDatabase(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, slow...)
	f.pg.Exec(t, db, `CREATE TABLE u (i int)`, `INSERT INTO u VALUES (1), (1)`)
	bad := string(f.pgDump(db)) + "\nALTER TABLE public.u ADD UNIQUE (i);\n"
	f.minio.Put(t, f.bucket, "bad.sql", bad)
	before := fingerprint(t, f.pg, db)
	r := f.restoreJob("bad.sql", db)
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "was not touched", db, "unique", "line ")
	if got := fingerprint(t, f.pg, db); got != before {
		t.Errorf("the database changed:\n%s\nwas:\n%s", got, before)
	}
	f.noLeftovers()
}

func TestArchiveThatCannotBeRestoredLeavesTheDatabase(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched(`CREATE FUNCTION never() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF current_database() LIKE 'holdfast%' THEN RAISE 'not here'; END IF; RETURN 1; END $$`,
		`CREATE TABLE checked (i int CHECK (never() = 1))`, `INSERT INTO checked VALUES (1)`)
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "was not touched", "not here", "pg_restore")
	f.says(db, "new")
	f.noLeftovers()
}

func TestRestoreIsTerminated(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	f.sleepy(60)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := r.start(ctx, contract.VerbLoad)
	f.asleep()
	begun := time.Now()
	cancel(agent.ErrTerminated)
	checkFailure(t, <-done, contract.ReasonTerminated, true)
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	f.says(db, "new")
	f.noLeftovers()
	f.awake()
	r.must(contract.VerbLoad)
	f.says(db, "old")
}

func TestServerIsKilledDuringTheRestore(t *testing.T) {
	s := pgtest.Start(t, "15")
	f := newFixtureOn(t, s)
	s.Exec(t, "postgres", `CREATE DATABASE d`)
	s.Exec(t, "d", slow...)
	key := f.backup("d")
	s.Exec(t, "d", `UPDATE t SET v = 'new'`)
	r := f.restoreJob(key, "d")
	r.fetch()
	f.sleepy(60)
	done := r.start(t.Context(), contract.VerbLoad)
	f.asleep()
	s.Kill()
	checkFailure(t, <-done, contract.ReasonServerUnreachable, true, "was not touched")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	f.says("d", "new")
	f.awake()
	r.must(contract.VerbLoad) // which drops what the first left
	f.says("d", "old")
	f.noLeftovers()
}

// Clients that come back at once, all the time, must not keep the swap from happening, and see either database.
func TestSwapUnderClients(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	ctx, stop := context.WithCancel(t.Context())
	var asked, strange atomic.Int64
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres password='%s' dbname=%s sslmode=disable", f.pg.Host, f.pg.Port,
					strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pgtest.Password), db))
				if err != nil {
					continue
				}
				var v string
				for conn.QueryRow(ctx, `SELECT v FROM t`).Scan(&v) == nil {
					if asked.Add(1); v != "old" && v != "new" {
						strange.Add(1)
					}
				}
				_ = conn.Close(context.Background())
			}
		}()
	}
	eventually(t, "clients at work", func() bool { return asked.Load() > 10 })
	r.must(contract.VerbLoad)
	before := asked.Load()
	eventually(t, "clients at work again", func() bool { return asked.Load() > before+10 })
	stop()
	for range 4 {
		<-done
	}
	if strange.Load() > 0 {
		t.Error("a client saw something strange")
	}
	f.says(db, "old")
	f.noLeftovers()
}

func TestRestoreIsRunAgainAtEachPoint(t *testing.T) {
	f := newFixture(t)
	for name, interrupt := range map[string]func(r *job, fresh, old, db string){
		"after the load": func(_ *job, fresh, _, db string) {
			f.pg.Exec(t, "postgres", "CREATE DATABASE "+fresh)
		},
		"after the swap": func(r *job, fresh, old, db string) {
			f.pg.Exec(t, "postgres", "CREATE DATABASE "+fresh)
			f.pg.Exec(t, fresh, `CREATE TABLE t AS SELECT 'swapped' AS v`)
			f.pg.Exec(t, "postgres", "COMMENT ON DATABASE "+fresh+" IS 'holdfast: restored for "+r.task.Object.UID+"'",
				"ALTER DATABASE "+quoted(db)+" RENAME TO "+old, "ALTER DATABASE "+fresh+" RENAME TO "+quoted(db))
		},
		"after the swap of a database that was not there": func(r *job, fresh, _, db string) {
			f.pg.Exec(t, db, `UPDATE t SET v = 'swapped'`)
			f.pg.Exec(t, "postgres", "COMMENT ON DATABASE "+quoted(db)+" IS 'holdfast: restored for "+r.task.Object.UID+"'")
		},
		"after the note": func(r *job, _, old, db string) {
			r.must(contract.VerbLoad)
			f.pg.Exec(t, db, `UPDATE t SET v = 'swapped'`)
			f.pg.Exec(t, "postgres", "CREATE DATABASE "+old)
		},
		"after a DROP that was interrupted": func(r *job, _, old, db string) {
			r.must(contract.VerbLoad)
			f.pg.Exec(t, db, `UPDATE t SET v = 'swapped'`)
			f.pg.Exec(t, "postgres", "CREATE DATABASE "+old, "UPDATE pg_database SET datconnlimit = -2 WHERE datname = '"+old+"'")
		},
		"after it all": func(r *job, _, _, db string) {
			r.must(contract.VerbLoad)
			f.pg.Exec(t, db, `UPDATE t SET v = 'swapped'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			r, db := f.fetched()
			id := strings.ReplaceAll(r.task.Object.UID, "-", "")[:12]
			interrupt(r, "holdfast_new_"+id, "holdfast_old_"+id, db)
			r.must(contract.VerbLoad)
			want := "swapped" // what was written after the swap stays
			if name == "after the load" {
				want = "old"
			}
			f.says(db, want)
			if got := f.pg.Query(t, db, `SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = current_database()`); got != "" {
				t.Errorf("the mark is still there: %s", got)
			}
			f.noLeftovers()
		})
	}
}

func TestTemporaryDatabasesOfOthersAreLeftAlone(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	f.pg.Exec(t, "postgres", `CREATE DATABASE holdfast_new_0123456789ab`)
	t.Cleanup(func() { f.pg.Drop(t, "holdfast_new_0123456789ab") })
	r.must(contract.VerbLoad)
	f.says(db, "old")
	if got := f.pg.Query(t, "postgres", `SELECT datname FROM pg_database WHERE datname LIKE 'holdfast%'`); got != "holdfast_new_0123456789ab" {
		t.Errorf("temporary databases: %q", got)
	}
}

func TestTargetThatIsHeld(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		hold, release []string
		words         string
	}{
		"a prepared transaction": {[]string{`BEGIN; INSERT INTO t VALUES ('x'); PREPARE TRANSACTION 'held'`}, []string{`ROLLBACK PREPARED 'held'`}, "'held'"},
		"a replication slot": {[]string{`SELECT pg_create_logical_replication_slot('held_slot', 'pgoutput')`},
			[]string{`SELECT pg_drop_replication_slot('held_slot')`}, "'held_slot'"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			r, db := f.fetched()
			f.pg.Exec(t, db, c.hold...)
			r.mustFail(contract.VerbLoad, contract.ReasonSwapFailed, false, c.words, "was not touched")
			r.mustFail(contract.VerbInspect, contract.ReasonSwapFailed, false, c.words)
			f.pg.Exec(t, db, c.release...)
			r.must(contract.VerbLoad)
			f.says(db, "old")
			f.noLeftovers()
		})
	}
}

func TestRoleIsMissing(t *testing.T) {
	f := newFixture(t)
	f.pg.Exec(t, "postgres", `CREATE ROLE "gone owner"`, `CREATE ROLE gone_reader`)
	r, db := f.fetched(`ALTER TABLE t OWNER TO "gone owner"`, `CREATE TABLE u (i int)`, `GRANT SELECT ON u TO gone_reader`)
	f.pg.Exec(t, db, `ALTER TABLE t OWNER TO postgres`, `REVOKE ALL ON u FROM gone_reader`)
	f.pg.Exec(t, "postgres", `DROP ROLE "gone owner"`, `DROP ROLE gone_reader`)
	r.mustFail(contract.VerbLoad, contract.ReasonRoleMissing, false, `CREATE ROLE "gone owner"`, "gone_reader", "Omit", "was not touched")
	f.says(db, "new")
	f.noLeftovers()
	r.task.Restore = &engine.RestoreOptions{OmitOwnership: true, OmitPrivileges: true}
	r.must(contract.VerbLoad)
	f.says(db, "old")
}

func TestUserWithoutAllRights(t *testing.T) {
	s := pgtest.Start(t, "15")
	f := newFixtureOn(t, s)
	s.Exec(t, "postgres", `CREATE ROLE dba LOGIN PASSWORD 'dba:pass'`, `CREATE ROLE app`, `CREATE DATABASE d OWNER app`)
	s.Exec(t, "d", slow...)
	s.Exec(t, "d", `ALTER TABLE t OWNER TO app`, `ALTER FUNCTION slow OWNER TO app`, `ALTER MATERIALIZED VIEW waits OWNER TO app`)
	key := f.backup("d")
	s.Exec(t, "d", `UPDATE t SET v = 'new'`)
	f.secret = credentials(t, "dba", "dba:pass")
	r := f.restoreJob(key, "d")
	for _, step := range []struct{ advice, grant string }{
		{`ALTER ROLE "dba" CREATEDB`, `ALTER ROLE dba CREATEDB`},
		{`GRANT "app" TO "dba"`, `GRANT app TO dba`},
		{`GRANT pg_signal_backend TO "dba"`, `GRANT pg_signal_backend TO dba`},
	} {
		r.mustFail(contract.VerbInspect, contract.ReasonPermissionDenied, false, step.advice)
		s.Exec(t, "postgres", step.grant)
	}
	r.fetch()
	r.must(contract.VerbLoad)
	f.says("d", "old")
	f.noLeftovers()
	if got := s.Query(t, "d", `SELECT datdba::regrole FROM pg_database WHERE datname = 'd'`); got != "app" {
		t.Errorf("the owner is %s", got)
	}
	whole := f.job()
	if note := whole.must(contract.VerbDump).Note; !strings.Contains(note, "without their passwords") {
		t.Errorf("the note is %q", note)
	}
}

func TestLoadWithoutAStagedArtifact(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	path := filepath.Join(r.staging, "artifact")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	r.mustFail(contract.VerbLoad, contract.ReasonStagedArtifactDamaged, false, "SHA-256")
	f.says(db, "new")
	f.job(db).mustFail(contract.VerbLoad, contract.ReasonStagedArtifactDamaged, false)
}

// A database that came to be after the inspection is in no safety backup.
func TestDatabaseThatNothingHoldsIsNotReplaced(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched()
	r.task.Restore.SavedOnly = true
	r.mustFail(contract.VerbLoad, contract.ReasonTargetNotSaved, false, db, "not touched")
	f.says(db, "new")
	f.noLeftovers()
	r.task.Restore.Saved = []string{db}
	r.must(contract.VerbLoad)
	f.says(db, "old")
}

// The server undoes what a script left in an open transaction: that must not pass for a restore.
func TestScriptThatEndsInsideATransaction(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t AS SELECT 'new' AS v`)
	f.minio.Put(t, f.bucket, "open.sql", "BEGIN;\nCREATE TABLE precious (i int);\nINSERT INTO precious VALUES (1);\n")
	r := f.restoreJob("open.sql", db)
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreIncomplete, false, "COMMIT", "not touched")
	f.says(db, "new")
	f.noLeftovers()
}

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
)

func TestMariaDBClientThatIsNotThere(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('kept')")
	key := f.backup(name)
	f.db.Exec(t, name, "DELETE FROM t")
	t.Setenv("PATH", t.TempDir())
	f.job(name).mustFail(contract.VerbDump, contract.ReasonClientMissing, false, "mariadb-dump", "mariadb:10.11", "spec.database.image")
	f.restore(key, name) // which needs no client program
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "kept" {
		t.Errorf("restored: %q", got)
	}
}

// held waits until somebody waits for a table that is locked.
func (f *mariaFixture) held() {
	f.t.Helper()
	eventually(f.t, "somebody waits for a lock", func() bool {
		return f.db.Query(f.t, "", "SELECT COUNT(*) > 0 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%'") == "1"
	})
}

func TestMariaDBIsKilledDuringTheDump(t *testing.T) {
	s := mariadbtest.Start(t)
	f := newMariaFixtureOn(t, s)
	s.Exec(t, "", "CREATE DATABASE d", "USE d", "CREATE TABLE d.a SELECT seq, REPEAT('x', 500) AS v FROM seq_1_to_20000", "CREATE TABLE d.z (i INT)")
	locker := s.DB(t, "d")
	if _, err := locker.Exec("LOCK TABLES z WRITE"); err != nil {
		t.Fatal(err)
	}
	j := f.job("d")
	done := j.start(t.Context(), contract.VerbDump)
	f.held()
	s.Kill()
	checkFailure(t, <-done, contract.ReasonServerUnreachable, true, "cannot be reached")
	if left := j.staged(); left != "" {
		t.Errorf("left on staging: %s", left)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	j.must(contract.VerbDump)
}

// foreign puts a script into the store and fetches it.
func (f *mariaFixture) foreign(script, database string) *job {
	f.t.Helper()
	f.minio.Put(f.t, f.bucket, "foreign.sql", script)
	r := f.restoreJob("foreign.sql", database)
	r.fetch()
	return r
}

const sleepy = "CREATE TABLE t (v TEXT);\nINSERT INTO t VALUES ('old');\nCREATE TABLE s (i INT);\nINSERT INTO s SELECT SLEEP(60);\n"

func (f *mariaFixture) asleep() {
	f.t.Helper()
	eventually(f.t, "a restore in the middle", func() bool {
		return f.db.Query(f.t, "", "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'") == "1"
	})
}

func TestMariaDBIsKilledDuringTheRestore(t *testing.T) {
	s := mariadbtest.Start(t)
	f := newMariaFixtureOn(t, s)
	s.Exec(t, "", "CREATE DATABASE d", "CREATE TABLE d.t (v TEXT)", "INSERT INTO d.t VALUES ('new')")
	r := f.foreign(sleepy, "d")
	done := r.start(t.Context(), contract.VerbLoad)
	f.asleep()
	s.Kill()
	checkFailure(t, <-done, contract.ReasonServerUnreachable, true, "was not touched")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := s.Query(t, "d", "SELECT v FROM t"); got != "new" {
		t.Errorf("the database says %q", got)
	}
}

func TestMariaDBRestoreIsTerminated(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('new')")
	r := f.foreign(sleepy, name)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := r.start(ctx, contract.VerbLoad)
	f.asleep()
	cancel(agent.ErrTerminated)
	checkFailure(t, <-done, contract.ReasonTerminated, true)
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "new" {
		t.Errorf("the database says %q", got)
	}
	f.noLeftovers()
}

// A restore that waits for a table in vain gives the old triggers back, and succeeds once it is free.
func TestMariaDBTablesThatAreInUse(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('old')", "SET NAMES latin1", "SET sql_mode = 'ANSI_QUOTES'",
		"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'triggered'", "CREATE TRIGGER tr2 BEFORE INSERT ON t FOR EACH ROW SET NEW.\"v\" = NEW.v")
	key := f.backup(name)
	f.db.Exec(t, name, "UPDATE t SET v = 'new'")
	want := mariaFingerprint(t, f.db, name)
	holder := f.db.DB(t, name)
	for _, statement := range []string{"START TRANSACTION", "SELECT * FROM t"} {
		if _, err := holder.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	r := f.restoreJob(key, name)
	r.fetch()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := r.start(ctx, contract.VerbLoad)
	f.held()
	cancel(agent.ErrTerminated)
	checkFailure(t, <-done, contract.ReasonTerminated, true)
	if _, err := holder.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := mariaFingerprint(t, f.db, name); got != want {
		t.Errorf("after the try in vain:\n%s\nwant:\n%s", got, want)
	}
	f.noLeftovers()
	r.must(contract.VerbLoad)
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "old" {
		t.Errorf("restored: %q", got)
	}
	f.noLeftovers()
}

func TestMariaDBScriptThatFailsLeavesTheDatabase(t *testing.T) {
	f := newMariaFixture(t)
	name := mariadbtest.Name(t)
	f.furnished(name)
	before := mariaFingerprint(t, f.db, name)
	for title, c := range map[string]struct{ script, reason, word string }{
		"a wrong column":      {"CREATE TABLE t (i INT);\nINSERT INTO t (j) VALUES (1);\n", contract.ReasonRestoreToolFailed, "line 2"},
		"a view of nothing":   {"CREATE TABLE t (i INT);\nCREATE VIEW v AS SELECT * FROM absent;\n", contract.ReasonRestoreToolFailed, "absent"},
		"a value that is cut": {"SET sql_mode = '';\nCREATE TABLE t (i TINYINT);\nINSERT INTO t VALUES (300);\n", contract.ReasonRestoreIncomplete, "Out of range"},
		"an unknown definer":  {"CREATE TABLE t (i INT);\nCREATE DEFINER=`gh;ost`@`%` VIEW v AS SELECT * FROM t;\n", contract.ReasonRoleMissing, "gh;ost@%"},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			f.foreign(c.script, name).mustFail(contract.VerbLoad, c.reason, false, "was not touched", name, c.word)
			if got := mariaFingerprint(t, f.db, name); got != before {
				t.Errorf("the database changed:\n%s\nwas:\n%s", got, before)
			}
			f.noLeftovers()
		})
	}
}

// What fails behind the RENAME says which way leads back, and goes on from there when it is run again.
func TestMariaDBFailureBehindTheRename(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('new')", "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'x'")
	r := f.foreign("CREATE TABLE t (v TEXT);\nINSERT INTO t VALUES ('old');\nCREATE VIEW v AS SELECT * FROM t;\n"+
		"CREATE EVENT e ON SCHEDULE EVERY (@@GLOBAL.max_error_count - 64) DAY STARTS '2036-01-01 00:00:00' DO DELETE FROM t;\n", name)
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "safety backup", "status.url", "holdfast_old_")
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "old" {
		t.Errorf("the tables are not in place: %q", got)
	}
	f.db.Exec(t, "", "SET GLOBAL max_error_count = 65")
	t.Cleanup(func() { f.db.Exec(t, "", "SET GLOBAL max_error_count = 64") })
	f.db.Exec(t, name, "INSERT INTO t VALUES ('since')")
	r.must(contract.VerbLoad)
	if got := f.db.Query(t, name, "SELECT GROUP_CONCAT(v ORDER BY v) FROM v") + f.db.Query(t, name, "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()"); got != "old,since1" {
		t.Errorf("went on: %q", got)
	}
	f.noLeftovers()
	f.db.Exec(t, name, "UPDATE t SET v = 'later'")
	r.must(contract.VerbLoad) // which knows that it is done
	if got := f.db.Query(t, name, "SELECT DISTINCT v FROM t"); got != "later" {
		t.Errorf("restored once more: %q", got)
	}
}

func (f *mariaFixture) plainDump(t *testing.T, args ...string) []byte {
	t.Helper()
	config := filepath.Join(t.TempDir(), "my.cnf")
	writeOptions(t, config, "[client]\nuser=root\npassword=\""+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(mariadbtest.Password)+"\"\n")
	out, err := exec.Command("mariadb-dump", append([]string{"--defaults-file=" + config, "--protocol=tcp", "--host=127.0.0.1", fmt.Sprintf("--port=%d", f.port),
		"--routines", "--events"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMariaDBForeignDumps(t *testing.T) {
	f := newMariaFixture(t)
	name := mariadbtest.Name(t)
	f.furnished(name)
	want := mariaFingerprint(t, f.db, name)
	plain := f.plainDump(t, name)
	var zipped, zst bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, _ = gz.Write(plain)
	_ = gz.Close()
	z, _ := zstd.NewWriter(&zst)
	_, _ = z.Write(plain)
	_ = z.Close()
	for title, raw := range map[string][]byte{"plain": plain, "gzip": zipped.Bytes(), "zstd": zst.Bytes(), "--databases": f.plainDump(t, "--databases", name),
		"--skip-comments": f.plainDump(t, "--skip-comments", name)} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			f.db.Exec(t, name, "DELETE FROM parts", "DROP VIEW IF EXISTS on_a_view")
			f.minio.Put(t, f.bucket, "foreign.sql", string(raw))
			f.restore("foreign.sql", name)
			if got := mariaFingerprint(t, f.db, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	for title, c := range map[string]struct {
		raw    []byte
		reason string
	}{
		"cut": {plain[:len(plain)-30], contract.ReasonArtifactCorrupt}, "cut in the middle": {plain[:len(plain)/2], contract.ReasonArtifactCorrupt},
		"cut gzip": {zipped.Bytes()[:zipped.Len()-9], contract.ReasonArtifactCorrupt}, "two databases": {f.plainDump(t, "--databases", name, "mysql"), contract.ReasonFormatNotRecognised},
		"an error in it": {bytes.Replace(plain, []byte("--\n-- Dumping events"), []byte("mariadb-dump: Error 2013: Lost connection\n--\n-- Dumping events"), 1), contract.ReasonFormatNotRecognised},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			f.minio.Put(t, f.bucket, "bad.sql", string(c.raw))
			r := f.restoreJob("bad.sql", name)
			found := r.must(contract.VerbInspect).Source
			r.task.Engine, r.task.Expect = engine.MariaDB, &contract.Source{SizeBytes: found.SizeBytes}
			r.mustFail(contract.VerbFetch, c.reason, false)
		})
	}
}

func writeOptions(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

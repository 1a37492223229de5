package agent_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// fillServer makes databases and roles on a server of its own.
func fillServer(t *testing.T, s *pgtest.Server) {
	t.Helper()
	s.Exec(t, "postgres", `CREATE ROLE app LOGIN PASSWORD 'sesame' VALID UNTIL '2040-01-01'`, `CREATE ROLE "odd ""role" NOINHERIT`, `CREATE ROLE kept`,
		`GRANT "odd ""role" TO app WITH ADMIN OPTION`, `ALTER ROLE app SET work_mem = '3MB'`, `COMMENT ON ROLE app IS 'the app'`,
		`CREATE DATABASE one OWNER app`, `CREATE DATABASE "two 2" OWNER "odd ""role"`, `CREATE TABLE in_postgres (i int)`,
		`INSERT INTO in_postgres VALUES (1)`)
	s.Exec(t, "one", `CREATE TABLE a (i int)`, `INSERT INTO a SELECT generate_series(1, 100000)`, `ALTER TABLE a OWNER TO app`)
	s.Exec(t, "two 2", `CREATE TABLE b (i int)`, `INSERT INTO b VALUES (2)`, `GRANT SELECT ON b TO app`)
}

const rolesQuery = `SELECT rolname, rolcanlogin, rolinherit, rolvaliduntil, rolpassword, (SELECT setconfig FROM pg_db_role_setting
	WHERE setrole = a.oid AND setdatabase = 0), shobj_description(oid, 'pg_authid'), (SELECT array_agg(roleid::regrole::text || admin_option ORDER BY roleid::regrole::text)
	FROM pg_auth_members WHERE member = a.oid) FROM pg_authid a WHERE rolname !~ '^pg_' AND rolname <> 'postgres' ORDER BY 1`

func TestWholeServerIntoAnother(t *testing.T) {
	from, to := pgtest.Start(t, "15"), pgtest.Start(t, "15")
	fillServer(t, from)
	f := newFixtureOn(t, from)
	j := f.job()
	key := j.backup()
	if !strings.HasSuffix(key, ".pgcluster.tar.zst") {
		t.Errorf("the key is %s", key)
	}
	to.Exec(t, "postgres", `CREATE ROLE kept LOGIN`, `CREATE TABLE old (i int)`)
	f.moveTo(to)
	restored := f.restoreJob(key)
	inspected := restored.must(contract.VerbInspect)
	if got := strings.Join(inspected.Target.Databases, ","); got != "one,postgres,two 2" {
		t.Errorf("databases: %s", got)
	}
	if got := strings.Join(inspected.Target.Existing, ","); got != "postgres" {
		t.Errorf("existing: %s", got)
	}
	restored.fetch()
	restored.must(contract.VerbLoad)
	want := strings.Replace(from.Query(t, "postgres", rolesQuery), "kept|f", "kept|t", 1) // one that was there stays as it is
	if got := to.Query(t, "postgres", rolesQuery); got != want {
		t.Errorf("roles:\n%s\nwant:\n%s", got, want)
	}
	for _, database := range []string{"postgres", "one", "two 2"} {
		if got, want := fingerprint(t, to, database), fingerprint(t, from, database); got != want {
			t.Errorf("database %s:\n%s\nwant:\n%s", database, got, want)
		}
	}
	f.noLeftovers()
}

func TestSomeOfAWholeServer(t *testing.T) {
	s := pgtest.Start(t, "15")
	fillServer(t, s)
	f := newFixtureOn(t, s)
	key := f.backup()
	want := fingerprint(t, s, "two 2")
	s.Exec(t, "postgres", `DROP DATABASE one`)
	s.Exec(t, "two 2", `DROP TABLE b`)
	f.restoreJob(key, "absent").mustFail(contract.VerbInspect, contract.ReasonDatabaseNotFound, false, "absent", "two 2")
	f.restore(key, "two 2")
	if got := fingerprint(t, s, "two 2"); got != want {
		t.Errorf("restored:\n%s\nwant:\n%s", got, want)
	}
	if got := s.Query(t, "postgres", `SELECT count(*) FROM pg_database WHERE datname = 'one'`); got != "0" {
		t.Error("database one came back unasked")
	}
}

func TestSeveralNamedDatabases(t *testing.T) {
	f := newFixture(t)
	one := f.pg.Database(t, `CREATE TABLE a (i int)`, `INSERT INTO a VALUES (1)`)
	two := f.pg.Database(t, `CREATE TABLE b (i int)`, `INSERT INTO b VALUES (2)`)
	key := f.backup(one, two)
	f.pg.Exec(t, one, `DROP TABLE a`)
	f.pg.Exec(t, two, `DROP TABLE b`)
	f.restore(key)
	if got := f.pg.Query(t, one, `SELECT i FROM a`) + f.pg.Query(t, two, `SELECT i FROM b`); got != "12" {
		t.Errorf("restored: %s", got)
	}
	f.noLeftovers()
}

// The tar is to be of use with nothing but tar and pg_restore.
func TestClusterTarByHand(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE a AS SELECT i, md5(i::text) FROM generate_series(1, 400000) i`)
	other := f.pg.Database(t, `CREATE TABLE b (i int)`)
	j := f.job(db, other)
	j.task.Compression.Algorithm = "None"
	j.must(contract.VerbDump)
	dir := t.TempDir()
	script := `tar -xf "$1" -C "$2" && cat "$2"/databases/0001/*.part | pg_restore --list | grep -c "TABLE DATA public a" && ls "$2"/databases/0001 | wc -l`
	out, err := exec.Command("sh", "-c", script, "sh", filepath.Join(j.staging, "artifact"), dir).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "1\n") || strings.TrimSpace(string(out)) == "1\n1" {
		t.Errorf("by hand: %v: %s", err, out)
	}
}

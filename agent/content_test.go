package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// awkward are names that careless quoting takes for options, connection strings or syntax.
var awkward = []string{"-x", "a b", `"q"`, "o'h", "db=1", "postgres://x", `back\slash`, "Ünïcode", "--help", "%s", "host=evil dbname=x"}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// everything is a schema with one of each of what a database may hold.
var everything = []string{
	`CREATE EXTENSION pgcrypto`, `CREATE EXTENSION hstore`,
	`CREATE SCHEMA "odd schema; DROP"`,
	`CREATE TABLE "odd schema; DROP"."o'dd ""table""" (id bigint GENERATED ALWAYS AS IDENTITY, "Sel ect" text, h hstore, b bytea, at timestamptz DEFAULT now())`,
	`INSERT INTO "odd schema; DROP"."o'dd ""table""" ("Sel ect", h, b) SELECT repeat(E'x\\\t\n', i % 7), hstore('k', i::text), gen_random_bytes(50) FROM generate_series(1, 5000) i`,
	`CREATE TYPE mood AS ENUM ('sad', 'ok')`,
	`CREATE TABLE parent (id int PRIMARY KEY, m mood) PARTITION BY RANGE (id)`,
	`CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (1000)`,
	`INSERT INTO parent SELECT i, 'ok' FROM generate_series(0, 999) i`,
	`CREATE SEQUENCE counter START 41`, `SELECT nextval('counter')`,
	`CREATE VIEW seen AS SELECT count(*) FROM parent`, `CREATE MATERIALIZED VIEW kept AS SELECT sum(id) FROM parent`,
	`CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT $1 * 2; END`,
	`CREATE FUNCTION body() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RETURN 'a;b' || '\!'; END $f$`,
	`CREATE TABLE empty ()`,
	`SELECT lo_from_bytea(4711, decode(repeat('00ff5c', 5000), 'hex'))`, `SELECT lo_from_bytea(4712, '')`,
	`COMMENT ON TABLE parent IS 'a ''comment'''`,
}

// fingerprint tells two databases apart: the content of every table, sequence and large object, the grants and what
// belongs to the database itself.
func fingerprint(t *testing.T, s *pgtest.Server, database string) string {
	t.Helper()
	var out []string
	add := func(query string) { out = append(out, s.Query(t, database, query)) }
	tables := s.Query(t, database, `SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind IN ('r', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1`)
	for table := range strings.SplitSeq(tables, "\n") {
		out = append(out, table)
		if table != "" {
			add(fmt.Sprintf(`SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM %s x`, table))
		}
	}
	add(`SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2`)
	add(`SELECT loid, md5(string_agg(data, '' ORDER BY pageno)) FROM pg_largeobject GROUP BY loid ORDER BY loid`)
	add(`SELECT oid, lomowner::regrole, lomacl FROM pg_largeobject_metadata ORDER BY oid`)
	add(`SELECT relname, relacl, relowner::regrole FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace,
		'information_schema'::regnamespace, 'pg_toast'::regnamespace) ORDER BY 1`)
	add(`SELECT extname FROM pg_extension ORDER BY 1`)
	add(`SELECT proname, proacl::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1, 2`)
	add(`SELECT datdba::regrole, pg_encoding_to_char(encoding), datcollate, datctype, datacl, datconnlimit,
		shobj_description(oid, 'pg_database'), (SELECT array_agg(setconfig::text || setrole::regrole ORDER BY setrole) FROM pg_db_role_setting WHERE setdatabase = oid)
		FROM pg_database WHERE datname = current_database()`)
	return strings.Join(out, "\n")
}

// furnished creates a database with everything in it, an owner, grants and settings.
func (f *fixture) furnished(name string) {
	f.t.Helper()
	q := quoted(name)
	f.pg.Exec(f.t, "postgres", "CREATE DATABASE "+q+" TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
	f.t.Cleanup(func() { f.pg.Drop(f.t, name) })
	f.pg.Exec(f.t, name, everything...)
	f.pg.Exec(f.t, name, `DO $$ BEGIN CREATE ROLE "app role" LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
		`DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
		`GRANT SELECT ON parent TO reader WITH GRANT OPTION`, `ALTER TABLE parent OWNER TO "app role"`,
		`GRANT ALL ON LARGE OBJECT 4711 TO reader`,
		"ALTER DATABASE "+q+` OWNER TO "app role"`, "REVOKE ALL ON DATABASE "+q+" FROM PUBLIC", "GRANT CONNECT ON DATABASE "+q+" TO reader",
		"ALTER DATABASE "+q+" SET work_mem = '7MB'", "ALTER DATABASE "+q+` SET search_path = "odd schema; DROP", public`,
		`ALTER ROLE "app role" IN DATABASE `+q+" SET statement_timeout = '9s'", "ALTER DATABASE "+q+" CONNECTION LIMIT 17",
		"COMMENT ON DATABASE "+q+" IS 'the ''best'' database'")
}

func (f *fixture) damage(name string) {
	f.t.Helper()
	f.pg.Exec(f.t, name, `DROP TABLE parent CASCADE`, `SELECT lo_unlink(4711)`, `ALTER DATABASE `+quoted(name)+` RESET ALL`,
		`ALTER SEQUENCE counter RESTART`, `CREATE TABLE rubbish (i int)`, `ALTER DATABASE `+quoted(name)+` CONNECTION LIMIT -1`)
}

func TestEverythingComesBack(t *testing.T) {
	for _, compression := range []contract.Compression{{Algorithm: "Zstd", Level: 3}, {Algorithm: "Zstd", Level: 19}, {Algorithm: "Gzip", Level: 6},
		{Algorithm: "None"}} {
		t.Run(fmt.Sprint(compression.Algorithm, compression.Level), func(t *testing.T) {
			f := newFixture(t)
			name := pgtest.Name(t)
			f.furnished(name)
			want := fingerprint(t, f.pg, name)
			j := f.job(name)
			j.task.Compression = &compression
			key := j.backup()
			f.damage(name)
			if fingerprint(t, f.pg, name) == want {
				t.Fatal("the damage does not show")
			}
			f.restore(key, name)
			if got := fingerprint(t, f.pg, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
			f.noLeftovers()
		})
	}
}

func TestAwkwardNames(t *testing.T) {
	f := newFixture(t)
	for _, name := range awkward {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.pg.Exec(t, "postgres", "CREATE DATABASE "+quoted(name))
			t.Cleanup(func() { f.pg.Drop(t, name) })
			f.pg.Exec(t, name, `CREATE TABLE t (v text)`, `INSERT INTO t VALUES ('kept')`, "ALTER DATABASE "+quoted(name)+" SET work_mem = '7MB'",
				"COMMENT ON DATABASE "+quoted(name)+" IS 'c'", "REVOKE ALL ON DATABASE "+quoted(name)+" FROM PUBLIC")
			want := fingerprint(t, f.pg, name)
			key := f.backup(name)
			f.pg.Exec(t, name, `UPDATE t SET v = 'lost'`)
			f.restore(key, name)
			if got := fingerprint(t, f.pg, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
			f.noLeftovers()
		})
	}
}

func TestRestoreUnderAnotherNameAndWithoutOne(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t (v text)`, `INSERT INTO t VALUES ('kept')`)
	key := f.backup(db)
	other := pgtest.Name(t)
	t.Cleanup(func() { f.pg.Drop(t, other) })
	f.restore(key, other)
	if got := f.pg.Query(t, other, `SELECT v FROM t`); got != "kept" {
		t.Errorf("under another name: %q", got)
	}
	if got := f.pg.Query(t, other, `SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = current_database()`); got != "" {
		t.Errorf("the mark is still there: %q", got)
	}
	f.pg.Exec(t, db, `UPDATE t SET v = 'lost'`)
	f.restore(key)
	if got := f.pg.Query(t, db, `SELECT v FROM t`); got != "kept" {
		t.Errorf("under its own name: %q", got)
	}
	f.noLeftovers()
}

func TestOptionsLeaveOwnersAndGrantsOut(t *testing.T) {
	f := newFixture(t)
	name := pgtest.Name(t)
	f.furnished(name)
	key := f.backup(name)
	other := pgtest.Name(t)
	t.Cleanup(func() { f.pg.Drop(t, other) })
	j := f.restoreJob(key, other)
	j.task.Restore.OmitOwnership, j.task.Restore.OmitPrivileges = true, true
	j.fetch()
	j.must(contract.VerbLoad)
	got := f.pg.Query(t, other, `SELECT relowner::regrole, relacl FROM pg_class WHERE relname = 'parent'`)
	if got != "postgres|" {
		t.Errorf("owner and grants: %q", got)
	}
	got = f.pg.Query(t, other, `SELECT datdba::regrole, datacl FROM pg_database WHERE datname = current_database()`)
	if got != "postgres|" {
		t.Errorf("owner and grants of the database: %q", got)
	}
}

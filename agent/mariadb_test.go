package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
)

// mariaFixture is a fixture with a MariaDB server.
type mariaFixture struct {
	*fixture
	db *mariadbtest.Server
}

func newMariaFixture(t *testing.T) *mariaFixture {
	t.Helper()
	return newMariaFixtureOn(t, mariadbtest.Shared(t))
}

func newMariaFixtureOn(t *testing.T, s *mariadbtest.Server) *mariaFixture {
	t.Helper()
	f := newFixtureFor(t, engine.MariaDB, s.Host, s.Port, credentials(t, mariadbtest.Superuser, mariadbtest.Password))
	return &mariaFixture{f, s}
}

// mariaEverything is one of each of what a database may hold.
var mariaEverything = []string{
	"CREATE TABLE parent (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1) ENGINE=InnoDB",
	"CREATE TABLE `we;ird``na me` (id INT AUTO_INCREMENT PRIMARY KEY, p INT, j JSON, b LONGBLOB, t TEXT CHARACTER SET utf8mb4, g INT AS (p * 2) STORED, gv INT AS (p + 1) VIRTUAL, " +
		"`ü` ENUM('ä', 'ß;''') CHARACTER SET utf8mb4, d DATETIME(6), z DATE, bits BIT(9), f DOUBLE, dec1 DECIMAL(30, 10), geo POINT, secret INT INVISIBLE DEFAULT 7, " +
		"CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE, FULLTEXT KEY (t), CHECK (p < 1000))",
	"CREATE TABLE parts (id INT, y INT) PARTITION BY RANGE (y) (PARTITION a VALUES LESS THAN (2000), PARTITION b VALUES LESS THAN MAXVALUE)",
	"CREATE TABLE empty (a INT)",
	"CREATE TABLE logged (what TEXT, old_id INT)",
	"CREATE SEQUENCE counter START WITH 41 INCREMENT BY 2 NOCACHE",
	"DO NEXTVAL(counter)",
	"INSERT INTO parent SELECT seq, CONCAT('it''s \\\\ ', CHAR(233 USING latin1), seq) FROM seq_1_to_500",
	"INSERT INTO `we;ird``na me` (p, j, b, t, `ü`, d, z, bits, f, dec1, geo, secret) SELECT seq, JSON_OBJECT('a', seq, 'q', 'x\"\\\\'), " +
		"UNHEX(REPEAT('00ff5c2760', seq)), CONCAT('line\\nbreak; -- no comment /* nor this */ 😀 ', seq, '\\0\\Z'), 'ß;''', '2026-02-03 04:05:06.789012', '0000-00-00', " +
		"b'101010101', 1e-300, 12345678901234567890.0123456789, POINT(1, seq), seq FROM seq_1_to_300",
	"INSERT INTO `we;ird``na me` (p) VALUES (NULL)",
	"INSERT INTO parts SELECT seq, 1990 + seq FROM seq_1_to_20",
	"CREATE VIEW `a view` AS SELECT w.id, parent.v FROM `we;ird``na me` w JOIN parent ON parent.id = w.p",
	"CREATE VIEW on_a_view AS SELECT COUNT(*) AS n FROM `a view`",
	"CREATE TRIGGER tr_one BEFORE INSERT ON parent FOR EACH ROW BEGIN SET NEW.v = CONCAT(NEW.v, ';'); INSERT INTO logged VALUES ('ä;;', NEW.id); END",
	"CREATE TRIGGER tr_two AFTER DELETE ON parent FOR EACH ROW INSERT INTO logged VALUES ('gone', OLD.id)",
	"CREATE PROCEDURE `pro ce` (IN a INT) COMMENT 'a; ''comment''' BEGIN /* c;c */ -- d;\n SELECT ';;', a; # e;\n END",
	"CREATE FUNCTION twice (a INT) RETURNS INT DETERMINISTIC RETURN a * 2",
	"CREATE EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2036-01-01 00:00:00' COMMENT 'ü' DO BEGIN DELETE FROM logged WHERE what = 'never'; END",
	"CREATE EVENT ev_off ON SCHEDULE EVERY 1 HOUR STARTS '2036-01-01 00:00:00' DISABLE DO DELETE FROM logged WHERE what = 'never'",
}

// mariaFingerprint tells two databases apart: definitions and content of everything in them.
func mariaFingerprint(t *testing.T, s *mariadbtest.Server, database string) string {
	t.Helper()
	var out []string
	add := func(query string) { out = append(out, s.Query(t, database, query)) }
	in := fmt.Sprintf("'%s'", strings.NewReplacer("'", "''", `\`, `\\`).Replace(database))
	add("SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = " + in)
	objects := s.Query(t, database, "SELECT CONCAT(TABLE_TYPE, '|', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+in+" ORDER BY 1")
	for object := range strings.Lines(objects) {
		kind, name, _ := strings.Cut(strings.TrimSuffix(object, "\n"), "|")
		name = mariadbtest.Quote(name)
		switch kind {
		case "BASE TABLE":
			add("SHOW CREATE TABLE " + name)
			add("CHECKSUM TABLE " + name + " EXTENDED")
			add("SELECT COUNT(*) FROM " + name)
		case "VIEW":
			add("SHOW CREATE VIEW " + name)
			add("SELECT COUNT(*) FROM " + name)
		case "SEQUENCE":
			add("SELECT next_not_cached_value, increment FROM " + name)
		}
	}
	add("SELECT TRIGGER_NAME, ACTION_STATEMENT, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION, ACTION_TIMING, EVENT_MANIPULATION " +
		"FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = " + in + " ORDER BY 1")
	add("SELECT ROUTINE_NAME, ROUTINE_TYPE, ROUTINE_DEFINITION, DEFINER, SQL_MODE, ROUTINE_COMMENT, DATABASE_COLLATION FROM information_schema.ROUTINES " +
		"WHERE ROUTINE_SCHEMA = " + in + " ORDER BY 1, 2")
	add("SELECT EVENT_NAME, EVENT_DEFINITION, DEFINER, STATUS, STARTS, INTERVAL_VALUE, EVENT_COMMENT, SQL_MODE, TIME_ZONE FROM information_schema.EVENTS " +
		"WHERE EVENT_SCHEMA = " + in + " ORDER BY 1")
	text := strings.ReplaceAll(strings.Join(out, "\n"), mariadbtest.Quote(database)+".", "")
	return strings.ReplaceAll(text, "\n"+database+".", "\n") // of CHECKSUM TABLE
}

// noMariaLeftovers fails when something of a restore is still there.
func (f *mariaFixture) noLeftovers() {
	f.t.Helper()
	if left := f.db.Query(f.t, "", "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'holdfast%' UNION ALL "+
		"SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'holdfast%'"); left != "" {
		f.t.Errorf("left behind: %s", left)
	}
}

func (f *mariaFixture) furnished(name string) {
	f.t.Helper()
	f.db.Create(f.t, name, "CHARACTER SET latin1 COLLATE latin1_german1_ci", append([]string{"SET sql_mode = ''"}, mariaEverything...)...)
}

func TestMariaDBEverythingComesBack(t *testing.T) {
	for _, compression := range []contract.Compression{{Algorithm: "Zstd", Level: 3}, {Algorithm: "Gzip", Level: 6}, {Algorithm: "None"}} {
		t.Run(compression.Algorithm, func(t *testing.T) {
			f := newMariaFixture(t)
			name := mariadbtest.Name(t)
			f.furnished(name)
			want := mariaFingerprint(t, f.db, name)
			j := f.job(name)
			j.task.Compression = &compression
			key := j.backup()
			f.db.Exec(t, name, "SET foreign_key_checks = 0", "DELETE FROM parent", "DROP TABLE parts", "CREATE TABLE rubbish (i INT)", "DROP PROCEDURE `pro ce`",
				"CREATE TRIGGER rubbish BEFORE INSERT ON rubbish FOR EACH ROW SET NEW.i = 0", "CREATE VIEW rubbish_v AS SELECT 1 AS a", "DROP EVENT ev",
				"CREATE FUNCTION rubbish () RETURNS INT DETERMINISTIC RETURN 1", "DO NEXTVAL(counter)", "ALTER DATABASE CHARACTER SET utf8mb4")
			if mariaFingerprint(t, f.db, name) == want {
				t.Fatal("the damage does not show")
			}
			f.restore(key, name)
			if got := mariaFingerprint(t, f.db, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
			f.noLeftovers()
		})
	}
}

func TestMariaDBAwkwardNames(t *testing.T) {
	f := newMariaFixture(t)
	for _, name := range []string{"-x", "a b", `"q"`, "o'h", "db=1", `back\slash`, "Ünïcode", "--help", "%s", "a`b", "#c", "a.b", "a_b%"} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.db.Create(t, name, "", "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('kept')", "CREATE VIEW v AS SELECT * FROM t",
				"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'x'")
			want := mariaFingerprint(t, f.db, name)
			key := f.backup(name)
			f.db.Exec(t, name, "UPDATE t SET v = 'lost'", "DROP VIEW v")
			f.restore(key, name)
			if got := mariaFingerprint(t, f.db, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
			f.noLeftovers()
		})
	}
}

func TestMariaDBUnderAnotherNameAndWithoutOne(t *testing.T) {
	f := newMariaFixture(t)
	name, other := mariadbtest.Name(t), mariadbtest.Name(t)+"_other"
	f.furnished(name)
	want := mariaFingerprint(t, f.db, name)
	key := f.backup(name)
	t.Cleanup(func() { f.db.Drop(t, other) })
	f.restore(key, other)
	if got := mariaFingerprint(t, f.db, other); got != want {
		t.Errorf("under another name:\n%s\nwant:\n%s", got, want)
	}
	f.db.Exec(t, name, "DELETE FROM parts")
	f.restore(key)
	if got := mariaFingerprint(t, f.db, name); got != want {
		t.Errorf("under its own name:\n%s\nwant:\n%s", got, want)
	}
	f.noLeftovers()
}

// Tables that refer to each other across databases, views too, are of one moment and come back together.
func TestMariaDBSeveralDatabases(t *testing.T) {
	f := newMariaFixture(t)
	one, two := mariadbtest.Name(t)+"_1", mariadbtest.Name(t)+"_2"
	f.furnished(one)
	f.db.Create(t, two, "CHARACTER SET ucs2", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1), (2)")
	f.db.Exec(t, one, "CREATE VIEW across AS SELECT b.id FROM "+mariadbtest.Quote(two)+".b")
	wantOne, wantTwo := mariaFingerprint(t, f.db, one), mariaFingerprint(t, f.db, two)
	key := f.backup(one, two)
	f.db.Drop(t, one)
	f.db.Drop(t, two)
	f.restore(key)
	for name, want := range map[string]string{one: wantOne, two: wantTwo} {
		if got := mariaFingerprint(t, f.db, name); got != want {
			t.Errorf("restored %s:\n%s\nwant:\n%s", name, got, want)
		}
	}
	f.db.Exec(t, one, "DELETE FROM parts")
	f.db.Exec(t, two, "DELETE FROM b")
	f.restore(key, two)
	if got := f.db.Query(t, two, "SELECT COUNT(*) FROM b") + f.db.Query(t, one, "SELECT COUNT(*) FROM parts"); got != "20" {
		t.Errorf("one of two: %s", got)
	}
	f.noLeftovers()
}

// A whole server goes to an empty one, with accounts, roles and grants. Accounts that are there stay as they are.
func TestMariaDBWholeServer(t *testing.T) {
	from, to := mariadbtest.Start(t), mariadbtest.Start(t)
	f := newMariaFixtureOn(t, from)
	from.Exec(t, "", "CREATE DATABASE shop", "CREATE TABLE shop.t (a INT, b INT)", "INSERT INTO shop.t VALUES (1, 2)", "CREATE DATABASE holdfast_new_0123456789ab",
		"CREATE PROCEDURE shop.p () SELECT 1", "CREATE USER 'o''d d'@'10.%' IDENTIFIED BY 'pass;`word\\\\'", "CREATE ROLE `rea der`",
		"GRANT SELECT ON shop.* TO `rea der`", "GRANT SELECT (a), UPDATE ON shop.t TO 'o''d d'@'10.%'", "GRANT EXECUTE ON PROCEDURE shop.p TO 'o''d d'@'10.%'",
		"GRANT `rea der` TO 'o''d d'@'10.%' WITH ADMIN OPTION", "SET DEFAULT ROLE `rea der` FOR 'o''d d'@'10.%'", "CREATE USER there@'%' IDENTIFIED BY 'new'",
		"GRANT ALL ON *.* TO there@'%'", "CREATE DEFINER='o''d d'@'10.%' VIEW shop.v AS SELECT a FROM shop.t")
	key := f.backup()
	to.Exec(t, "", "CREATE USER there@'%' IDENTIFIED BY 'old'")
	there := to.Query(t, "", "SHOW GRANTS FOR there@'%'")
	g := newMariaFixtureOn(t, to)
	g.bucket, g.store = f.bucket, f.store
	j := g.restore(key)
	if found := j.run(contract.VerbInspect).Target.Databases; !slices.Equal(found, []string{"shop"}) {
		t.Errorf("the artifact holds %q", found)
	}
	for _, query := range []string{"SHOW GRANTS FOR 'o''d d'@'10.%'", "SHOW GRANTS FOR `rea der`", "SHOW CREATE USER 'o''d d'@'10.%'", "SELECT * FROM shop.t",
		"SHOW CREATE VIEW shop.v", "SHOW CREATE PROCEDURE shop.p"} {
		if got, want := to.Query(t, "", query), from.Query(t, "", query); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", query, got, want)
		}
	}
	if got := to.Query(t, "", "SHOW GRANTS FOR there@'%'"); got != there {
		t.Errorf("an account that was there changed: %s", got)
	}
	g.noLeftovers()
}

func TestMariaDBDumpUnderWriteLoad(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT, pad CHAR(200)) SELECT seq AS id, 1000 AS balance, REPEAT('x', 200) AS pad FROM seq_1_to_20000")
	db := f.db.DB(t, name)
	ctx, stop := context.WithCancel(t.Context())
	stopped, moves := make(chan error, 1), 0
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := db.Exec(fmt.Sprintf("UPDATE accounts SET balance = balance + IF(id = %d, -5, 5) WHERE id IN (%d, %d)", i%20000+1, i%20000+1, (i+7)%20000+1)); err != nil {
				stopped <- err
				return
			}
			moves++
		}
		stopped <- nil
	}()
	key := f.backup(name)
	stop()
	if err := <-stopped; err != nil || moves == 0 {
		t.Fatalf("the writer stopped after %d writes: %v", moves, err)
	}
	f.restore(key, name)
	if got := f.db.Query(t, name, "SELECT SUM(balance), COUNT(*) FROM accounts"); got != "20000000|20000" {
		t.Errorf("the dump is not of one moment: %s", got)
	}
}

// Tables without transactions, and history, are told.
func TestMariaDBNotes(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE plain (i INT) ENGINE=InnoDB", "CREATE TABLE old (i INT) ENGINE=MyISAM", "CREATE TABLE past (i INT) WITH SYSTEM VERSIONING")
	note := f.job(name).must(contract.VerbDump).Note
	for _, word := range []string{name + ".old", "ENGINE=InnoDB", name + ".past", "history"} {
		if !strings.Contains(note, word) {
			t.Errorf("the note %q does not say %q", note, word)
		}
	}
	if strings.Contains(note, "plain") {
		t.Errorf("the note %q speaks of a table that is whole", note)
	}
}

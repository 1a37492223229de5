package pgsql

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestQuoting(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"identifier":       {Identifier(`a"b`), `"a""b"`},
		"literal":          {Literal(`o'h`), `'o''h'`},
		"literal, escaped": {Literal(`a\b'`), ` E'a\\b'''`},
		"conn value":       {ConnValue(`a b'c\d`), `'a b\'c\\d'`},
		"passfile":         {PassfileLine(`p:a\ss`), `*:*:*:*:p\:a\\ss`},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func TestRenameDatabase(t *testing.T) {
	for statement, want := range map[string]string{
		`ALTER DATABASE orders SET work_mem TO '4MB';`:                           `ALTER DATABASE "new" SET work_mem TO '4MB';`,
		`ALTER ROLE orders IN DATABASE orders SET x TO 'DATABASE orders';`:       `ALTER ROLE orders IN DATABASE "new" SET x TO 'DATABASE orders';`,
		`GRANT CONNECT ON DATABASE orders TO orders;`:                            `GRANT CONNECT ON DATABASE "new" TO orders;`,
		`COMMENT ON DATABASE "orders" IS 'it''s DATABASE orders';`:               `COMMENT ON DATABASE "new" IS 'it''s DATABASE orders';`,
		`ALTER DATABASE other SET a = 1; ALTER DATABASE orders SET b TO E'\'x';`: `ALTER DATABASE other SET a = 1; ALTER DATABASE "new" SET b TO E'\'x';`,
	} {
		if got := RenameDatabase(statement, "orders", "new"); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", statement, got, want)
		}
	}
	if got := RenameDatabase(`CREATE DATABASE "o""dd" WITH TEMPLATE = template0;`, `o"dd`, "n"); got != `CREATE DATABASE "n" WITH TEMPLATE = template0;` {
		t.Error(got)
	}
}

func TestRoles(t *testing.T) {
	got := Roles(`REVOKE ALL ON TABLE t FROM PUBLIC; GRANT SELECT ON TABLE "to" TO alice; GRANT ALL ON t TO "B ob" WITH GRANT OPTION;
		ALTER DEFAULT PRIVILEGES FOR ROLE carol IN SCHEMA s GRANT SELECT ON TABLES TO dave; SET SESSION AUTHORIZATION eve;`)
	if want := []string{"alice", "B ob", "carol", "dave", "eve"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// split returns the statements of a script, with the rows of each COPY behind it.
func split(script string) (parts []string, err error) {
	scanner := NewScanner(iotest.HalfReader(strings.NewReader(script)))
	for {
		statement, err := scanner.Next()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		text := strings.TrimSpace(statement.Text)
		if statement.CopyIn {
			rows, err := io.ReadAll(scanner.Rows())
			if err != nil {
				return parts, err
			}
			text += "<" + string(rows) + ">"
		}
		parts = append(parts, text)
	}
}

func TestScanner(t *testing.T) {
	for script, want := range map[string][]string{
		"":                               nil,
		" -- only a comment\n":           nil,
		"SELECT 1; SELECT 2;":            {"SELECT 1", "SELECT 2"},
		"\xef\xbb\xbfSELECT 1;":          {"SELECT 1"},
		"SELECT ';'; SELECT 2;":          {"SELECT ';'", "SELECT 2"},
		`SELECT 'a''b;\'; S;`:            {`SELECT 'a''b;\'`, "S"},
		`SELECT E'a\';b'; S;`:            {`SELECT E'a\';b'`, "S"},
		`SELECT fee'a\'; S;`:             {`SELECT fee'a\'`, "S"},
		`SELECT "a;""b"; S;`:             {`SELECT "a;""b"`, "S"},
		"SELECT $$a;'$$; S;":             {"SELECT $$a;'$$", "S"},
		"SELECT $x$;$y$;$x$; S;":         {"SELECT $x$;$y$;$x$", "S"},
		"SELECT a$1$b; S;":               {"SELECT a$1$b", "S"},
		"SELECT $1; S;":                  {"SELECT $1", "S"},
		"SELECT /* ; /* ; */ ; */ 1; S;": {"SELECT \n 1", "S"},
		"SELECT 1 -- ;\n+ 1; S;":         {"SELECT 1 \n+ 1", "S"},
		"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); S;": {"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "S"},
		"create function f() returns int begin atomic select 1; select case when true then 2 end; end; S;": {
			"create function f() returns int begin atomic select 1; select case when true then 2 end; end", "S"},
		"CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT 1; END; S;": {"CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT 1; END", "S"},
		"BEGIN; SELECT 1; END;":                                       {"BEGIN", "SELECT 1", "END"},
		"COPY t (a) FROM stdin;\n1\\;\n\\N\n\\.\nS;":                  {"COPY t (a) FROM stdin<1\\;\n\\N\n>", "S"},
		"copy \"from\" from STDIN WITH (FORMAT csv);\n\\.\nS;":        {"copy \"from\" from STDIN WITH (FORMAT csv)<>", "S"},
		"COPY t FROM stdin;\r\n'\r\n\\.\r\nS;":                        {"COPY t FROM stdin<'\r\n>", "S"},
		"COPY t FROM stdin;\nrow\n\\.":                                {"COPY t FROM stdin<row\n>"},
		"\\restrict x1\nSELECT 1;\n\\unrestrict x1\n":                 {"SELECT 1"},
		"SET standard_conforming_strings = off;\nSELECT 'a\\';b'; S;": {"SET standard_conforming_strings = off", `SELECT 'a\';b'`, "S"},
	} {
		got, err := split(script)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q\nwas split into %q (%v)\nwant           %q", script, got, err, want)
		}
	}
}

func TestScannerRefusesMetaCommands(t *testing.T) {
	for script, line := range map[string]int{
		"\\connect other\n": 1, "SELECT 1;\n\\! rm\n": 2, "SELECT 1 \\gexec\n": 1, "COPY t FROM stdin;\n\\! data\n\\.\n\\i x\n": 4,
		"SELECT 1 \\restrict x\n;": 1, "/*\n*/\\copy t from x\n": 2, "SELECT '\n'; \\q": 2, "\\restrictx y\n": 1,
	} {
		_, err := split(script)
		meta, ok := errors.AsType[*MetaCommand](err)
		if !ok || meta.Line != line {
			t.Errorf("%q: %v, want line %d", script, err, line)
		}
	}
}

func TestCutScripts(t *testing.T) {
	for _, script := range []string{
		"SELECT 1", "SELECT '", `SELECT "a`, "SELECT $$ a", "SELECT 1; /* x", "COPY t FROM stdin;\n1\n", "COPY t FROM stdin;", "SELECT (1;",
		"--\n-- PostgreSQL database dump\n--\nSELECT 1;\n", "CREATE FUNCTION f() BEGIN ATOMIC SELECT 1;",
	} {
		if _, err := split(script); !errors.Is(err, ErrCut) {
			t.Errorf("%q: %v", script, err)
		}
	}
	if _, err := split("--\n-- PostgreSQL database dump\n--\nSELECT 1;\n--\n-- PostgreSQL database dump complete\n--\n"); err != nil {
		t.Error(err)
	}
}

func TestScannerSkipsRowsThatNobodyReads(t *testing.T) {
	scanner := NewScanner(strings.NewReader("COPY t FROM stdin;\n1\n\\.\nSELECT 2;"))
	if _, err := scanner.Next(); err != nil {
		t.Fatal(err)
	}
	if statement, err := scanner.Next(); err != nil || statement.Text != "SELECT 2" || statement.Line != 4 {
		t.Errorf("%+v, %v", statement, err)
	}
}

func TestStatementThatIsTooLong(t *testing.T) {
	long := io.MultiReader(strings.NewReader("SELECT '"), io.LimitReader(repeat('x'), MaxStatement+1), strings.NewReader("';"))
	if _, err := NewScanner(long).Next(); err == nil || !strings.Contains(err.Error(), "psql by hand") {
		t.Errorf("%v", err)
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func FuzzScanner(f *testing.F) {
	for _, script := range []string{"SELECT 1;", "COPY t FROM stdin;\n1\n\\.\n", "SELECT $a$ ; $a$;", `E'\'';`, "/* /* */ */ \\x", "create function f() begin end;"} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		parts, err := split(script)
		if err != nil {
			return
		}
		for _, part := range parts {
			Tokens(part)
			RenameDatabase(part, "a", "b")
		}
		// a meta-command behind a script that is whole is always seen
		if _, err := split(script + "\n\\! x\n"); err == nil {
			t.Errorf("%q hides a psql command behind it", script)
		}
	})
}

func FuzzConnValue(f *testing.F) {
	f.Add(`a'b\c`)
	f.Fuzz(func(t *testing.T, value string) {
		quoted := ConnValue(value)
		plain := strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(quoted[1 : len(quoted)-1])
		if plain != value {
			t.Errorf("%q came back as %q", value, plain)
		}
	})
}

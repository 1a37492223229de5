package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgarchive"
)

func TestSniff(t *testing.T) {
	cluster := clusterOf(t, map[string]string{"one": "x"})
	for name, c := range map[string]struct {
		head []byte
		want string
	}{
		"custom format": {[]byte("PGDMP\x01\x0e\x00"), formatPgDump}, "cluster": {cluster, formatPgCluster},
		"pg_dump's script": {[]byte("--\n-- PostgreSQL database dump\n--\n\nSET a = 1;"), formatSQL}, "restricted": {[]byte("\\restrict abc\n\nSET"), formatSQL},
		"statement": {[]byte("insert into t values (1);"), formatSQL}, "with a mark": {[]byte("\xef\xbb\xbfCREATE TABLE t ();"), formatSQL},
		"latin1": {[]byte("SELECT '\xe4';"), formatSQL}, "comment alone": {[]byte("/* hello */"), formatSQL},
		"nothing": {nil, ""}, "zeroes": {make([]byte, 1024), ""}, "text": {[]byte("hello world"), ""}, "json": {[]byte(`{"a": 1}`), ""},
		"mysqldump's end": {[]byte("`x`"), ""}, "half the magic": {[]byte("PGD"), ""}, "another tar": {otherTar(t), ""},
		"binary": {[]byte("SELECT \x00\x01"), ""}, "psql": {[]byte(`\connect x`), ""},
	} {
		format, known := postgreSQL{}.Sniff(c.head)
		if format != c.want || known != (c.want != "") {
			t.Errorf("%s: %q, %v", name, format, known)
		}
	}
}

func otherTar(t *testing.T) []byte {
	var out bytes.Buffer
	w := &clusterWriter{tar: tar.NewWriter(&out)}
	if err := w.file("readme.txt", []byte("x")); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func FuzzSniff(f *testing.F) {
	f.Add([]byte("PGDMP\x01\x0e\x00\x04\x08\x01"))
	f.Add([]byte("SELECT 'x"))
	f.Fuzz(func(t *testing.T, head []byte) {
		format, known := postgreSQL{}.Sniff(head)
		if known != (format != "") {
			t.Errorf("format %q, known %v", format, known)
		}
		if known {
			_, _ = postgreSQL{}.Inspect(format, bytes.NewReader(head))
		}
	})
}

// clusterOf is a pgcluster whose archives are what the contents say.
func clusterOf(t testing.TB, contents map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := &clusterWriter{tar: tar.NewWriter(&out)}
	index := clusterIndex{Version: clusterVersion, Roles: true}
	for name := range contents {
		index.Databases = append(index.Databases, clusterEntry{Name: name, Directory: fmt.Sprintf("databases/%04d", len(index.Databases)+1)})
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.json(clusterIndexName, index))
	check(w.file(clusterRolesName, []byte("CREATE ROLE x;")))
	for i := range index.Databases {
		entry := &index.Databases[i]
		parts := newPartWriter(w, entry.Directory)
		_, err := parts.Write([]byte(contents[entry.Name]))
		check(errors.Join(err, parts.flush()))
		entry.SizeBytes, entry.SHA256 = parts.size, parts.digest()
	}
	check(w.json(clusterEndName, index))
	check(w.tar.Close())
	return out.Bytes()
}

func TestWalkCluster(t *testing.T) {
	contents := map[string]string{"one": strings.Repeat("x", clusterPartBytes+17), "two": "", "three": "short"}
	whole := clusterOf(t, contents)
	got := map[string]string{}
	err := walkCluster(bytes.NewReader(whole), func(entry clusterEntry, archive io.Reader) error {
		raw, err := io.ReadAll(archive)
		got[entry.Name] = string(raw)
		return err
	})
	if err != nil || !reflect.DeepEqual(got, contents) {
		t.Errorf("walked %d databases: %v", len(got), err)
	}
}

// A cut cluster never passes, whether its reader looks at the archives or not.
func TestCutClusters(t *testing.T) {
	whole := clusterOf(t, map[string]string{"one": strings.Repeat("1", 1500), "two": strings.Repeat("2", 700)})
	for n := range whole {
		for _, reads := range []bool{true, false} {
			err := walkCluster(bytes.NewReader(whole[:n]), func(_ clusterEntry, archive io.Reader) error {
				if !reads {
					return nil
				}
				_, err := io.Copy(io.Discard, archive)
				return err
			})
			if err == nil {
				t.Fatalf("%d of %d bytes pass (reads: %v)", n, len(whole), reads)
			}
		}
	}
}

func TestClusterThatWasTamperedWith(t *testing.T) {
	whole := clusterOf(t, map[string]string{"one": strings.Repeat("1", 1500)})
	at := bytes.Index(whole, []byte("1111"))
	flipped := bytes.Clone(whole)
	flipped[at] ^= 1
	for name, raw := range map[string][]byte{"a flipped bit": flipped, "another version": bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":7`), 1),
		"a byte behind it": append(bytes.Clone(whole), 0)} {
		if err := walkCluster(bytes.NewReader(raw), func(clusterEntry, io.Reader) error { return nil }); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestRestoreNames(t *testing.T) {
	one, script := Artifact{Format: formatPgDump, Databases: []string{"a"}}, Artifact{Format: formatSQL}
	all := Artifact{Format: formatPgCluster, Databases: []string{"a", "b"}}
	for name, c := range map[string]struct {
		artifact Artifact
		wanted   []string
		want     []namePair
		reason   string
	}{
		"its own name": {one, nil, []namePair{{"a", "a"}}, ""}, "another": {one, []string{"x"}, []namePair{{"a", "x"}}, ""},
		"two for one": {one, []string{"x", "y"}, nil, ReasonInvalidTask}, "a script": {script, []string{"x"}, []namePair{{"", "x"}}, ""},
		"a script without a name": {script, nil, nil, ReasonInvalidTask}, "all": {all, nil, []namePair{{"a", "a"}, {"b", "b"}}, ""},
		"some": {all, []string{"b"}, []namePair{{"b", "b"}}, ""}, "what is not there": {all, []string{"c"}, nil, ReasonDatabaseNotFound},
	} {
		got, err := restoreNames(c.artifact, c.wanted)
		failed, _ := errors.AsType[*Error](err)
		if !reflect.DeepEqual(got, c.want) || (failed == nil) != (c.reason == "") || failed != nil && failed.Reason != c.reason {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestTemporaryNames(t *testing.T) {
	const uid = "3F2A91C0-1111-2222-3333-444455556666"
	if got := temporaryName("new", uid, 0) + " " + temporaryName("old", uid, 12); got != "holdfast_new_3f2a91c01111 holdfast_old_3f2a91c01111_12" {
		t.Error(got)
	}
}

func TestRefusedConnections(t *testing.T) {
	a := Access{Connection: Connection{Host: "db", Port: 5432, TLSMode: TLSVerifyFull}, Username: "u"}
	for code, want := range map[string]struct {
		reason    string
		retryable bool
	}{
		"28P01": {ReasonAuthenticationFailed, false}, "28000": {ReasonAuthenticationFailed, false}, "28999": {ReasonAuthenticationFailed, false},
		"3D000": {ReasonDatabaseNotFound, false}, "42501": {ReasonPermissionDenied, false}, "55000": {ReasonDatabaseNotConnectable, false},
		"0A000": {ReasonServerNotSupported, false}, "42704": {ReasonServerNotSupported, false}, // a parameter that is not known
		"57P03": {ReasonServerUnreachable, true}, "53300": {ReasonServerUnreachable, true}, "57P01": {ReasonServerUnreachable, true},
		"08P01": {ReasonServerUnreachable, true}, "58030": {ReasonServerUnreachable, true}, "XX000": {ReasonServerUnreachable, true},
	} {
		// the words are in a language that nobody here reads
		err := a.connectError("orders", fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "ошибка"}))
		if err.Reason != want.reason || err.Retryable != want.retryable {
			t.Errorf("%s: %s, retryable %v", code, err.Reason, err.Retryable)
		}
	}
	for want, cause := range map[string]error{
		ReasonServerCertificate: x509.UnknownAuthorityError{}, ReasonServerUnreachable: &net.DNSError{Err: "no such host", Name: "db"},
	} {
		if err := a.connectError("orders", fmt.Errorf("wrapped: %w", cause)); err.Reason != want {
			t.Errorf("%v: %s", cause, err.Reason)
		}
	}
}

func TestFailedQuestions(t *testing.T) {
	a := Access{Connection: Connection{Host: "db", Port: 5432}, Username: "u"}
	for code, want := range map[string]struct {
		reason    string
		retryable bool
	}{
		"42501": {ReasonPermissionDenied, false}, "42P01": {ReasonServerNotSupported, false}, "42883": {ReasonServerNotSupported, false},
		"0A000": {ReasonServerNotSupported, false}, "57014": {ReasonServerUnreachable, true}, "40001": {ReasonServerUnreachable, true},
		"53200": {ReasonServerUnreachable, true},
	} {
		err := a.queryError(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "ошибка"}))
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != want.reason || e.Retryable != want.retryable || !strings.Contains(e.Message, "db:5432") {
			t.Errorf("%s: %+v", code, err)
		}
	}
	if e, ok := errors.AsType[*Error](a.queryError(io.ErrUnexpectedEOF)); !ok || e.Reason != ReasonServerUnreachable || !e.Retryable {
		t.Errorf("a connection that broke: %v", e)
	}
}

func TestConninfoKeepsNamesApart(t *testing.T) {
	a := Access{Connection: Connection{Host: "h o'st", TLSMode: TLSDisable}, Username: `u\ser`}
	got, err := a.conninfo("-x sslmode=require")
	want := `dbname='-x sslmode=require' host='h o\'st' port='5432' user='u\\ser' sslmode='disable' application_name='holdfast' connect_timeout='15'`
	if err != nil || got != want {
		t.Errorf("%s (%v)", got, err)
	}
}

// fakeTools stands for client programs.
type fakeTools struct {
	run func(Command) error
}

func (f fakeTools) Look(program string) (string, error) { return program, nil }

func (f fakeTools) Run(_ context.Context, command Command) error { return f.run(command) }

func TestToolVersions(t *testing.T) {
	for out, want := range map[string]int{
		"pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15, "pg_dump (PostgreSQL) 16beta1\n": 16, "pg_dump (PostgreSQL) 18devel\n": 18, "hello\n": 0,
	} {
		_, major, err := toolVersion(t.Context(), fakeTools{func(c Command) error {
			_, err := io.WriteString(c.Stdout, out)
			return err
		}}, "pg_dump")
		if major != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", out, major, err)
		}
	}
}

// An archive that is newer than the reader is given to pg_restore, whole and from its first byte.
func TestNewerArchivesAreCheckedByTheTool(t *testing.T) {
	newer := []byte("PGDMP\x01\x63\x00 and something that nobody here knows")
	var got []byte
	err := postgreSQL{}.Check(t.Context(), fakeTools{func(c Command) (err error) {
		got, err = io.ReadAll(c.Stdin)
		return err
	}}, formatPgDump, bytes.NewReader(newer))
	if err != nil || !bytes.Equal(got, newer) {
		t.Errorf("%q, %v", got, err)
	}
	failed := &ToolError{Program: "pg_restore", Status: "exit status 1"}
	err = postgreSQL{}.Check(t.Context(), fakeTools{func(Command) error { return failed }}, formatPgDump, bytes.NewReader(newer))
	if !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	err = postgreSQL{}.Check(t.Context(), fakeTools{func(Command) error { return exec.ErrNotFound }}, formatPgDump, bytes.NewReader(newer))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != ReasonClientMissing {
		t.Errorf("%v", err)
	}
}

func TestEmptyDumpIsCut(t *testing.T) {
	for _, format := range []string{formatPgDump, formatPgCluster} {
		if err := (postgreSQL{}).Check(t.Context(), nil, format, strings.NewReader("")); !errors.Is(err, pgarchive.ErrCut) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestScriptsThatReachBeyondTheirDatabase(t *testing.T) {
	for _, script := range []string{
		"CREATE DATABASE x;", "drop database x;", "ALTER DATABASE x SET a = 1;", "ALTER SYSTEM SET a = 1;", "\\connect x\n",
		"ALTER ROLE x PASSWORD 'y';", "create user x;", "DROP GROUP x;", "REVOKE CONNECT ON DATABASE x FROM PUBLIC;", "GRANT a TO b;",
		"GRANT SET ON PARAMETER work_mem TO x;", "COMMENT ON ROLE x IS 'y';", "SECURITY LABEL ON DATABASE x IS 'y';", "CREATE TABLESPACE x LOCATION 'y';",
		"BEGIN; ROLLBACK;", "ABORT;", "PREPARE TRANSACTION 'x';",
	} {
		err := postgreSQL{}.Check(t.Context(), nil, formatSQL, strings.NewReader(script))
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != ReasonFormatNotRecognised || e.Retryable {
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestScriptsThatStayInTheirDatabase(t *testing.T) {
	for _, script := range []string{
		"GRANT SELECT ON TABLE t TO x;", "REVOKE ALL ON SCHEMA public FROM PUBLIC;", "COMMENT ON DATABASE x IS 'pg_dump 10 wrote this';",
		"CREATE USER MAPPING FOR x SERVER s;", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO x;", "COMMENT ON TABLE role IS 'x';",
		"BEGIN; SAVEPOINT a; ROLLBACK TO a; COMMIT;", "PREPARE q AS SELECT 1;",
	} {
		if err := (postgreSQL{}).Check(t.Context(), nil, formatSQL, strings.NewReader(script)); err != nil {
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestLargeObjectsOfAnEntry(t *testing.T) {
	for tag, want := range map[string]int{"4711": 1, "16400..16500": 2, "a..b": 1, "": 1} {
		if got := largeObjectsOf(tag); got != want {
			t.Errorf("%q: %d", tag, got)
		}
	}
}

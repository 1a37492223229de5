package agent_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

func TestArtifactThatIsDamagedInTheStore(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	db := j.task.Database.Databases[0]
	whole := string(f.minio.Object(t, f.bucket, j.task.Key))
	flip := []byte(whole)
	flip[len(flip)/2] ^= 0x20
	for name, c := range map[string]struct {
		content string
		verb    contract.Verb
	}{
		"truncated": {whole[:len(whole)-1], contract.VerbInspect}, "longer": {whole + "x", contract.VerbInspect},
		"empty": {"", contract.VerbInspect}, "a flipped bit": {string(flip), contract.VerbFetch},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.minio.Put(t, f.bucket, j.task.Key, c.content)
			r := f.restoreJob(j.task.Key, db)
			if c.verb == contract.VerbFetch {
				r.task.Expect, r.task.Engine = r.must(contract.VerbInspect).Source, "PostgreSQL"
			}
			r.mustFail(c.verb, contract.ReasonArtifactCorrupt, false, j.task.Key)
			if left := r.staged(); left != "" {
				t.Errorf("left on staging: %s", left)
			}
		})
	}
}

func TestArtifactThatIsNotThere(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	f.restoreJob("shop/no/such.pgdump.zst", "x").mustFail(contract.VerbInspect, contract.ReasonArtifactNotFound, false, "no/such")
	f.restoreJob(storage.ManifestKey(j.task.Key), "x").mustFail(contract.VerbInspect, contract.ReasonFormatNotRecognised, false, "manifest")
	f.minio.Put(t, f.bucket, storage.ManifestKey(j.task.Key), `{"version": 1}`)
	f.restoreJob(j.task.Key, "x").mustFail(contract.VerbInspect, contract.ReasonManifestInvalid, false, j.task.Key)
}

func TestArtifactIsReplacedBetweenInspectionAndFetch(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	r := f.restoreJob(j.task.Key, j.task.Database.Databases[0])
	r.task.Expect, r.task.Engine = r.must(contract.VerbInspect).Source, "PostgreSQL"
	r.task.Expect.SHA256 = strings.Repeat("0", 64)
	r.mustFail(contract.VerbFetch, contract.ReasonArtifactCorrupt, false, "replaced", "not touched")
}

func TestFetchIsRunAgain(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	r := f.restoreJob(j.task.Key, j.task.Database.Databases[0])
	r.fetch()
	for _, key := range f.keys() {
		if err := f.minio.Client(t).RemoveObject(t.Context(), f.bucket, key, removeOptions); err != nil {
			t.Fatal(err)
		}
	}
	r.must(contract.VerbFetch) // from the claim alone
	if err := os.Truncate(filepath.Join(r.staging, "artifact"), 10); err != nil {
		t.Fatal(err)
	}
	r.mustFail(contract.VerbLoad, contract.ReasonStagedArtifactDamaged, false)
	r.mustFail(contract.VerbFetch, contract.ReasonArtifactNotFound, false)
}

// brokenStore breaks off every download after some bytes.
type brokenStore struct {
	storage.Store
	after int64
	gets  *[]int64
}

func (s brokenStore) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, storage.Info, error) {
	content, info, err := s.Store.Get(ctx, key, offset)
	if err != nil || strings.HasSuffix(key, storage.ManifestSuffix) {
		return content, info, err
	}
	*s.gets = append(*s.gets, offset)
	return &brokenBody{content, s.after}, info, nil
}

type brokenBody struct {
	io.ReadCloser
	left int64
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, storage.ErrUnreachable
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func TestDownloadGoesOnWhereItBrokeOff(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	size := int64(len(f.minio.Object(t, f.bucket, j.task.Key)))
	r := f.restoreJob(j.task.Key, j.task.Database.Databases[0])
	r.task.Expect, r.task.Engine = r.must(contract.VerbInspect).Source, "PostgreSQL"
	var gets []int64
	work := r.agent()
	work.OpenStore = func(ctx context.Context, config storage.Config) (storage.Store, error) {
		store, err := storage.New(ctx, config)
		return brokenStore{store, size/3 + 1, &gets}, err
	}
	r.task.Verb = contract.VerbFetch
	if result := work.Run(t.Context(), r.task); result.Failure != nil {
		t.Fatalf("%+v", *result.Failure)
	}
	if len(gets) != 3 || gets[0] != 0 || gets[1] != size/3+1 {
		t.Errorf("downloads began at %v of %d", gets, size)
	}
	r.must(contract.VerbLoad)
}

func TestFetchOntoAClaimThatIsTooSmall(t *testing.T) {
	f := newFixture(t)
	j := f.dumped(large)
	j.must(contract.VerbUpload)
	r := f.restoreJob(j.task.Key, j.task.Database.Databases[0])
	r.smallDisk(t, 1<<20)
	r.task.Expect, r.task.Engine = r.must(contract.VerbInspect).Source, "PostgreSQL"
	r.mustFail(contract.VerbFetch, contract.ReasonStagingFull, false, "spec.staging.size to ", "Mi or more")
}

func compressed(t *testing.T, how string, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch how {
	case ".zst":
		encoder, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = encoder
	case ".gz":
		w = gzip.NewWriter(&out)
	default:
		return plain
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pgDump runs pg_dump as anybody would.
func (f *fixture) pgDump(database string, args ...string) []byte {
	f.t.Helper()
	cmd := exec.Command("pg_dump", append([]string{"-h", f.pg.Host, "-p", itoa(f.pg.Port), "-U", pgtest.Superuser, "-d", database}, args...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+pgtest.Password)
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("pg_dump: %v: %s", err, err.(*exec.ExitError).Stderr)
	}
	return out
}

func TestDumpsOfOthers(t *testing.T) {
	f := newFixture(t)
	name := pgtest.Name(t)
	f.furnished(name)
	want := fingerprint(t, f.pg, name)
	dumps := map[string][]byte{"custom": f.pgDump(name, "-Fc"), "custom, not compressed": f.pgDump(name, "-Fc", "-Z0"),
		"plain": f.pgDump(name), "plain, INSERTs": f.pgDump(name, "--inserts"),
		"plain, restricted": append([]byte("\\restrict abcXYZ\n\n"), append(f.pgDump(name), []byte("\\unrestrict abcXYZ\n")...)...)}
	for kind, plain := range dumps {
		for _, how := range []string{"", ".gz", ".zst"} {
			t.Run(kind+how, func(t *testing.T) {
				f.t = t
				f.minio.Put(t, f.bucket, "foreign/dump", string(compressed(t, how, plain)))
				f.pg.Exec(t, name, `TRUNCATE parent CASCADE`, `SELECT lo_unlink(4711)`)
				r := f.restoreJob("foreign/dump", name)
				if source := r.must(contract.VerbInspect).Source; !source.Foreign {
					t.Errorf("found %+v", source)
				}
				r.fetch()
				r.must(contract.VerbLoad)
				if got := fingerprint(t, f.pg, name); got != want {
					t.Errorf("restored:\n%s\nwant:\n%s", got, want)
				}
				f.noLeftovers()
			})
		}
	}
}

func TestScriptWithoutOwnersAndGrants(t *testing.T) {
	f := newFixture(t)
	name, other := pgtest.Name(t), pgtest.Name(t)
	f.furnished(name)
	t.Cleanup(func() { f.pg.Drop(t, other) })
	f.minio.Put(t, f.bucket, "dump.sql", string(f.pgDump(name)))
	r := f.restoreJob("dump.sql", other)
	r.task.Restore.OmitOwnership, r.task.Restore.OmitPrivileges = true, true
	r.fetch()
	r.must(contract.VerbLoad)
	if got := f.pg.Query(t, other, `SELECT relowner::regrole, relacl FROM pg_class WHERE relname = 'parent'`); got != "postgres|" {
		t.Errorf("owner and grants: %q", got)
	}
	f.restoreJob("dump.sql").mustFail(contract.VerbInspect, contract.ReasonInvalidTask, false, "spec.database.names")
	f.restoreJob("dump.sql", "a", "b").mustFail(contract.VerbInspect, contract.ReasonInvalidTask, false, "spec.database.names")
}

// A cluster artifact whose manifest was lost is still worth its weight.
func TestOwnArtifactsWithoutTheirManifests(t *testing.T) {
	f := newFixture(t)
	one := f.pg.Database(t, `CREATE TABLE a AS SELECT 1 AS i`)
	two := f.pg.Database(t, `CREATE TABLE b AS SELECT 2 AS i`)
	for _, databases := range [][]string{{one}, {one, two}} {
		key := f.backup(databases...)
		if err := f.minio.Client(t).RemoveObject(t.Context(), f.bucket, storage.ManifestKey(key), removeOptions); err != nil {
			t.Fatal(err)
		}
		f.pg.Exec(t, one, `UPDATE a SET i = 7`)
		f.restore(key)
		if got := f.pg.Query(t, one, `SELECT i FROM a`); got != "1" {
			t.Errorf("restored: %s", got)
		}
	}
}

func TestForeignFilesThatAreNoWholeDumps(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1, 5000) i`, `CREATE TABLE u AS SELECT 1`)
	custom, plain := f.pgDump(db, "-Fc"), f.pgDump(db)
	cut := func(b []byte) []byte { return b[:len(b)*2/3] }
	for name, c := range map[string]struct {
		content []byte
		verb    contract.Verb
		reason  string
		words   []string
	}{
		"a picture":             {[]byte("\x89PNG\r\n\x1a\n\x00\x00"), contract.VerbInspect, contract.ReasonFormatNotRecognised, []string{"custom format", "plain SQL"}},
		"a letter":              {[]byte("Dear DBA,\n"), contract.VerbInspect, contract.ReasonFormatNotRecognised, nil},
		"a zipped letter":       {compressed(t, ".gz", []byte("Dear DBA,\n")), contract.VerbInspect, contract.ReasonFormatNotRecognised, nil},
		"custom, cut":           {cut(custom), contract.VerbFetch, contract.ReasonArtifactCorrupt, []string{"cut short", "not touched"}},
		"custom, its magic":     {custom[:9], contract.VerbInspect, contract.ReasonArtifactCorrupt, nil},
		"custom, gzip, cut":     {cut(compressed(t, ".gz", custom)), contract.VerbFetch, contract.ReasonArtifactCorrupt, nil},
		"custom cut, then gzip": {compressed(t, ".gz", cut(custom)), contract.VerbFetch, contract.ReasonArtifactCorrupt, nil},
		"custom, zstd, cut":     {cut(compressed(t, ".zst", custom)), contract.VerbInspect, contract.ReasonArtifactCorrupt, nil},
		"plain, cut":            {cut(plain), contract.VerbFetch, contract.ReasonArtifactCorrupt, []string{"cut short"}},
		"plain, end cut":        {plain[:bytes.LastIndex(plain, []byte("-- PostgreSQL database dump complete"))], contract.VerbFetch, contract.ReasonArtifactCorrupt, nil},
		"plain, gzip, cut":      {cut(compressed(t, ".gz", plain)), contract.VerbFetch, contract.ReasonArtifactCorrupt, nil},
		"with --create":         {f.pgDump(db, "--create"), contract.VerbFetch, contract.ReasonFormatNotRecognised, []string{"--create"}},
		"psql commands":         {[]byte("SELECT 1;\n\\! touch /tmp/x\n"), contract.VerbFetch, contract.ReasonFormatNotRecognised, []string{`line 2`, `\! touch`}},
		"no statement":          {[]byte("-- nothing\n"), contract.VerbFetch, contract.ReasonArtifactCorrupt, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.minio.Put(t, f.bucket, "foreign", string(c.content))
			r := f.restoreJob("foreign", db)
			if c.verb == contract.VerbFetch {
				r.task.Expect, r.task.Engine = r.must(contract.VerbInspect).Source, "PostgreSQL"
			}
			r.mustFail(c.verb, c.reason, false, c.words...)
			if left := r.staged(); left != "" {
				t.Errorf("left on staging: %s", left)
			}
		})
	}
}

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// restoreFailure is one way in which a restore cannot succeed, and what it must say then.
type restoreFailure struct {
	name          string
	edit          func(*v1alpha1.DatabaseRestoreSpec)
	stage, reason string
	says          []string
}

func restoreFailures(s *space, a artifacts) []restoreFailure {
	return []restoreFailure{
		{"wrong-password", func(spec *v1alpha1.DatabaseRestoreSpec) {
			spec.Database.CredentialsSecretRef.Name = "wrong-password"
		}, v1alpha1.ReasonInspectionFailed, "AuthenticationFailed", []string{"orders-db", "credentialsSecretRef"}},
		{"no-such-bucket", fromURL("s3://e2e-there-is-no-such-bucket/orders.pgdump.zst"),
			v1alpha1.ReasonInspectionFailed, "BucketNotFound", []string{"e2e-there-is-no-such-bucket"}},
		{"no-such-artifact", fromURL("s3://" + s.bucket + "/prod/nosuch.pgdump.zst"),
			v1alpha1.ReasonInspectionFailed, "ArtifactNotFound", []string{"prod/nosuch.pgdump.zst"}},
		{"wrong-s3-key", func(spec *v1alpha1.DatabaseRestoreSpec) {
			spec.Source.S3.CredentialsSecretRef.Name = "wrong-s3"
		}, v1alpha1.ReasonInspectionFailed, "StoreCredentialsRejected", []string{"minio.minio.svc", "secretAccessKey"}},
		{"no-such-secret", func(spec *v1alpha1.DatabaseRestoreSpec) {
			spec.Source.S3.CredentialsSecretRef.Name = "nosuch-s3"
		}, v1alpha1.ReasonInspectionFailed, "SecretMissing", []string{"nosuch-s3"}},
		{"no-such-backup", func(spec *v1alpha1.DatabaseRestoreSpec) {
			spec.Source = v1alpha1.RestoreSource{BackupRef: v1alpha1.BackupRef{Name: "nosuch-backup"}}
		}, v1alpha1.ReasonPreflightFailed, "SourceNotFound", []string{"nosuch-backup"}},
		{"truncated", fromURL(a.plant("truncated", cutHalf)), anyStage, "ArtifactCorrupt", []string{"truncated"}},
		{"flipped-byte", fromURL(a.plant("flipped", flipByte)), v1alpha1.ReasonFetchFailed, "ArtifactCorrupt",
			[]string{"flipped", "SHA-256"}},
		{"other-manifest", fromURL(a.plantOther("other-manifest")), v1alpha1.ReasonInspectionFailed, "ManifestInvalid",
			[]string{"other-manifest"}},
		{"rubbish", fromURL(s.put("prod/rubbish.bin", bytes.Repeat([]byte("no dump at all\n"), 5000))),
			v1alpha1.ReasonInspectionFailed, "FormatNotRecognised", []string{"rubbish.bin", "what can be restored"}},
		{"empty-file", fromURL(s.put("prod/empty.bin", nil)), v1alpha1.ReasonInspectionFailed, "ArtifactCorrupt",
			[]string{"empty.bin"}},
		{"foreign-cut", fromURL(s.put("prod/foreign-cut.dump", a.foreignCut)), anyStage, "ArtifactCorrupt",
			[]string{"foreign-cut"}},
		{"foreign-broken-sql", fromURL(s.put("prod/broken.sql", []byte(brokenSQL))), v1alpha1.ReasonRestoreFailed, "RestoreToolFailed",
			[]string{"nosuch_table"}},
	}
}

// brokenSQL is a dump whose last statement fails: half a restore is none.
const brokenSQL = "--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE half (id int);\nINSERT INTO half VALUES (1);\n" +
	"INSERT INTO nosuch_table VALUES (1);\n--\n-- PostgreSQL database dump complete\n--\n"

func fromURL(url string) func(*v1alpha1.DatabaseRestoreSpec) {
	return func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source.URL = url }
}

// TestRestoreFailsClearly shows that each wrong input ends a restore for good, with the cause as reason, and leaves the
// old database as it was and no other one beside it.
func TestRestoreFailsClearly(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "restore-fails")
	db := s.startPostgres("orders-db")
	db.newDatabase("source", small("new"))
	s.secret("wrong-password", map[string]string{"username": postgresUser, "password": awkwardPassword()})
	s.secret("wrong-s3", map[string]string{"accessKeyID": env.access.accessKeyID, "secretAccessKey": rand.String(40)})
	b := s.newBackup("source", db.database("source")).create().awaitReady()
	failures := restoreFailures(s, db.artifactsOf(s, b))
	for _, failure := range failures {
		db.newDatabase(failure.name, small("kept of "+failure.name))
	}
	before := db.databases()

	t.Run("group", func(t *testing.T) {
		for _, failure := range failures {
			t.Run(failure.name, func(t *testing.T) {
				t.Parallel()
				checkRestoreFailure(s.forSubtest(t), db.forSubtest(t), b.Status.URL, failure)
			})
		}
	})
	if after := db.databases(); !slices.Equal(before, after) {
		t.Errorf("failed restores left other databases: %q before, %q after", before, after)
	}
}

func checkRestoreFailure(s *space, db *postgres, url string, failure restoreFailure) {
	whole := db.fingerprint(failure.name)
	r := s.newRestore(failure.name, url, db.database(failure.name)).edit(failure.edit).attempts(0).create()
	r.await("the end", func(now *v1alpha1.DatabaseRestore) (bool, error) { return isStalled(now.Status.Conditions) })
	stalled := checkStalled(s.t, r.Status.Conditions, failure.stage, failure.reason)
	wantMessage(s.t, stalled, failure.says...)
	wantWarning(s.t, s, r.Name, r.Status.CompletionTime)
	mustEqual(s.t, "the database that could not be restored", db.fingerprint(failure.name), whole)
}

// artifacts are damaged copies of a good artifact.
type artifacts struct {
	space      *space
	backup     *backup
	artifact   object
	manifest   map[string]any
	foreignCut []byte
}

func (p *postgres) artifactsOf(s *space, b *backup) artifacts {
	p.t.Helper()
	bucket, key := splitURL(p.t, b.Status.URL)
	a := artifacts{space: s, backup: b, artifact: readObject(p.t, bucket, key)}
	if err := json.Unmarshal(readObject(p.t, bucket, key+manifestSuffix).bytes, &a.manifest); err != nil {
		p.t.Fatal(err)
	}
	a.foreignCut = cutHalf(p.dump("source", "-Fc"))
	return a
}

// plant lays a damaged copy of the artifact into the store, with a manifest that says of it what was true of the
// good one.
func (a artifacts) plant(name string, damage func([]byte) []byte) string {
	a.space.t.Helper()
	key := a.keyOf(name)
	said := maps.Clone(a.manifest)
	said["key"] = key
	a.putManifest(key, said)
	return a.space.put(key, damage(bytes.Clone(a.artifact.bytes)))
}

// plantOther lays a good copy of the artifact into the store, beside the manifest of another key.
func (a artifacts) plantOther(name string) string {
	a.space.t.Helper()
	key := a.keyOf(name)
	a.putManifest(key, a.manifest)
	return a.space.put(key, a.artifact.bytes)
}

func (a artifacts) keyOf(name string) string {
	folder := a.artifact.key[:strings.LastIndex(a.artifact.key, "/")+1]
	return folder + name + ".pgdump.zst"
}

func (a artifacts) putManifest(key string, content map[string]any) {
	a.space.t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		a.space.t.Fatal(err)
	}
	a.space.put(key+manifestSuffix, raw)
}

func cutHalf(whole []byte) []byte { return whole[:len(whole)/2] }

func flipByte(whole []byte) []byte {
	whole[len(whole)*2/3] ^= 0x10
	return whole
}

// TestTargetDisappears takes the server away while a restore loads into it.
func TestTargetDisappears(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "target-gone")
	db := s.startPostgres("orders-db")
	db.newDatabase("source", small("new")+slowToRestore(8))
	db.newDatabase("orders", small("kept"))
	whole, restored := db.fingerprint("orders"), db.fingerprint("source")
	b := s.newBackup("source", db.database("source")).create().awaitReady()

	r := s.newRestore("for-good", b.Status.URL, db.database("orders")).attempts(0).create()
	db.awaitLoad()
	db.scale(0)
	stalled := r.awaitStalled(v1alpha1.ReasonRestoreFailed, "ServerUnreachable")
	wantMessage(t, stalled, db.host())
	db.scale(1)
	// A sequence may skip some values when its server is killed: that is PostgreSQL's own way.
	mustEqual(t, "the database whose server went away", without(db.fingerprint("orders"), "sequence"), without(whole, "sequence"))

	again := s.newRestore("for-a-moment", b.Status.URL, db.database("orders")).create()
	db.awaitLoad()
	db.scale(0)
	db.scale(1)
	again.awaitReady()
	mustEqual(t, "the database whose server came back", db.fingerprint("orders"), restored)
}

// awaitLoad waits until a restore fills the materialized view that slowToRestore made.
func (p *postgres) awaitLoad() {
	p.t.Helper()
	await(p.t, "a restore to load", patience, func(ctx context.Context) (bool, string) {
		at, err := p.trySQL(ctx, "postgres", `SELECT count(*) FROM pg_stat_activity
			WHERE state = 'active' AND query LIKE 'REFRESH MATERIALIZED VIEW%'`)
		return err == nil && at != "0", at
	})
}

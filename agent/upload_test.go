package agent_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

// dumped is a job whose artifact is staged.
func (f *fixture) dumped(statements ...string) *job {
	f.t.Helper()
	j := f.job(f.pg.Database(f.t, append(statements, `CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1, 1000) i`)...))
	artifact := j.must(contract.VerbDump).Artifact
	j.task.Key = "shop/orders/" + j.task.Object.UID + artifact.Extension
	return j
}

func (f *fixture) keys() []string { return f.minio.Keys(f.t, f.bucket) }

func TestUploadProvesAndCommits(t *testing.T) {
	for name, provider := range map[string]storage.Provider{"minio-go": storage.ProviderS3Compatible, "aws": storage.ProviderAWS} {
		for _, checksums := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.store.Provider, f.store.PartChecksums = provider, checksums
				j := f.dumped()
				j.task.Snapshots = []storage.Snapshot{{Name: "snap", Claim: "data"}}
				left := f.minio.StartUpload(t, f.bucket, j.task.Key)
				result := j.must(contract.VerbUpload)
				if result.URL != "s3://"+f.bucket+"/"+j.task.Key {
					t.Errorf("URL %s", result.URL)
				}
				if open := f.minio.Uploads(t, f.bucket, j.task.Key); slices.Contains(open, left) {
					t.Error("the half upload of an earlier run is still there")
				}
				staged, err := os.ReadFile(filepath.Join(j.staging, "artifact"))
				if err != nil || string(f.minio.Object(t, f.bucket, j.task.Key)) != string(staged) {
					t.Errorf("the store holds something else (%v)", err)
				}
				store, err := storage.New(t.Context(), f.store)
				if err != nil {
					t.Fatal(err)
				}
				m, err := storage.ReadManifest(t.Context(), store, j.task.Key)
				if err != nil || m.SHA256 != result.Artifact.SHA256 || m.Object != j.task.Object || len(m.Databases) != 1 || len(m.Snapshots) != 1 ||
					m.StartTime.IsZero() || m.CompletionTime.Before(m.StartTime) || m.Engine != "PostgreSQL" {
					t.Errorf("manifest %+v (%v)", m, err)
				}
				again := j.must(contract.VerbUpload)
				if *again.Artifact != *result.Artifact || again.URL != result.URL {
					t.Errorf("run again: %+v", again)
				}
			})
		}
	}
}

func TestUploadOfADamagedFile(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	path := filepath.Join(j.staging, "artifact")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[100] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	j.mustFail(contract.VerbUpload, contract.ReasonStagedArtifactDamaged, false, "SHA-256")
	if keys := f.keys(); len(keys) > 0 {
		t.Errorf("in the store: %v", keys)
	}
	if err := os.WriteFile(path, raw[:50], 0o600); err != nil {
		t.Fatal(err)
	}
	j.mustFail(contract.VerbUpload, contract.ReasonStagedArtifactDamaged, false, "no whole artifact")
	f.job("x").mustFail(contract.VerbUpload, contract.ReasonStagedArtifactDamaged, false)
}

func TestUploadOverAnothersArtifact(t *testing.T) {
	f := newFixture(t)
	first := f.dumped()
	first.must(contract.VerbUpload)
	second := f.dumped()
	second.task.Key = first.task.Key
	before := f.minio.Object(t, f.bucket, first.task.Key)
	second.mustFail(contract.VerbUpload, contract.ReasonNotOurs, false, "belongs to", "shop/orders")
	if string(f.minio.Object(t, f.bucket, first.task.Key)) != string(before) {
		t.Error("the other's artifact was replaced")
	}
	second.mustFail(contract.VerbDelete, contract.ReasonNotOurs, false)
	if len(f.keys()) != 2 {
		t.Errorf("in the store: %v", f.keys())
	}
}

func TestUploadAfterANewDump(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	f.pg.Exec(t, j.task.Database.Databases[0], `CREATE TABLE more (i int)`)
	if err := os.Remove(filepath.Join(j.staging, "result.json")); err != nil {
		t.Fatal(err)
	}
	artifact := j.must(contract.VerbDump).Artifact
	if got := j.must(contract.VerbUpload).Artifact; *got != *artifact {
		t.Errorf("uploaded %+v, dumped %+v", got, artifact)
	}
	if found := j.must(contract.VerbInspect).Source; found.SHA256 != artifact.SHA256 {
		t.Errorf("the store holds %+v", found)
	}
}

func TestStoreThatIsSetUpWrongly(t *testing.T) {
	f := newFixture(t)
	good := f.store
	for name, c := range map[string]struct {
		change    func()
		reason    string
		retryable bool
		words     []string
	}{
		"wrong key": {func() { f.store.CredentialsDir = miniotest.CredentialsDir(t, "nobody", "wrongwrong", "") }, contract.ReasonStoreCredentials, false, nil},
		"no secret": {func() { f.store.CredentialsDir = t.TempDir() }, contract.ReasonSecretMissing, true,
			[]string{`Secret "s3" of namespace "shop" is absent or has no key "accessKeyID"`, "spec.storage.s3.credentialsSecretRef"}},
		"half a secret": {func() { f.store.CredentialsDir = halfSecret(t) }, contract.ReasonSecretMissing, true, []string{`no key "secretAccessKey"`}},
		"no bucket":     {func() { f.store.Bucket = "not-there-at-all" }, contract.ReasonBucketNotFound, false, []string{"not-there-at-all"}},
		"no CA": {func() { f.store.CAFile = filepath.Join(t.TempDir(), "ca.crt") }, contract.ReasonSecretMissing, true,
			[]string{`Secret "s3-ca" of namespace "shop" is absent or has no key "tls.crt"`, "create it, or correct the reference (spec.storage.s3.caSecretRef)"}},
		"empty CA": {func() { f.store.CAFile = emptyFile(t) }, contract.ReasonSecretMissing, true, []string{`"s3-ca"`}},
		"wrong CA": {func() { f.store.CAFile = miniotest.OtherCA(t) }, contract.ReasonStoreCertificate, false, []string{"caSecretRef"}},
	} {
		t.Run(name, func(t *testing.T) {
			f.t, f.store = t, good
			j := f.dumped()
			c.change()
			for _, verb := range []contract.Verb{contract.VerbCheck, contract.VerbUpload, contract.VerbInspect, contract.VerbDelete} {
				j.mustFail(verb, c.reason, c.retryable, c.words...)
			}
		})
	}
}

func halfSecret(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "accessKeyID"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStoreIsAwayForAWhile(t *testing.T) {
	f := newFixture(t)
	f.minio = miniotest.Start(t)
	f.store.Endpoint, f.store.CAFile, f.store.CredentialsDir = f.minio.Endpoint, f.minio.CAFile, f.minio.CredentialsDir(t)
	f.bucket = f.minio.Bucket(t)
	f.store.Bucket = f.bucket
	j := f.dumped()
	f.minio.Kill()
	for _, verb := range []contract.Verb{contract.VerbUpload, contract.VerbInspect, contract.VerbDelete} {
		done := j.start(t.Context(), verb)
		eventually(t, "a try in vain", func() bool { return strings.Contains(j.logText(), `trying again","verb":"`+string(verb)) })
		if err := f.minio.Restart(); err != nil {
			t.Fatal(err)
		}
		if result := <-done; result.Failure != nil {
			t.Fatalf("%s: %+v", verb, *result.Failure)
		}
		f.minio.Kill()
	}
	impatient := j.agent()
	impatient.StorePatience = time.Millisecond
	j.task.Verb = contract.VerbUpload
	checkFailure(t, impatient.Run(t.Context(), j.task), contract.ReasonStoreUnreachable, true, f.bucket)
}

func TestUploadIsTerminated(t *testing.T) {
	f := newFixture(t)
	f.store.PartChecksums = true
	j := f.dumped()
	ctx, cancel := context.WithCancelCause(t.Context())
	work := j.agent()
	work.OpenStore = func(ctx context.Context, config storage.Config) (storage.Store, error) {
		store, err := storage.New(ctx, config)
		return endingStore{store, func() { cancel(agent.ErrTerminated) }}, err
	}
	j.task.Verb = contract.VerbUpload
	checkFailure(t, work.Run(ctx, j.task), contract.ReasonTerminated, true)
	if open := f.minio.Uploads(t, f.bucket, j.task.Key); len(open) > 0 {
		t.Errorf("half uploads: %v", open)
	}
	if slices.Contains(f.keys(), storage.ManifestKey(j.task.Key)) {
		t.Error("a manifest was written")
	}
	j.must(contract.VerbUpload)
}

// endingStore ends the task while the store looks for half uploads.
type endingStore struct {
	storage.Store
	end func()
}

func (s endingStore) AbortUploads(ctx context.Context, key string) error {
	s.end()
	return s.Store.AbortUploads(ctx, key)
}

// lyingStore holds something else than what was sent.
type lyingStore struct{ storage.Store }

func (s lyingStore) Put(ctx context.Context, key string, source io.ReaderAt, size int64) (storage.Info, error) {
	if strings.HasSuffix(key, storage.ManifestSuffix) {
		return s.Store.Put(ctx, key, source, size)
	}
	return s.Store.Put(ctx, key, flipped{source}, size)
}

type flipped struct{ source io.ReaderAt }

func (f flipped) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.source.ReadAt(p, offset)
	if offset == 0 && n > 0 {
		p[0] ^= 1
	}
	return n, err
}

func TestStoreHoldsSomethingElse(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	work := j.agent()
	work.OpenStore = func(ctx context.Context, config storage.Config) (storage.Store, error) {
		store, err := storage.New(ctx, config)
		return lyingStore{store}, err
	}
	j.task.Verb = contract.VerbUpload
	checkFailure(t, work.Run(t.Context(), j.task), contract.ReasonUploadMismatch, true, "SHA-256")
	if keys := f.keys(); len(keys) > 0 {
		t.Errorf("in the store: %v", keys)
	}
}

func TestDelete(t *testing.T) {
	f := newFixture(t)
	j := f.dumped()
	j.must(contract.VerbUpload)
	j.must(contract.VerbDelete)
	if keys := f.keys(); len(keys) > 0 {
		t.Errorf("in the store: %v", keys)
	}
	j.must(contract.VerbDelete) // again
}

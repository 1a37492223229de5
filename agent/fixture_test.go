package agent_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

// fixture is what one test's tasks share: a server, a bucket and an object of each kind.
type fixture struct {
	t      *testing.T
	engine engine.Name
	host   string
	port   int
	pg     *pgtest.Server
	minio  *miniotest.Server
	bucket string
	store  storage.Config
	secret string // folder of user name and password

	mu  sync.Mutex
	log bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, pgtest.Shared(t, pgtest.DebianVersion))
}

func newFixtureOn(t *testing.T, server *pgtest.Server) *fixture {
	t.Helper()
	f := newFixtureFor(t, engine.PostgreSQL, server.Host, server.Port, credentials(t, pgtest.Superuser, pgtest.Password))
	f.pg = server
	return f
}

// moveTo points the jobs to come at another server.
func (f *fixture) moveTo(server *pgtest.Server) {
	f.pg, f.host, f.port = server, server.Host, server.Port
}

// newFixtureFor makes a fixture with a server of any engine.
func newFixtureFor(t *testing.T, name engine.Name, host string, port int, secret string) *fixture {
	t.Helper()
	f := &fixture{t: t, engine: name, host: host, port: port, secret: secret, minio: miniotest.Shared(t)}
	f.bucket = f.minio.Bucket(t)
	f.store = storage.Config{Provider: storage.ProviderS3Compatible, Bucket: f.bucket, Endpoint: f.minio.Endpoint, Region: "us-east-1",
		CredentialsDir: f.minio.CredentialsDir(t), CAFile: f.minio.CAFile}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent's log:\n%s", f.logText())
		}
	})
	return f
}

func credentials(t *testing.T, user, password string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"username": user, "password": password} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (f *fixture) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *fixture) logText() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// job is one object with its staging claim.
type job struct {
	*fixture
	staging string
	task    contract.Task
}

func (f *fixture) job(databases ...string) *job {
	return &job{fixture: f, staging: f.t.TempDir(), task: contract.Task{
		Version: contract.Version,
		Object:  storage.ObjectReference{Kind: "DatabaseBackup", Namespace: "shop", Name: "orders", UID: uuid.NewString()},
		Database: &engine.Connection{Engine: f.engine, Host: f.host, Port: f.port, Databases: databases,
			UsernameFile: filepath.Join(f.secret, "username"), PasswordFile: filepath.Join(f.secret, "password"),
			TLSMode: engine.TLSDisable, Image: "postgres:15"},
		DatabaseSecret:   &contract.SecretNames{Name: "orders-db", Keys: []string{"username", "password"}},
		DatabaseCASecret: &contract.SecretNames{Name: "orders-ca", Keys: []string{"root.pem"}},
		Store:            &f.store,
		StoreSecret:      &contract.SecretNames{Name: "s3", Keys: []string{"accessKeyID", "secretAccessKey"}},
		StoreCASecret:    &contract.SecretNames{Name: "s3-ca", Keys: []string{"tls.crt"}},
		Compression:      &contract.Compression{Algorithm: "Zstd", Level: 3},
		Restore:          &engine.RestoreOptions{},
		StagingSizeBytes: 1 << 30,
	}}
}

func (j *job) agent() agent.Agent {
	return agent.Agent{StagingDir: j.staging, TempDir: j.t.TempDir(), Log: j.fixture}
}

// run does one verb of the job.
func (j *job) run(verb contract.Verb) contract.Result {
	j.t.Helper()
	return j.runContext(context.Background(), verb)
}

func (j *job) runContext(ctx context.Context, verb contract.Verb) contract.Result {
	j.t.Helper()
	j.task.Verb = verb
	result := j.agent().Run(ctx, j.task)
	if _, err := contract.DecodeResult(result.Encode()); err != nil {
		j.t.Fatalf("%s: %v", verb, err)
	}
	for _, password := range []string{pgtest.Password, mariadbtest.Password, redistest.Password, mongotest.Password} {
		if text := string(result.Encode()) + j.logText(); strings.Contains(text, password) {
			j.t.Fatalf("%s: the password stands in a log or a result", verb)
		}
	}
	return result
}

// must does one verb, which has to succeed.
func (j *job) must(verb contract.Verb) contract.Result {
	j.t.Helper()
	result := j.run(verb)
	if result.Failure != nil {
		j.t.Fatalf("%s failed: %+v", verb, *result.Failure)
	}
	return result
}

// mustFail does one verb, which has to fail for a reason, with some words in its message.
func (j *job) mustFail(verb contract.Verb, reason string, retryable bool, words ...string) {
	j.t.Helper()
	checkFailure(j.t, j.run(verb), reason, retryable, words...)
}

func checkFailure(t *testing.T, result contract.Result, reason string, retryable bool, words ...string) {
	t.Helper()
	failure := result.Failure
	if failure == nil {
		t.Fatalf("%s succeeded, but should fail with %s", result.Verb, reason)
	}
	if failure.Reason != reason || failure.Retryable != retryable {
		t.Errorf("%s failed with %s (retryable %v), want %s (retryable %v): %s", result.Verb, failure.Reason, failure.Retryable,
			reason, retryable, failure.Message)
	}
	for _, word := range words {
		if !strings.Contains(failure.Message, word) {
			t.Errorf("the message %q does not say %q", failure.Message, word)
		}
	}
}

// backup dumps and uploads, and returns the artifact's key.
func (f *fixture) backup(databases ...string) string {
	f.t.Helper()
	return f.job(databases...).backup()
}

func (j *job) backup() string {
	j.t.Helper()
	artifact := j.must(contract.VerbDump).Artifact
	j.task.Key = "shop/orders/" + j.task.Object.UID + artifact.Extension
	j.must(contract.VerbUpload)
	return j.task.Key
}

// restore inspects, fetches and loads an artifact, and returns its job.
func (f *fixture) restore(key string, databases ...string) *job {
	f.t.Helper()
	j := f.restoreJob(key, databases...)
	j.fetch()
	j.must(contract.VerbLoad)
	return j
}

func (f *fixture) restoreJob(key string, databases ...string) *job {
	j := f.job(databases...)
	j.task.Object.Kind, j.task.Key = "DatabaseRestore", key
	return j
}

func (j *job) fetch() {
	j.t.Helper()
	found := j.must(contract.VerbInspect).Source
	j.task.Engine = j.engine
	j.task.Expect = &contract.Source{SizeBytes: found.SizeBytes, SHA256: found.SHA256} // what status keeps
	j.must(contract.VerbFetch)
}

// noLeftovers fails when a temporary database is still there.
func (f *fixture) noLeftovers() {
	f.t.Helper()
	if left := f.pg.Query(f.t, "postgres", `SELECT datname FROM pg_database WHERE datname LIKE 'holdfast%'`); left != "" {
		f.t.Errorf("left behind: %s", left)
	}
}

var removeOptions = minio.RemoveObjectOptions{}

func itoa(n int) string { return strconv.Itoa(n) }

//go:build bench

package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

const uid = "3f2a91c0-0000-4000-8000-000000000001"

// program is one of those that run.sh compiled.
func program(name string) string { return filepath.Join(os.Getenv("BENCH_PROGRAMS"), name) }

func (w *world) store() *storage.Config {
	return &storage.Config{Provider: storage.ProviderS3Compatible, Bucket: w.bucket, Endpoint: w.minio.Endpoint,
		Region: "us-east-1", CredentialsDir: w.keys, CAFile: w.minio.CAFile}
}

func (w *world) database(name string) *engine.Connection {
	return &engine.Connection{Engine: engine.PostgreSQL, Host: w.postgres.Host, Port: w.postgres.Port,
		UsernameFile: filepath.Join(w.secrets, "username"), PasswordFile: filepath.Join(w.secrets, "password"),
		Databases: []string{name}, TLSMode: engine.TLSDisable}
}

func task(verb contract.Verb) contract.Task {
	return contract.Task{Version: contract.Version, Verb: verb,
		Object: storage.ObjectReference{Kind: "DatabaseBackup", Namespace: "bench", Name: "shop", UID: uid}}
}

// outcome is what one run of the agent took and said.
type outcome struct {
	figure
	result contract.Result
	steps  map[string]time.Duration
}

// agent runs a task as a Job's pod does, and fails the test when it fails.
func (w *world) agent(staging string, task contract.Task) outcome {
	w.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		w.Fatal(err)
	}
	if err := os.MkdirAll(staging, 0o700); err != nil {
		w.Fatal(err)
	}
	resultFile := filepath.Join(w.dir, "result.json")
	cmd := exec.Command(program("agent"), "run", "--task", string(raw), "--result", resultFile, "--staging", staging)
	cmd.Env = []string{"PATH=" + pgtest.BinDir(w, pgtest.DebianVersion) + ":/usr/bin:" + os.Getenv(mongotest.ProgramsVariable)}
	took, log := measure(w, cmd)
	return outcome{figure: took, result: w.readResult(resultFile), steps: readSteps(log)}
}

func (w *world) readResult(path string) contract.Result {
	w.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	result, err := contract.DecodeResult(raw)
	if err != nil || result.Failure != nil {
		w.Fatalf("%s, %v", raw, err)
	}
	return result
}

// readSteps reads from the agent's log how long each of its steps took.
func readSteps(log []byte) map[string]time.Duration {
	steps := map[string]time.Duration{}
	for line := range bytes.Lines(log) {
		var entry struct {
			Msg, Step string
			Seconds   float64
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "finished step" {
			steps[entry.Step] += time.Duration(entry.Seconds * float64(time.Second))
		}
	}
	return steps
}

// dump stages an artifact, anew each time.
func (w *world) dump(staging string, level int) outcome {
	w.Helper()
	if err := os.RemoveAll(staging); err != nil {
		w.Fatal(err)
	}
	t := task(contract.VerbDump)
	t.Database, t.Compression = w.database(source), &contract.Compression{Algorithm: "Zstd", Level: level}
	took := w.agent(staging, t)
	if took.steps[stepDecode] == 0 {
		w.Fatalf("the agent's log tells of no step %q: %v", stepDecode, took.steps)
	}
	took.written = took.result.Artifact.SizeBytes
	return took
}

// pipeline is a dump without the decode that comes after it. What processor time the one and the other took is not known.
func (o *outcome) pipeline() figure {
	f := o.figure
	f.wall -= o.steps[stepDecode]
	f.cpu = 0
	return f
}

// Names of steps in the agent's log.
const (
	stepDecode   = "decode once"
	stepReadBack = "read back"
)

func (w *world) upload(staging, key string) outcome {
	w.Helper()
	t := task(contract.VerbUpload)
	t.Store, t.Key = w.store(), key
	took := w.agent(staging, t)
	if took.result.URL == "" || took.steps[stepReadBack] == 0 {
		w.Fatalf("the upload gave %+v, its steps are %v", took.result, took.steps)
	}
	return took
}

func (w *world) fetch(staging, key string, artifact *contract.Artifact) outcome {
	w.Helper()
	return w.fetchFor(engine.PostgreSQL, staging, key, artifact)
}

func (w *world) fetchFor(name engine.Name, staging, key string, artifact *contract.Artifact) outcome {
	w.Helper()
	t := task(contract.VerbFetch)
	t.Store, t.Key, t.Engine = w.store(), key, name
	t.Expect = &contract.Source{SizeBytes: artifact.SizeBytes, SHA256: artifact.SHA256}
	return w.agent(staging, t)
}

func (w *world) load(staging, database string) outcome {
	w.Helper()
	t := task(contract.VerbLoad)
	t.Database, t.Restore = w.database(database), &engine.RestoreOptions{}
	return w.agent(staging, t)
}

// put uploads a file with package storage alone.
func (w *world) put(key, file string) figure {
	w.Helper()
	config, err := json.Marshal(w.store())
	if err != nil {
		w.Fatal(err)
	}
	took, _ := measure(w, exec.Command(program("put"), string(config), key, file))
	return took
}

// readStagedArtifact reads what the dump verb noted down beside its artifact.
func (w *world) readStagedArtifact(staging string) *contract.Artifact {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(staging, "result.json"))
	if err != nil {
		w.Fatal(err)
	}
	var record contract.Result
	if err := json.Unmarshal(raw, &record); err != nil || record.Artifact == nil {
		w.Fatalf("%s, %v", raw, err)
	}
	return record.Artifact
}

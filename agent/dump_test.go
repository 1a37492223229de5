package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// eventually waits for a condition of what tells nobody of its changes: a server, a log, a folder.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.NewTimer(60*time.Second)
	defer tick.Stop()
	defer end.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("the test ended while it waited for: %s", what)
		case <-end.C:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// large is a table whose dump takes long enough to be disturbed.
const large = `CREATE TABLE large AS SELECT i, md5(i::text) || repeat('x', 200) AS filler FROM generate_series(1, 600000) i`

// start runs a verb in the background.
func (j *job) start(ctx context.Context, verb contract.Verb) <-chan contract.Result {
	done := make(chan contract.Result, 1)
	task := j.task
	task.Verb = verb
	work := j.agent()
	go func() { done <- work.Run(ctx, task) }()
	return done
}

func (j *job) partialSize(t *testing.T) int64 {
	info, err := os.Stat(filepath.Join(j.staging, "artifact.partial"))
	if err != nil {
		return 0
	}
	return info.Size()
}

func (j *job) staged() string {
	entries, _ := os.ReadDir(j.staging)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// pid of the client program that was started last.
func (f *fixture) pid(t *testing.T, program string) int {
	t.Helper()
	found := regexp.MustCompile(`"program":"`+program+`","pid":(\d+)`).FindAllStringSubmatch(f.logText(), -1)
	if len(found) == 0 {
		t.Fatalf("%s was not started", program)
	}
	pid, _ := strconv.Atoi(found[len(found)-1][1])
	return pid
}

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestDumpProgramIsKilled(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, large)
	j := f.job(db)
	done := j.start(t.Context(), contract.VerbDump)
	eventually(t, "some of the artifact", func() bool { return j.partialSize(t) > 0 })
	if err := syscall.Kill(f.pid(t, "pg_dump"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, <-done, contract.ReasonDumpToolFailed, true, "pg_dump", "killed")
	if left := j.staged(); left != "" {
		t.Errorf("left on staging: %s", left)
	}
	j.must(contract.VerbDump) // the next run is a whole one
}

func TestServerIsKilledDuringTheDump(t *testing.T) {
	s := pgtest.Start(t, "15")
	s.Exec(t, "postgres", large)
	f := newFixtureOn(t, s)
	j := f.job("postgres")
	done := j.start(t.Context(), contract.VerbDump)
	eventually(t, "some of the artifact", func() bool { return j.partialSize(t) > 0 })
	s.Kill()
	checkFailure(t, <-done, contract.ReasonServerUnreachable, true, "127.0.0.1")
	if left := j.staged(); left != "" {
		t.Errorf("left on staging: %s", left)
	}
}

func TestDumpIsTerminated(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, large)
	j := f.job(db)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := j.start(ctx, contract.VerbDump)
	eventually(t, "some of the artifact", func() bool { return j.partialSize(t) > 0 })
	begun := time.Now()
	cancel(agent.ErrTerminated)
	checkFailure(t, <-done, contract.ReasonTerminated, true, "run again")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if left := j.staged(); left != "" {
		t.Errorf("left on staging: %s", left)
	}
	if pid := f.pid(t, "pg_dump"); running(pid) {
		t.Errorf("pg_dump runs still, pid %d", pid)
	}
}

func TestDumpIsRunAgain(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t AS SELECT generate_series(1, 1000)`)
	j := f.job(db)
	first := j.must(contract.VerbDump)
	f.pg.Exec(t, db, `DROP TABLE t`)
	if second := j.must(contract.VerbDump); *second.Artifact != *first.Artifact {
		t.Errorf("the second run reports %+v, the first %+v", *second.Artifact, *first.Artifact)
	}
	artifact := filepath.Join(j.staging, "artifact")
	raw, err := os.ReadFile(artifact)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(artifact, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if third := j.must(contract.VerbDump); third.Artifact.SHA256 == first.Artifact.SHA256 {
		t.Error("a damaged artifact was reported again")
	}
}

func TestLeftoversOfAnotherRunAreCleaned(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t (i int)`)
	j := f.job(db)
	stranger, _ := json.Marshal(map[string]any{"version": 1, "verb": "dump", "objectUID": "another", "artifact": map[string]any{"sizeBytes": 3}})
	for name, content := range map[string]string{"artifact.partial": "half", "artifact": "old", "result.json": string(stranger), "result.json.tmp": "{"} {
		if err := os.WriteFile(filepath.Join(j.staging, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.must(contract.VerbDump)
	if got := j.staged(); got != "artifact result.json" {
		t.Errorf("staged: %s", got)
	}
}

// smallDisk mounts a file system of a few bytes as the staging claim.
func (j *job) smallDisk(t *testing.T, size int) {
	t.Helper()
	if err := syscall.Mount("tmpfs", j.staging, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("the test mounts a small disk, and so must run as root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(j.staging, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	j.task.StagingSizeBytes = int64(size)
}

func TestStagingIsFull(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, large)
	for _, algorithm := range []string{"Zstd", "Gzip", "None"} {
		t.Run(algorithm, func(t *testing.T) {
			j := f.job(db)
			j.task.Compression.Algorithm = algorithm
			j.smallDisk(t, 4<<20)
			j.mustFail(contract.VerbDump, contract.ReasonStagingFull, false, "4.0 MiB", "spec.staging.size to ", "Mi or more")
			if left := j.staged(); left != "" {
				t.Errorf("left on staging: %s", left)
			}
		})
	}
	j := f.job(db)
	j.smallDisk(t, 64<<10)
	j.mustFail(contract.VerbDump, contract.ReasonStagingFull, false, "0 bytes were written", "spec.staging.size to ")
	if strings.Contains(f.logText(), `"step":"dump"`) && j.staged() != "" {
		t.Error("a hopeless dump was tried")
	}
}

func TestDumpUnderWriteLoad(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE accounts AS SELECT i AS id, 1000 AS balance FROM generate_series(1, 20000) i`,
		`ALTER TABLE accounts ADD PRIMARY KEY (id)`, `CREATE TABLE log (amount int)`, large)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	conn := f.pg.Conn(t, db)
	moves := 0
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, err := conn.Exec(context.Background(), fmt.Sprintf(`WITH moved AS (UPDATE accounts SET balance = balance + CASE id WHEN %d THEN -5 ELSE 5 END
				WHERE id IN (%d, %d)) INSERT INTO log VALUES (5)`, i%20000+1, i%20000+1, (i+7)%20000+1))
			if err != nil {
				stopped <- err
				return
			}
			moves++
		}
		stopped <- nil
	}()
	key := f.backup(db)
	stop()
	if err := <-stopped; err != nil || moves == 0 {
		t.Fatalf("the writer stopped after %d writes: %v", moves, err)
	}
	other := pgtest.Name(t)
	t.Cleanup(func() { f.pg.Drop(t, other) })
	f.restore(key, other)
	if got := f.pg.Query(t, other, `SELECT sum(balance), count(*) FROM accounts`); got != "20000000|20000" {
		t.Errorf("the dump is not of one moment: %s", got)
	}
}

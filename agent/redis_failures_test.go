package agent_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
)

// saving waits until the server makes a snapshot, which its own setting makes slow.
func (f *redisFixture) saving() {
	f.t.Helper()
	eventually(f.t, "a snapshot is being sent", func() bool {
		return strings.Contains(f.db.Do(f.t, 0, "INFO", "persistence"), "rdb_bgsave_in_progress:1")
	})
}

func TestRedisIsKilledDuringTheDump(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "appendonly yes")
	f.db.Do(t, 0, "EVAL", "for i = 1, 10000 do redis.call('SET', 'k' .. i, redis.sha1hex(i)) end", 0)
	f.db.Do(t, 0, "CONFIG", "SET", "rdb-key-save-delay", 10000)
	j := f.job("0")
	done := j.start(t.Context(), contract.VerbDump)
	f.saving()
	f.db.Kill()
	checkFailure(t, <-done, contract.ReasonDumpIncomplete, true, "before its snapshot was whole")
	if left := j.staged(); left != "" {
		t.Errorf("left on staging: %s", left)
	}
	if err := f.db.Restart(); err != nil {
		t.Fatal(err)
	}
	j.must(contract.VerbDump)

	f.db.Do(t, 0, "CONFIG", "SET", "rdb-key-save-delay", 10000)
	k := f.job("0")
	ctx, cancel := context.WithCancelCause(t.Context())
	done = k.start(ctx, contract.VerbDump)
	f.saving()
	cancel(agent.ErrTerminated)
	checkFailure(t, <-done, contract.ReasonTerminated, true)
}

// A restore that is ended anywhere in its middle leaves the database as it was, and what it loaded to the next run.
func TestRedisRestoreThatIsEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *redisFixture, cancel context.CancelCauseFunc){
		"server killed": func(f *redisFixture, _ context.CancelCauseFunc) { f.db.Kill() },
		"terminated":    func(_ *redisFixture, cancel context.CancelCauseFunc) { cancel(agent.ErrTerminated) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRedisFixture(t, "appendonly yes")
			f.db.Fill(t, 0, 200000)
			want := f.db.Digest(t)
			key := f.backup("0")
			f.db.Do(t, 0, "FLUSHDB")
			f.db.Do(t, 0, "SET", "k", "new")
			r := f.restoreJob(key)
			r.fetch()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := r.start(ctx, contract.VerbLoad)
			eventually(t, "keys in the spare database", func() bool { return f.db.Do(t, 15, "DBSIZE") > "1" })
			end(f, cancel)
			if result := <-done; result.Failure == nil || !result.Failure.Retryable {
				t.Fatalf("%+v", result)
			}
			if name == "server killed" {
				if err := f.db.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.db.Do(t, 0, "GET", "k") + f.db.Do(t, 0, "DBSIZE"); got != "new1" {
				t.Errorf("the database holds %s", got)
			}
			r.must(contract.VerbLoad)
			if f.db.Digest(t) != want {
				t.Errorf("restored: %s", f.db.Keys(t))
			}
		})
	}
}

// A run that ended right behind the swap, before it could note that down, is not done again: what was written since would be lost.
func TestRedisRestoreThatEndedBehindTheSwap(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"databases 16", "databases 1"} {
		f := newRedisFixture(t, config)
		f.db.Do(t, 0, "SET", "k", "old")
		key := f.backup("0")
		f.db.Do(t, 0, "SET", "k", "new")
		r := f.restoreJob(key)
		r.fetch()
		inTheWay := filepath.Join(r.staging, "loaded.json", "x")
		if err := os.MkdirAll(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, true, "could not be noted down")
		if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
			t.Fatal(err)
		}
		f.db.Do(t, 0, "SET", "k", "newest")
		r.must(contract.VerbLoad)
		if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "newest db0=1" {
			t.Errorf("%s: %s", config, got)
		}
	}
}

// rdbFile is a file with these records and a right checksum.
func rdbFile(records string) string {
	raw := []byte("REDIS0012" + records + "\xff")
	sum := ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), raw)
	return string(binary.LittleEndian.AppendUint64(raw, sum))
}

// What cannot be restored is told before anything is written.
func TestRedisFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "k", "kept")
	good := rdbFile("\xfe\x00\x00\x01k\x03old")
	for title, c := range map[string]struct {
		file, reason string
		verb         contract.Verb
		words        []string
	}{
		"cut":             {good[:len(good)-9], contract.ReasonArtifactCorrupt, contract.VerbFetch, []string{"cut"}},
		"a bit flipped":   {strings.Replace(good, "old", "ole", 1), contract.ReasonArtifactCorrupt, contract.VerbFetch, []string{"checksum"}},
		"more behind it":  {good + "x", contract.ReasonArtifactCorrupt, contract.VerbFetch, []string{"behind the end"}},
		"no RDB file":     {"-- a script\nSELECT 1;\n", contract.ReasonFormatNotRecognised, contract.VerbInspect, []string{"RDB file"}},
		"of a new server": {rdbFile("\xfe\x00\x18\x04hash12345678\x01\x00\x01f\x01v"), contract.ReasonServerNotSupported, contract.VerbLoad, []string{`"hash"`, "was not touched"}},
		"a module's":      {rdbFile("\xfe\x00\x07\x03mod\x05\x00"), contract.ReasonRestoreToolFailed, contract.VerbLoad, []string{`"mod"`, "module", "was not touched"}},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			f.minio.Put(t, f.bucket, title, c.file)
			r := f.restoreJob(title, "0")
			if c.verb == contract.VerbLoad {
				r.fetch()
			}
			if c.verb == contract.VerbFetch {
				found := r.must(contract.VerbInspect).Source
				r.task.Engine, r.task.Expect = engine.Redis, &contract.Source{SizeBytes: found.SizeBytes}
			}
			r.mustFail(c.verb, c.reason, false, c.words...)
			if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "kept db0=1" {
				t.Errorf("the server holds %s", got)
			}
		})
	}
}

// A file of a newer format is taken where the server knows all that is in it.
func TestRedisFileOfANewerFormat(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.minio.Put(t, f.bucket, "new", rdbFile("\xfe\x00\x00\x01k\x03old"))
	f.restore("new", "0")
	if got := f.db.Do(t, 0, "GET", "k"); got != "old" {
		t.Errorf("restored: %s", got)
	}
}

func TestRedisWithoutRoom(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "EVAL", "for i = 1, 20000 do redis.call('SET', 'k' .. i, string.rep(redis.sha1hex(i), 25)) end", 0)
	want := f.db.Content(t, 0)
	key := f.backup("0")
	var used int64
	for line := range strings.Lines(f.db.Do(t, 0, "INFO", "memory")) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
	}
	load := func(policy string, most int64) *job {
		f.db.Do(t, 0, "CONFIG", "SET", "maxmemory-policy", policy)
		f.db.Do(t, 0, "CONFIG", "SET", "maxmemory", most)
		r := f.restoreJob(key)
		r.fetch()
		return r
	}
	load("noeviction", used+1<<20).mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "raise maxmemory", "FLUSHDB", "was not touched")
	load("noeviction", used+10<<20).mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "maxmemory", "was not touched")
	f.db.Do(t, 0, "CONFIG", "SET", "maxmemory", 0)
	if got := f.db.Content(t, 0); got != want || strings.Contains(f.db.Keys(t), " ") {
		t.Errorf("failed restores left %s", f.db.Keys(t))
	}
	load("allkeys-random", used+10<<20).mustFail(contract.VerbLoad, contract.ReasonRestoreIncomplete, false, "maxmemory", "was not touched")
}

func TestRedisThatNobodySaved(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "k", "old")
	key := f.backup("0")
	f.db.Do(t, 0, "SET", "k", "new")
	r := f.restoreJob(key)
	r.fetch()
	r.task.Restore.SavedOnly = true
	r.mustFail(contract.VerbLoad, contract.ReasonTargetNotSaved, false, "database 0", "was not touched")
	if got := f.db.Do(t, 0, "GET", "k"); got != "new" {
		t.Errorf("the database says %q", got)
	}
	r.task.Restore.Saved = []string{"0"}
	r.must(contract.VerbLoad)
	if got := f.db.Do(t, 0, "GET", "k"); got != "old" {
		t.Errorf("restored: %q", got)
	}
}

// A library that the server has in another form is in no safety backup, so it stays and the note says so.
func TestRedisFunctionsStay(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	library := "#!lua name=lib\nredis.register_function('answer', function() return %d end)"
	f.db.Do(t, 0, "FUNCTION", "LOAD", fmt.Sprintf(library, 42))
	f.db.Do(t, 0, "SET", "k", "v")
	key := f.backup()
	restored := func() string {
		r := f.restoreJob(key)
		r.fetch()
		return r.must(contract.VerbLoad).Note
	}
	if note := restored(); note != "" {
		t.Errorf("the same library: %q", note)
	}
	f.db.Do(t, 0, "FUNCTION", "LOAD", "REPLACE", fmt.Sprintf(library, 43))
	if note := restored(); !strings.Contains(note, "name=lib") || f.db.Do(t, 0, "FCALL", "answer", 0) != "43" {
		t.Errorf("another library: %q", note)
	}
}

package agent_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
)

// Where a database has to be loaded in place, what can be told beforehand still leaves it as it was, without a mark.
func TestRedisInPlaceRefused(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "databases 1")
	f.db.Do(t, 0, "SET", "k", "kept")
	f.minio.Put(t, f.bucket, "new", rdbFile("\xfe\x00\x18\x04hash12345678\x01\x00\x01f\x01v"))
	r := f.restoreJob("new", "0")
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonServerNotSupported, false, `"hash"`, "was not touched")
	if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "kept db0=1" {
		t.Errorf("the server holds %s", got)
	}
}

// A load in place that is ended leaves a database half restored, and says so until a later run is through.
func TestRedisInPlaceEnded(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "databases 1", "appendonly yes")
	f.db.Fill(t, 0, 200000)
	want := f.db.Digest(t)
	key := f.backup("0")
	f.db.Do(t, 0, "FLUSHDB")
	f.db.Do(t, 0, "SET", "surplus", "1")
	r := f.restoreJob(key)
	r.fetch()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := r.start(ctx, contract.VerbLoad)
	eventually(t, "keys in the database", func() bool { return f.db.Do(t, 0, "DBSIZE") > "2" })
	cancel(agent.ErrTerminated)
	if result := <-done; result.Failure == nil || !result.Failure.Retryable {
		t.Fatalf("%+v", result)
	}
	f.db.Do(t, 0, "CONFIG", "SET", "maxmemory", 1<<20)
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "raise maxmemory", "is half restored", "status.url")
	f.db.Do(t, 0, "CONFIG", "SET", "maxmemory", 0)
	r.must(contract.VerbLoad)
	if f.db.Digest(t) != want {
		t.Errorf("restored: %s", f.db.Keys(t))
	}
}

// Restores at the same time take spare databases of their own, or one of them gives way and is tried again.
func TestRedisRestoresAtOnce(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "databases 8")
	const count = 4
	var jobs []*job
	for database := range count {
		f.db.Do(t, database, "SET", "k", database)
		key := f.backup(itoa(database))
		f.db.Do(t, database, "SET", "k", "new")
		r := f.restoreJob(key)
		r.fetch()
		jobs = append(jobs, r)
	}
	var running []<-chan contract.Result
	for _, r := range jobs {
		running = append(running, r.start(t.Context(), contract.VerbLoad))
	}
	for i, done := range running {
		if result := <-done; result.Failure != nil {
			if !result.Failure.Retryable {
				t.Fatalf("%+v", *result.Failure)
			}
			jobs[i].must(contract.VerbLoad)
		}
	}
	for database := range count {
		if got := f.db.Do(t, database, "GET", "k"); got != itoa(database) {
			t.Errorf("database %d says %s", database, got)
		}
	}
	if got := f.db.Keys(t); got != "db0=1 db1=1 db2=1 db3=1" {
		t.Errorf("the server holds %s", got)
	}
}

// The mark of a restore that ran when a dump was made is no content, and one that somebody left in a database stops no other for good.
func TestRedisMarksOfOthers(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.minio.Put(t, f.bucket, "marked", rdbFile("\xfe\x00\x00\x10holdfast:restore\x09loading x\x00\x01k\x03old"))
	f.restore("marked", "0")
	if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "old db0=1" {
		t.Errorf("the server holds %s", got)
	}
	f.db.Do(t, 15, "SET", "holdfast:restore", "loading another") // the next number is taken
	f.restore("marked", "0")
	if got := f.db.Keys(t); got != "db0=1 db15=1" {
		t.Errorf("the server holds %s", got)
	}
	r := f.restoreJob("marked", "15")
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonSwapFailed, true, "another restore", "FLUSHDB", "was not touched")
	f.db.Do(t, 15, "FLUSHDB")
	r.must(contract.VerbLoad)
	if got := f.db.Keys(t); got != "db0=1 db15=1" {
		t.Errorf("the server holds %s", got)
	}
}

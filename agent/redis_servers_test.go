package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

func TestRedisServersThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "k", "v")
	key := f.backup("0")
	replica := newRedisFixture(t, fmt.Sprintf("replicaof %s %d", f.db.Host, f.db.Port), "masteruser default", "masterauth "+quotedForRedis(redistest.Password))
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(replica.db.Do(t, 0, "INFO", "replication"), "master_link_status:up")
	})
	replica.backup("0") // a replica may be dumped, and not restored into
	replica.bucket, replica.store = f.bucket, f.store
	replica.restoreJob(key).mustFail(contract.VerbInspect, contract.ReasonServerNotSupported, false, "is a replica of 127.0.0.1", "spec.database.host")

	cluster := newRedisFixture(t, "cluster-enabled yes")
	cluster.job("0").mustFail(contract.VerbDump, contract.ReasonServerNotSupported, false, "cluster")

	sentinel := newRedisFixtureOn(t, redistest.StartSentinel(t))
	sentinel.job("0").mustFail(contract.VerbDump, contract.ReasonServerNotSupported, false, "is a Sentinel", "spec.database.host")
}

// A server that takes no writes for now leaves everything as it was, and the restore is tried again.
func TestRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	for word, c := range map[string]struct{ refuse, allow func(f *redisFixture) }{
		"NOREPLICAS": {
			func(f *redisFixture) { f.db.Do(f.t, 0, "CONFIG", "SET", "min-replicas-to-write", 1) },
			func(f *redisFixture) { f.db.Do(f.t, 0, "CONFIG", "SET", "min-replicas-to-write", 0) },
		},
		"MISCONF": {(*redisFixture).failToSave, func(f *redisFixture) { f.db.Do(f.t, 0, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }},
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			f := newRedisFixture(t)
			f.db.Do(t, 0, "SET", "k", "old")
			key := f.backup("0")
			f.db.Do(t, 0, "SET", "k", "new")
			r := f.restoreJob(key)
			r.fetch()
			c.refuse(f)
			f.job("0").must(contract.VerbDump) // when it is needed most
			r.mustFail(contract.VerbLoad, contract.ReasonServerUnreachable, true, word, "was not touched")
			if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "new db0=1" {
				t.Errorf("the server holds %s", got)
			}
			c.allow(f)
			r.must(contract.VerbLoad)
			if got := f.db.Do(t, 0, "GET", "k"); got != "old" {
				t.Errorf("restored: %s", got)
			}
		})
	}
}

// failToSave puts something in the way of the server's own snapshot, whereupon it takes no writes.
func (f *redisFixture) failToSave() {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.db.Dir(), "dump.rdb", "x"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	f.db.Do(f.t, 0, "CONFIG", "SET", "save", "3600 1")
	says := func(word string) func() bool {
		return func() bool { return strings.Contains(f.db.Do(f.t, 0, "INFO", "persistence"), word) }
	}
	eventually(f.t, "no snapshot is made", says("rdb_bgsave_in_progress:0"))
	f.db.Do(f.t, 0, "BGSAVE")
	eventually(f.t, "the server's snapshot failed", says("rdb_last_bgsave_status:err"))
}

func quotedForRedis(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&out, "\\x%02x", c)
	}
	return `"` + out.String() + `"`
}

// An empty database may be what somebody wants to keep, or all that a restart left.
func TestRedisEmptyDatabaseIsSaid(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	if got := f.job().must(contract.VerbDump).Note; got != "no key is in database 0" {
		t.Errorf("an empty server: %q", got)
	}
	f.db.Do(t, 3, "SET", "k", "v")
	if got := f.job("0", "3", "10").must(contract.VerbDump).Note; got != "no key is in database 0, 10" {
		t.Errorf("two empty databases: %q", got)
	}
	if got := f.job("3").must(contract.VerbDump).Note; got != "" {
		t.Errorf("none is empty: %q", got)
	}
	key := f.backup("0")
	f.db.Do(t, 0, "SET", "k", "v")
	f.restore(key)
	if got := f.db.Keys(t); got != "db3=1" {
		t.Errorf("an empty database was restored: %s", got)
	}
}

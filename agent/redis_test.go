package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

// redisFixture is a fixture with a Redis server of its own: its databases are numbers, so tests cannot share one.
type redisFixture struct {
	*fixture
	db *redistest.Server
}

func newRedisFixture(t *testing.T, config ...string) *redisFixture {
	t.Helper()
	return newRedisFixtureOn(t, redistest.Start(t, config...))
}

func newRedisFixtureOn(t *testing.T, s *redistest.Server) *redisFixture {
	t.Helper()
	return &redisFixture{newFixtureFor(t, engine.Redis, s.Host, s.Port, credentials(t, redistest.Superuser, redistest.Password)), s}
}

// redisEverything is one of each type, in each of the shapes that a server keeps small and large ones in.
const redisEverything = `
local call = redis.call
call('SET', 'string', 'caf\195\169 \0\255\r\n "quoted"')
call('SET', 'awkward \0\255\r\n key {} *', 'value')
call('SET', '', 'an empty name')
for _, n in ipairs({'0', '-1', '127', '300', '-70000', '2147483647', '9223372036854775807'}) do call('SET', 'n' .. n, n); call('SET', n, 'n') end
call('SET', 'long', string.rep('compressible ', 2000))
call('RPUSH', 'small list', 'a', '', '\0', '12345')
for i = 1, 3000 do call('RPUSH', 'list', 'element ' .. i) end
call('RPUSH', 'list of large', string.rep('x', 20000), string.rep('y', 20000))
call('SADD', 'integers', 1, -5, 300, 70000, '9223372036854775807')
call('SADD', 'small set', 'a', 'b', '')
for i = 1, 1000 do call('SADD', 'set', 'member ' .. i) end
call('HSET', 'small hash', 'a', 1, '', '')
for i = 1, 1000 do call('HSET', 'hash', 'field ' .. i, string.rep('v', i)) end
call('ZADD', 'small scores', '1.5', 'one', '-inf', 'least', 'inf', 'most', '3e100', 'much')
for i = 1, 1000 do call('ZADD', 'ranking', i / 7, 'member ' .. i) end
for i = 1, 500 do call('XADD', 'stream', i .. '-1', 'field', 'value ' .. i) end
call('XGROUP', 'CREATE', 'stream', 'readers', '0')
call('XREADGROUP', 'GROUP', 'readers', 'alice', 'COUNT', 7, 'STREAMS', 'stream', '>')
call('XACK', 'stream', 'readers', '1-1', '2-1')
call('XDEL', 'stream', '100-1')
call('XGROUP', 'CREATE', 'empty stream', 'readers', '$', 'MKSTREAM')
call('PFADD', 'visitors', 'a', 'b', 'c')
call('SETBIT', 'bits', 1000, 1)
call('GEOADD', 'cities', 2.35, 48.85, 'Paris', 13.4, 52.5, 'Berlin')
call('SET', 'expiring', 'late')
call('EXPIREAT', 'expiring', 4102444800)
`

func (f *redisFixture) furnish(database int) {
	f.t.Helper()
	f.db.Do(f.t, database, "EVAL", redisEverything, 0)
}

func TestRedisEverythingComesBack(t *testing.T) {
	t.Parallel()
	for _, compression := range []contract.Compression{{Algorithm: "Zstd", Level: 3}, {Algorithm: "Gzip", Level: 6}, {Algorithm: "None"}} {
		for _, appendOnly := range []string{"yes", "no"} {
			t.Run(compression.Algorithm+" appendonly "+appendOnly, func(t *testing.T) {
				t.Parallel()
				f := newRedisFixture(t, "appendonly "+appendOnly)
				f.furnish(0)
				f.db.Do(t, 1, "SET", "other", "untouched")
				want := f.db.Content(t, 0)
				j := f.job("0")
				j.task.Compression = &compression
				key := j.backup()
				f.db.Do(t, 0, "DEL", "stream", "hash", "string")
				f.db.Do(t, 0, "PERSIST", "expiring")
				f.db.Do(t, 0, "SET", "surplus", "1")
				if f.db.Content(t, 0) == want {
					t.Fatal("the damage does not show")
				}
				f.restore(key)
				if got := f.db.Content(t, 0); got != want {
					t.Errorf("restored:\n%s\nwant:\n%s", got, want)
				}
				if got := f.db.Keys(t); got != fmt.Sprintf("db0=%d db1=1", strings.Count(want, "\n")+1) {
					t.Errorf("the server holds %s", got)
				}
				f.db.Kill()
				if err := f.db.Restart(); err != nil {
					t.Fatal(err)
				}
				if got := f.db.Content(t, 0); appendOnly == "yes" && got != want {
					t.Errorf("after a crash:\n%s\nwant:\n%s", got, want)
				}
			})
		}
	}
}

// An artifact holds what was asked for and nothing else, each database can be restored alone, and one under another number.
func TestRedisDatabases(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.furnish(3)
	f.db.Do(t, 0, "SET", "k", "zero")
	f.db.Do(t, 10, "SET", "k", "ten")
	f.db.Do(t, 0, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('answer', function() return 42 end)")
	all, three, pair := f.backup(), f.backup("3"), f.backup("0", "10")
	want := f.db.Content(t, 3)
	f.db.Do(t, 0, "FLUSHALL")
	f.db.Do(t, 0, "FUNCTION", "FLUSH")

	f.restore(three, "7")
	if got := f.db.Content(t, 7); got != want || strings.Contains(f.db.Keys(t), " ") {
		t.Errorf("under another number: %s: %s", f.db.Keys(t), got)
	}
	f.db.Do(t, 0, "FLUSHALL")
	f.restore(pair, "10")
	if got := f.db.Keys(t) + f.db.Do(t, 10, "GET", "k"); got != "db10=1ten" {
		t.Errorf("one of several: %s", got)
	}
	f.restoreJob(pair, "3").mustFail(contract.VerbInspect, contract.ReasonDatabaseNotFound, false, `"3"`, `"0"`)
	f.db.Do(t, 12, "SET", "bystander", "1")
	inspected := f.restoreJob(all).must(contract.VerbInspect)
	if got := strings.Join(inspected.Target.Databases, ",") + " " + strings.Join(inspected.Target.Existing, ","); got != "0,3,10 10" {
		t.Errorf("inspected: %s", got)
	}
	f.restore(all)
	if got := f.db.Keys(t); got != fmt.Sprintf("db0=1 db3=%d db10=1 db12=1", strings.Count(want, "\n")+1) || f.db.Content(t, 3) != want {
		t.Errorf("the whole server: %s", got)
	}
	if got := f.db.Do(t, 0, "FCALL", "answer", 0); got != "42" {
		t.Errorf("the function says %s", got)
	}
}

// Without a spare number a database is loaded in place.
func TestRedisWithOneDatabase(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "databases 1")
	f.furnish(0)
	want := f.db.Content(t, 0)
	key := f.backup()
	f.db.Do(t, 0, "DEL", "stream")
	f.db.Do(t, 0, "SET", "surplus", "1")
	f.restore(key)
	if got := f.db.Content(t, 0); got != want {
		t.Errorf("restored:\n%s\nwant:\n%s", got, want)
	}
}

// Values larger than what is kept in memory are sent as they are read.
func TestRedisLargeValues(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "EVAL", "for i = 1, 40000 do redis.call('HSET', 'hash', 'field ' .. i, redis.sha1hex(i)) end redis.call('EXPIREAT', 'hash', 4102444800)", 0)
	random := make([]byte, 40<<20)
	for i, seed := 0, uint64(1); i < len(random); i++ { // a generator of Marsaglia's, so that it does not compress
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		random[i] = byte(seed)
	}
	f.db.Do(t, 0, "SET", "string", random)
	f.db.Do(t, 0, "SET", "behind", "it")
	want := f.db.Digest(t)
	key := f.backup("0")
	f.db.Do(t, 0, "FLUSHDB")
	f.restore(key)
	if got := f.db.Digest(t); got != want {
		t.Errorf("restored: %s", f.db.Keys(t))
	}
}

// A snapshot is of one moment, whatever is written meanwhile.
func TestRedisUnderWriteLoad(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t, "repl-diskless-sync-delay 2") // as servers do by default, it lets the client wait at first
	f.db.Do(t, 0, "EVAL", "for i = 1, 50000 do redis.call('SET', 'k' .. i, string.rep(redis.sha1hex(i), 20)) end", 0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	client := f.db.Client(t, 0)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = client.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "counter:a"); p.Incr(ctx, "counter:b"); return nil })
		}
	}()
	for f.db.Do(t, 0, "EXISTS", "counter:b") == "0" { // each question waits for an answer
	}
	key := f.backup("0")
	atEnd := f.db.Do(t, 0, "GET", "counter:a")
	cancel()
	<-done
	f.restore(key, "1")
	a, b := f.db.Do(t, 1, "GET", "counter:a"), f.db.Do(t, 1, "GET", "counter:b")
	if a != b || a == atEnd || a == "<nil>" {
		t.Errorf("the copy has %s and %s, the server had %s when the backup was whole", a, b, atEnd)
	}
}

// Keys whose time has passed since the backup stay away, and the others keep theirs.
func TestRedisKeysThatExpired(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "short", "v", "PX", 1500)
	f.db.Do(t, 0, "SET", "forever", "v")
	f.db.Do(t, 0, "SET", "stays", "v", "PXAT", 4102444800123)
	key := f.backup("0")
	for f.db.Do(t, 0, "EXISTS", "short") == "1" { // the server itself says when
	}
	r := f.restoreJob(key)
	r.fetch()
	note := r.must(contract.VerbLoad).Note
	if got := f.db.Keys(t) + " " + f.db.Do(t, 0, "PEXPIRETIME", "stays"); got != "db0=2 4102444800123" {
		t.Errorf("restored: %s", got)
	}
	if !strings.Contains(note, "1 keys of database 0 had a time to live that has passed") {
		t.Errorf("the note says %q", note)
	}
}

// A file that somebody else made, bare or packed, is restored as what it holds.
func TestRedisForeignFiles(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.furnish(4)
	want := f.db.Content(t, 4)
	f.db.Do(t, 0, "SAVE")
	raw, err := os.ReadFile(filepath.Join(f.db.Dir(), "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"", ".gz", ".zst"} {
		key := "dump.rdb" + how
		f.minio.Put(t, f.bucket, key, string(compressed(t, how, raw)))
		f.restore(key, "1") // the only database of a file may get any number
		if got := f.db.Content(t, 1); got != want {
			t.Errorf("%s: restored:\n%s\nwant:\n%s", key, got, want)
		}
		f.restoreJob(key).mustFail(contract.VerbInspect, contract.ReasonInvalidTask, false, "spec.database.names")
	}
	f.db.Do(t, 0, "SAVE")
	if raw, err = os.ReadFile(filepath.Join(f.db.Dir(), "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	const several = "several"
	f.minio.Put(t, f.bucket, several, string(raw))
	f.db.Do(t, 0, "FLUSHALL")
	f.restore(several, "4")
	if got := f.db.Content(t, 4); got != want || strings.Contains(f.db.Keys(t), " ") {
		t.Errorf("one of several: %s", f.db.Keys(t))
	}
	r := f.restoreJob(several, "9")
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonDatabaseNotFound, false, "9", "was not touched")
}

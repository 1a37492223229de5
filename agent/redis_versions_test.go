package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

// fieldsThatExpire makes a small hash and a large one, which are written in different forms, of which some fields have a time to live.
const fieldsThatExpire = `
redis.call('HSET', 'small', 'a', 1, 'b', 2)
redis.call('HPEXPIREAT', 'small', 4102444800000, 'FIELDS', 1, 'a')
for i = 1, 1000 do redis.call('HSET', 'large', 'f' .. i, i) end
redis.call('HPEXPIREAT', 'large', 4102444800123, 'FIELDS', 2, 'f1', 'f2')
redis.call('HPEXPIREAT', 'large', 4102444800999, 'FIELDS', 1, 'f3')
`

func (f *redisFixture) fieldTimes() string {
	f.t.Helper()
	return f.db.Do(f.t, 0, "HPEXPIRETIME", "small", "FIELDS", 2, "a", "b") + f.db.Do(f.t, 0, "HPEXPIRETIME", "large", "FIELDS", 4, "f1", "f2", "f3", "f4")
}

func TestRedisNewerServers(t *testing.T) {
	t.Parallel()
	for server, version := range map[string]string{redistest.Redis8: "8.0.", redistest.Valkey8: "8.1.", redistest.Valkey9: "9."} {
		for _, diskless := range []string{"yes", "no"} {
			t.Run(server+" diskless "+diskless, func(t *testing.T) {
				t.Parallel()
				f := newRedisFixtureOn(t, redistest.StartNewer(t, server, "repl-diskless-sync "+diskless))
				f.furnish(0)
				f.db.Do(t, 0, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('answer', function() return 42 end)")
				if server != redistest.Valkey8 {
					f.db.Do(t, 0, "EVAL", fieldsThatExpire, 0)
				}
				want := f.db.Content(t, 0)
				times := ""
				if server != redistest.Valkey8 {
					times = f.fieldTimes()
				}
				j := f.job()
				if got := j.must(contract.VerbDump).Artifact.ServerVersion; !strings.HasPrefix(got, version) {
					t.Errorf("the server is of version %s", got)
				}
				key := j.backup()
				f.db.Do(t, 0, "FLUSHALL")
				f.db.Do(t, 0, "FUNCTION", "FLUSH")
				f.db.Do(t, 0, "SET", "surplus", "1")
				f.restore(key)
				if got := f.db.Content(t, 0); got != want {
					t.Errorf("restored:\n%s\nwant:\n%s", got, want)
				}
				if server != redistest.Valkey8 {
					if got := f.fieldTimes(); got != times || !strings.Contains(got, "4102444800123") {
						t.Errorf("the fields go at %s, want %s", got, times)
					}
				}
				if got := f.db.Do(t, 0, "FCALL", "answer", 0); got != "42" {
					t.Errorf("the function says %s", got)
				}
			})
		}
	}
}

// Whatever all brands and versions know moves between them, in both directions.
func TestRedisBetweenServers(t *testing.T) {
	t.Parallel()
	servers := map[string]*redisFixture{"redis 7": newRedisFixture(t)}
	for _, server := range []string{redistest.Redis8, redistest.Valkey8, redistest.Valkey9} {
		servers[server] = newRedisFixtureOn(t, redistest.StartNewer(t, server))
	}
	contents := []string{
		"redis.call('SET', 'string', 'v') redis.call('EXPIREAT', 'string', 4102444800)",
		"for i = 1, 1000 do redis.call('HSET', 'hash', 'f' .. i, i) redis.call('ZADD', 'ranking', i, i) redis.call('RPUSH', 'list', i) redis.call('SADD', 'set', 'm' .. i) end",
	}
	for from, source := range servers {
		for _, content := range contents {
			source.db.Do(t, 0, "EVAL", content, 0)
		}
		want := source.db.Content(t, 0)
		key := source.backup("0")
		for to, target := range servers {
			target.bucket, target.store = source.bucket, source.store
			target.restore(key, "3")
			if got := target.db.Content(t, 3); got != want {
				t.Errorf("from %s to %s:\n%s\nwant:\n%s", from, to, got, want)
			}
		}
	}
}

// A value of a form that the target lacks is told before anything is written.
func TestRedisOlderTarget(t *testing.T) {
	t.Parallel()
	targets := map[string]*redisFixture{"redis 7": newRedisFixture(t)}
	for _, server := range []string{redistest.Redis8, redistest.Valkey8, redistest.Valkey9} {
		targets[server] = newRedisFixtureOn(t, redistest.StartNewer(t, server))
	}
	for _, server := range []string{redistest.Redis8, redistest.Valkey9} {
		source := targets[server]
		source.db.Do(t, 0, "EVAL", fieldsThatExpire, 0)
		key := source.backup("0")
		for name, target := range targets {
			if name == server {
				continue
			}
			target.bucket, target.store = source.bucket, source.store
			target.db.Do(t, 5, "SET", "k", "kept")
			r := target.restoreJob(key, "5")
			r.fetch()
			r.mustFail(contract.VerbLoad, contract.ReasonServerNotSupported, false, "was not touched", "of a newer server or of")
			if got := target.db.Do(t, 5, "GET", "k") + target.db.Do(t, 5, "DBSIZE"); got != "kept1" {
				t.Errorf("from %s to %s: database 5 holds %s", server, name, got)
			}
		}
	}
}

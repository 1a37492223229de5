package agent_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

func TestRedisThatLetsNobodyIn(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	web, err := url.Parse(f.minio.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	webPort, err := strconv.Atoi(web.Port())
	if err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct {
		change    func(j *job)
		reason    string
		retryable bool
		words     []string
	}{
		"wrong password":  {func(j *job) { j.use(credentials(t, "default", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{`"default"`, "credentialsSecretRef"}},
		"unknown user":    {func(j *job) { j.use(credentials(t, "nobody here", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{"nobody here"}},
		"absent database": {func(j *job) { j.task.Database.Databases = []string{"0", "16"} }, contract.ReasonDatabaseNotFound, false, []string{"16", "spec.database.names"}},
		"nothing listens": {func(j *job) { j.task.Database.Port = 1 }, contract.ReasonServerUnreachable, true, []string{"127.0.0.1:1", "network policies"}},
		"no such host":    {func(j *job) { j.task.Database.Host = "db.invalid" }, contract.ReasonServerUnreachable, true, []string{"db.invalid"}},
		"another server": {func(j *job) {
			j.task.Database.Host, j.task.Database.Port, j.task.Database.TLSMode = web.Hostname(), webPort, engine.TLSRequire
		}, contract.ReasonServerNotSupported, false,
			[]string{"does not speak Redis", "spec.database.engine"}},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			j := f.job("0")
			c.change(j)
			j.mustFail(contract.VerbDump, c.reason, c.retryable, c.words...)
		})
	}
}

// leastDump and leastRestore are what docs/redis.md says that users need.
const (
	leastDump    = "+info +select +replconf +psync"
	leastRestore = "+info +select +get +set +watch +del +dump +restore +dbsize +multi +exec +swapdb +flushdb +acl|dryrun +config|get"
)

func TestRedisRights(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "k", "old")
	rule := func(user, rights string) {
		args := []any{"ACL", "SETUSER", user, "reset", "on", ">weak:pass", "~*", "&*"}
		for right := range strings.FieldsSeq(rights) {
			args = append(args, right)
		}
		f.db.Do(t, 0, args...)
	}
	rule("dumper", leastDump)
	rule("restorer", leastRestore)
	f.secret = credentials(t, "dumper", "weak:pass")
	key := f.backup("0")
	f.db.Do(t, 0, "SET", "k", "new")
	f.secret = credentials(t, "restorer", "weak:pass")
	f.restore(key)
	if got := f.db.Do(t, 0, "GET", "k"); got != "old" {
		t.Errorf("restored: %s", got)
	}
	for _, lacks := range strings.Fields(leastDump)[2:] {
		rule("weak", strings.ReplaceAll(leastDump, lacks, ""))
		j := f.job("0")
		j.use(credentials(t, "weak", "weak:pass"))
		j.mustFail(contract.VerbDump, contract.ReasonPermissionDenied, false, `"weak"`, strings.TrimPrefix(lacks, "+"))
	}
	for _, lacks := range []string{"+set", "+restore", "+swapdb", "+flushdb", "+exec", "+dbsize"} {
		rule("weak", strings.ReplaceAll(leastRestore, lacks+" ", " "))
		r := f.restoreJob(key)
		r.use(credentials(t, "weak", "weak:pass"))
		r.mustFail(contract.VerbInspect, contract.ReasonPermissionDenied, false, `"weak"`, strings.TrimPrefix(lacks, "+"))
	}
}

// A password may hold every byte but NUL, which no file of a Secret that people write holds.
func TestRedisPasswordOfEveryByte(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	f.db.Do(t, 0, "SET", "k", "v")
	var password []byte
	for c := 255; c > 0; c-- {
		password = append(password, byte(c))
	}
	f.db.Do(t, 0, "ACL", "SETUSER", "ödd", "reset", "on", ">"+string(password), "~*", "&*", "+@all")
	j := f.job("0")
	j.use(credentials(t, "ödd", string(password)))
	j.backup()
}

func TestRedisTLSModes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ca := s.EnableTLS(t)
	f := newRedisFixtureOn(t, s)
	s.Do(t, 0, "SET", "k", "v")
	f.checkTLSModes(t, "0", ca)
	j := f.job("0")
	j.mustFail(contract.VerbDump, contract.ReasonServerUnreachable, true, "tls.mode")
}

// A port without TLS takes a greeting for a command and waits for its end.
func TestRedisWithoutTLS(t *testing.T) {
	t.Parallel()
	f := newRedisFixture(t)
	j := f.job("0")
	j.task.Database.TLSMode = engine.TLSRequire
	j.mustFail(contract.VerbDump, contract.ReasonServerCertificate, true, "tls-port", "spec.database.tls.mode")
}

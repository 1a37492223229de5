package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// one makes a database with one document.
func (f *mongoFixture) one(value string) string {
	f.t.Helper()
	name := f.db.Database(f.t)
	f.db.Insert(f.t, name, "orders", bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: value}})
	return name
}

func TestMongoDBThatLetsNobodyIn(t *testing.T) {
	f := newMongoFixture(t)
	name := f.one("x")
	postgres := pgtest.Shared(t, pgtest.DebianVersion)
	for title, c := range map[string]struct {
		change    func(j *job)
		reason    string
		retryable bool
		words     []string
	}{
		"wrong password":   {func(j *job) { j.use(credentials(t, "root", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{`"root"`, "credentialsSecretRef"}},
		"unknown user":     {func(j *job) { j.use(credentials(t, "nobody here", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{"nobody here"}},
		"wrong authSource": {func(j *job) { j.task.Database.AuthSource = "elsewhere" }, contract.ReasonAuthenticationFailed, false, []string{`"elsewhere"`, "authSource"}},
		"absent database":  {func(j *job) { j.task.Database.Databases = []string{"absent"} }, contract.ReasonDatabaseNotFound, false, []string{`"absent"`, "spec.database.names"}},
		"one of two":       {func(j *job) { j.task.Database.Databases = []string{name, "gone"} }, contract.ReasonDatabaseNotFound, false, []string{`"gone"`}},
		"the server's own": {func(j *job) { j.task.Database.Databases = []string{"admin"} }, contract.ReasonDatabaseNotConnectable, false, []string{"admin"}},
		"nothing listens":  {func(j *job) { j.task.Database.Port = 1 }, contract.ReasonServerUnreachable, true, []string{"127.0.0.1:1", "network policies"}},
		"no such host":     {func(j *job) { j.task.Database.Host = "db.invalid" }, contract.ReasonServerUnreachable, true, []string{"db.invalid"}},
		"no TLS there":     {func(j *job) { j.task.Database.TLSMode = engine.TLSRequire }, contract.ReasonServerCertificate, false, []string{"offers no TLS", "tls.mode"}},
		"another's server": {func(j *job) { j.task.Database.Port = postgres.Port }, contract.ReasonServerUnreachable, true, []string{"is MongoDB"}},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			j := f.job(name)
			c.change(j)
			j.mustFail(contract.VerbDump, c.reason, c.retryable, c.words...)
		})
	}
}

// A password may hold every printable character. The protocol prepares it by SASLprep, which allows no control characters.
func TestMongoDBPasswordOfEveryByte(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.one("x")
	var password strings.Builder
	for c := byte(' '); c < 0x7f; c++ {
		password.WriteByte(c)
	}
	password.WriteString("ßü€")
	f.db.Run(t, "admin", bson.D{{Key: "createUser", Value: "odd:@/ user%"}, {Key: "pwd", Value: password.String()}, {Key: "roles", Value: bson.A{}}})
	t.Cleanup(func() { f.db.Run(t, "admin", bson.D{{Key: "dropUser", Value: "odd:@/ user%"}}) })
	f.secret = credentials(t, "odd:@/ user%", password.String())
	f.restore(f.backup(name), name)
	if strings.Contains(f.logText(), password.String()) {
		t.Error("the password stands in the log")
	}
}

func TestMongoDBTLSModes(t *testing.T) {
	t.Parallel()
	s, ca := mongotest.StartTLS(t)
	f := newMongoFixtureOn(t, s)
	s.Insert(t, "d", "c", bson.D{{Key: "_id", Value: 1}})
	f.job("d").mustFail(contract.VerbDump, contract.ReasonServerUnreachable, true, "tls.mode")
	f.checkTLSModes(t, "d", ca)
	f.noLeftovers("d")
}

func TestMongoDBClientThatIsNotThere(t *testing.T) {
	f := newMongoFixture(t)
	name := f.one("x")
	key := f.backup(name)
	t.Setenv("PATH", t.TempDir())
	f.job(name).mustFail(contract.VerbDump, contract.ReasonClientMissing, false, "mongodump", "mongo:8.0", "spec.database.image")
	f.restoreJob(key, name).mustFail(contract.VerbInspect, contract.ReasonClientMissing, false, "mongorestore", "spec.database.image")
	for _, program := range []string{"mongodump", "mongorestore"} {
		script := "#!/bin/sh\necho '" + program + " version: 4.2.8'\n"
		if err := os.WriteFile(filepath.Join(os.Getenv("PATH"), program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.job(name).mustFail(contract.VerbDump, contract.ReasonClientTooOld, false, "4.2.8", "mongo:8.0")
	f.restoreJob(key, name).mustFail(contract.VerbInspect, contract.ReasonClientTooOld, false, "4.2.8")
}

// big fills a database with some megabytes that compress badly.
func (f *mongoFixture) big() string {
	f.t.Helper()
	name := f.db.Database(f.t)
	for _, collection := range []string{"a", "b.c", "z"} {
		var documents []any
		for i := range 6 {
			documents = append(documents, bson.D{{Key: "_id", Value: i}, {Key: "v", Value: strings.Repeat(string(rune('a'+i)), 40_000)}})
		}
		f.db.Insert(f.t, name, collection, documents...)
	}
	return name
}

func TestMongoDBGoesDuringTheDump(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.big()
	proxy := f.db.NewProxy(t)
	f.port = proxy.Port
	for _, after := range []int64{8_000, 400_000} {
		j := f.job(name)
		proxy.BreakAfter(after)
		j.mustFail(contract.VerbDump, contract.ReasonServerUnreachable, true, "cannot be reached")
		if !proxy.Heal(t) {
			t.Errorf("the dump ended before %d bytes", after)
		}
		if got := j.staged(); strings.Contains(got, "artifact ") {
			t.Errorf("staged: %s", got)
		}
		j.must(contract.VerbDump)
	}
}

// The server goes away at any moment of a restore: the same Job's next try puts the database in place, whole.
func TestMongoDBGoesDuringTheRestore(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.big()
	f.db.Run(t, name, bson.D{{Key: "createIndexes", Value: "z"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "v", Value: 1}}}, {Key: "name", Value: "v_1"}}}}})
	key := f.backup(name)
	want := f.db.Content(t, name)
	proxy := f.db.NewProxy(t)
	f.port = proxy.Port
	untouched, halfDone := 0, 0
	for round, after := 0, int64(3_000); ; round, after = round+1, after*2 {
		f.db.Insert(t, name, "surplus", bson.D{{Key: "round", Value: round}})
		f.db.Run(t, name, bson.D{{Key: "delete", Value: "a"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "limit", Value: 0}}}}})
		damaged := f.db.Content(t, name)
		r := f.restoreJob(key, name)
		r.fetch()
		if round == 6 {
			proxy.BreakAfter(after)
		} else {
			proxy.BreakOnceAfter(after)
		}
		result := r.run(contract.VerbLoad)
		reached := proxy.Heal(t)
		if failure := result.Failure; failure != nil {
			if !failure.Retryable || round == 6 && failure.Reason != contract.ReasonServerUnreachable {
				t.Errorf("after %d bytes: %+v", after, *failure)
			}
			if strings.Contains(failure.Message, "was not touched") {
				untouched++
			}
			if strings.Contains(failure.Message, "restored in part") {
				halfDone++
			}
			if strings.Contains(failure.Message, "was not touched") && withoutTemporary(f.db.Content(t, name)) != damaged {
				t.Errorf("after %d bytes: the database was touched: %s", after, failure.Message)
			}
			if strings.Contains(failure.Message, "restored in part") && !strings.Contains(failure.Message, "status.url") {
				t.Errorf("after %d bytes, no way back is told: %s", after, failure.Message)
			}
			r.must(contract.VerbLoad)
		}
		if got := f.db.Content(t, name); got != want {
			t.Fatalf("after %d bytes, restored\n%s\nwant\n%s", after, got, want)
		}
		f.noLeftovers(name)
		if !reached {
			if round < 6 || untouched < 2 {
				t.Errorf("only %d rounds, and %d failures before anything was touched", round, untouched)
			}
			t.Logf("%d failures before anything was touched, %d behind the mark", untouched, halfDone)
			return
		}
	}
}

// withoutTemporary leaves out the collections of a restore that could not be dropped yet.
func withoutTemporary(content string) string {
	var kept []string
	for line := range strings.Lines(content) {
		if !strings.HasPrefix(line, `"holdfast`) {
			kept = append(kept, line)
		}
	}
	return strings.TrimSuffix(strings.Join(kept, ""), "\n")
}

// The agent is killed at any moment of a restore.
func TestMongoDBRestoreIsTerminated(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.big()
	key := f.backup(name)
	want := f.db.Content(t, name)
	proxy := f.db.NewProxy(t)
	f.port = proxy.Port
	terminated := 0
	for _, after := range []int64{4_000, 100_000, 700_000, 725_000, 735_000, 745_000, 760_000} {
		f.db.Insert(t, name, "surplus", bson.D{{Key: "after", Value: after}})
		r := f.restoreJob(key, name)
		r.fetch()
		ctx, cancel := context.WithCancelCause(t.Context())
		proxy.CallAfter(after, func() { cancel(agent.ErrTerminated) })
		result := r.runContext(ctx, contract.VerbLoad)
		cancel(nil)
		proxy.Heal(t)
		if result.Failure != nil {
			checkFailure(t, result, contract.ReasonTerminated, true)
			r.must(contract.VerbLoad)
			terminated++
		}
		if got := f.db.Content(t, name); got != want {
			t.Fatalf("after %d bytes, restored\n%s\nwant\n%s", after, got, want)
		}
		f.noLeftovers(name)
	}
	if terminated < 4 {
		t.Errorf("only %d restores were terminated in their midst", terminated)
	}
	t.Logf("%d restores were terminated", terminated)
}

// A database that came to be after the inspection is not replaced: nothing holds what would be lost.
func TestMongoDBThatNobodySaved(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.one("old")
	key := f.backup(name)
	r := f.restoreJob(key, name)
	r.fetch()
	r.task.Restore.SavedOnly = true
	r.mustFail(contract.VerbLoad, contract.ReasonTargetNotSaved, false, name, "was not touched")
	r.task.Restore.Saved = []string{name}
	r.must(contract.VerbLoad)
	f.noLeftovers(name)
}

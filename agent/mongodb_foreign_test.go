package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
)

// mongodump runs it as anybody would.
func (f *mongoFixture) mongodump(args ...string) []byte {
	f.t.Helper()
	config := filepath.Join(f.t.TempDir(), "config.yaml")
	uri, err := json.Marshal(fmt.Sprintf("mongodb://%s@127.0.0.1:%d/?authSource=admin&directConnection=true", url.UserPassword(mongotest.Superuser, mongotest.Password), f.db.Port))
	if err == nil {
		err = os.WriteFile(config, append([]byte("uri: "), uri...), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := exec.Command("mongodump", append([]string{"--config=" + config, "--archive"}, args...)...).Output()
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// foreign is a restore of an archive that somebody else made.
func (f *mongoFixture) foreign(archive []byte, databases ...string) *job {
	f.t.Helper()
	f.minio.Put(f.t, f.bucket, "foreign.archive", string(archive))
	return f.restoreJob("foreign.archive", databases...)
}

func TestMongoDBForeignDumps(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.db.Database(t)
	want := mongoEverything(t, f.db, name)
	plain := f.mongodump("--db=" + name)
	for title, raw := range map[string][]byte{"plain": plain, "gzip": compressed(t, ".gz", plain), "zstd": compressed(t, ".zst", plain), "--gzip": f.mongodump("--gzip", "--db="+name),
		"users": f.mongodump("--db="+name, "--dumpDbUsersAndRoles"), "one after the other": f.mongodump("--db="+name, "--numParallelCollections=1")} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			f.db.Insert(t, name, "later", bson.D{{Key: "_id", Value: 1}})
			r := f.foreign(raw, name)
			r.fetch()
			r.must(contract.VerbLoad)
			if got := f.db.Content(t, name); got != want {
				t.Errorf("restored:\n%s\nwant:\n%s", got, want)
			}
			f.noLeftovers(name)
		})
	}
}

// An archive that is cut is refused before the database is touched, wherever it is cut.
func TestMongoDBForeignDumpsThatAreCut(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.db.Database(t)
	f.db.Insert(t, name, "orders", bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: strings.Repeat("x", 3000)}})
	plain := f.mongodump("--db=" + name)
	cuts := []int{len(plain) - 1, len(plain) - 4, len(plain) - 5, len(plain) - 80, len(plain) - 200, len(plain) / 2, 600, 100, 8}
	for _, cut := range cuts {
		r := f.foreign(plain[:cut], name)
		result := r.run(contract.VerbInspect)
		if result.Failure != nil {
			checkFailure(t, result, contract.ReasonArtifactCorrupt, false)
			continue
		}
		r.task.Engine, r.task.Expect = f.engine, &contract.Source{SizeBytes: result.Source.SizeBytes}
		r.mustFail(contract.VerbFetch, contract.ReasonArtifactCorrupt, false, "cut", "not touched")
	}
	zipped := compressed(t, ".gz", plain)
	damaged := bytes.Replace(plain, []byte("xxxx"), []byte("xxyx"), 1)
	for title, raw := range map[string][]byte{"cut gzip": zipped[:len(zipped)-9], "damaged": damaged, "longer": append(bytes.Clone(plain), 0)} {
		r := f.foreign(raw, name)
		found := r.must(contract.VerbInspect).Source
		r.task.Engine, r.task.Expect = f.engine, &contract.Source{SizeBytes: found.SizeBytes}
		if result := r.run(contract.VerbFetch); result.Failure == nil || result.Failure.Reason != contract.ReasonArtifactCorrupt {
			t.Errorf("%s: %+v", title, result.Failure)
		}
	}
	f.foreign([]byte("{\"_id\": 1}\n"), name).mustFail(contract.VerbInspect, contract.ReasonFormatNotRecognised, false, "mongodump --archive")
}

// What the server does not take stops the restore before anything is replaced.
func TestMongoDBFailureLeavesTheDatabase(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.one("kept")
	want := f.db.Content(t, name)
	orders := func(c mongotest.Collection) mongotest.Collection {
		c.Database, c.Name = name, "orders"
		if c.Type == "" {
			c.Type = "collection"
		}
		return c
	}
	d := func(id, v any) bson.D { return bson.D{{Key: "_id", Value: id}, {Key: "v", Value: v}} }
	for title, c := range map[string]struct {
		collection mongotest.Collection
		word       string
	}{
		"duplicates under a unique index": {mongotest.Collection{Metadata: `{"indexes":[{"v":2,"key":{"_id":1},"name":"_id_"},{"v":2,"key":{"v":1},"name":"only one","unique":true}]}`,
			Documents: []bson.D{d(1, "same"), d(2, "same")}}, "indexes of collection " + name + ".orders"},
		"the same _id twice":  {mongotest.Collection{Documents: []bson.D{d(1, "a"), d(1, "b")}}, "E11000"},
		"a view":              {mongotest.Collection{Type: "view", Metadata: `{"options":{"viewOn":"x","pipeline":[]}}`}, "view orders"},
		"a time series":       {mongotest.Collection{Type: "timeseries", Metadata: `{"options":{"timeseries":{"timeField":"t"}}}`}, "NotImplemented"},
		"a validator":         {mongotest.Collection{Metadata: `{"options":{"validator":{"v":{"$exists":true}}}}`}, "NotImplemented"},
		"a value it has not":  {mongotest.Collection{Documents: []bson.D{{{Key: "_id", Value: 1}, {Key: "v", Value: bson.NewDecimal128(1, 2)}}}}, "orders"},
		"metadata that is no": {mongotest.Collection{Metadata: `{"options":`}, "metadata of collection"},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			other := mongotest.Collection{Database: name, Name: "another", Type: "collection", Documents: []bson.D{d(1, 1)}}
			r := f.foreign(mongotest.Archive(t, other, orders(c.collection)), name)
			r.fetch()
			result := r.run(contract.VerbLoad)
			if result.Failure == nil || result.Failure.Reason != contract.ReasonRestoreToolFailed || !strings.Contains(result.Failure.Message, c.word) {
				t.Errorf("the failure is %+v", result.Failure)
			}
			if got := f.db.Content(t, name); got != want {
				t.Errorf("the database changed:\n%s\nwas:\n%s", got, want)
			}
		})
	}
}

func TestMongoDBSeveralDatabases(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	one, two, three := f.db.Database(t), f.one("two"), f.one("three")
	wants := map[string]string{one: mongoEverything(t, f.db, one), two: f.db.Content(t, two)}
	key := f.backup(two, one)
	for name := range wants {
		f.db.Insert(t, name, "orders", bson.D{{Key: "_id", Value: "later"}, {Key: "total", Value: -5}})
	}
	kept := f.db.Content(t, three)
	f.restore(key) // all that the artifact holds
	for name, want := range wants {
		if got := f.db.Content(t, name); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
		f.noLeftovers(name)
		f.db.Drop(t, name)
	}
	f.restore(key, two)
	if got := f.db.Content(t, two) + f.db.Content(t, one); got != wants[two] {
		t.Errorf("one of two: %s", got)
	}
	f.restoreJob(key, three).mustFail(contract.VerbInspect, contract.ReasonDatabaseNotFound, false, three)
	if got := f.db.Content(t, three); got != kept {
		t.Errorf("a database beside them changed: %s", got)
	}
}

// A whole server that is a replica set is dumped with its operations; without any, the restore replays none.
func TestMongoDBWholeServer(t *testing.T) {
	t.Parallel()
	s := mongotest.StartReplicaSet(t)
	f := newMongoFixtureOn(t, s)
	want := mongoEverything(t, s, "first")
	s.Insert(t, "second", "c", bson.D{{Key: "_id", Value: 1}})
	s.Run(t, "first", bson.D{{Key: "createUser", Value: "bob"}, {Key: "pwd", Value: "bob's"}, {Key: "roles", Value: bson.A{}}})
	s.Insert(t, "admin", "last", bson.D{{Key: "_id", Value: 1}}) // mongodump takes the last operation before it too, and the server could not apply it
	j := f.job()
	dumped := j.must(contract.VerbDump)
	if strings.Contains(dumped.Note, "one moment") {
		t.Errorf("the note is %q", dumped.Note)
	}
	key := j.backup()
	s.Insert(t, "first", "later", bson.D{{Key: "_id", Value: 1}})
	s.Drop(t, "second")
	s.Insert(t, "third", "kept", bson.D{{Key: "_id", Value: 1}})
	r := f.restoreJob(key)
	r.fetch()
	result := r.must(contract.VerbLoad)
	if !strings.Contains(result.Note, "users and roles") {
		t.Errorf("the note is %q", result.Note)
	}
	if got := s.Content(t, "first"); got != want {
		t.Errorf("restored:\n%s\nwant:\n%s", got, want)
	}
	if !strings.Contains(s.Content(t, "second"), "documents 1") || !strings.Contains(s.Content(t, "third"), "documents 1") {
		t.Errorf("second: %s, third: %s", s.Content(t, "second"), s.Content(t, "third"))
	}
	f.noLeftovers("first")
}

// Writes during the dump of a replica set are in its artifact, as operations. The server here has no command to apply them, so
// their restore stops before anything is replaced.
func TestMongoDBWritesDuringTheDump(t *testing.T) {
	t.Parallel()
	s := mongotest.StartReplicaSet(t)
	f := newMongoFixtureOn(t, s)
	s.Insert(t, "shop", "orders", bson.D{{Key: "_id", Value: 1}})
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = s.Client().Database("shop").Collection("orders").InsertOne(ctx, bson.D{{Key: "n", Value: i}})
		}
	})
	key := f.backup()
	stop()
	writer.Wait()
	want := s.Content(t, "shop")
	r := f.restoreJob(key)
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonRestoreToolFailed, false, "applyOps", "was not touched")
	if got := s.Content(t, "shop"); got != want {
		t.Errorf("the database changed:\n%s\nwas:\n%s", got, want)
	}
	f.noLeftovers("shop")
}

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
)

// mongoFixture is a fixture with a server that speaks MongoDB's protocol.
type mongoFixture struct {
	*fixture
	db *mongotest.Server
}

func newMongoFixture(t *testing.T) *mongoFixture {
	t.Helper()
	return newMongoFixtureOn(t, mongotest.Shared(t))
}

func newMongoFixtureOn(t *testing.T, s *mongotest.Server) *mongoFixture {
	t.Helper()
	f := &mongoFixture{newFixtureFor(t, engine.MongoDB, s.Host, s.Port, credentials(t, mongotest.Superuser, mongotest.Password)), s}
	t.Cleanup(func() {
		if strings.Contains(f.logText(), mongotest.Password) {
			t.Error("the password stands in the agent's log")
		}
	})
	return f
}

// noLeftovers fails when a collection of a restore is still there.
func (f *mongoFixture) noLeftovers(database string) {
	f.t.Helper()
	names, err := f.db.Client().Database(database).ListCollectionNames(context.Background(), bson.D{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "holdfast") {
			f.t.Errorf("left behind: %s.%s", database, name)
		}
	}
}

// mongoEverything fills a database with all that the server can hold, and returns what its content is.
func mongoEverything(t *testing.T, s *mongotest.Server, database string) string {
	t.Helper()
	s.Insert(t, database, "types", bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "double", Value: math.SmallestNonzeroFloat64}, {Key: "text", Value: "café \x00 \u2028 😀"},
		{Key: "embedded", Value: bson.D{{Key: "b", Value: int32(1)}, {Key: "a", Value: bson.A{"x", int64(math.MaxInt64), nil, true}}}},
		{Key: "binary", Value: bson.Binary{Subtype: 4, Data: bytes.Repeat([]byte{0, 0xff}, 8)}}, {Key: "when", Value: bson.NewDateTimeFromTime(time.UnixMilli(1))},
		{Key: "regex", Value: bson.Regex{Pattern: "^a.*", Options: "i"}}, {Key: "stamp", Value: bson.Timestamp{T: 7, I: 9}}, {Key: "", Value: "an empty field name"}},
		bson.D{{Key: "_id", Value: "a text"}}, bson.D{{Key: "_id", Value: int64(-1)}}, bson.D{{Key: "_id", Value: bson.D{{Key: "of", Value: "parts"}}}})
	s.Insert(t, database, "Ünïcode – näme 😀 %*\\'", bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: "awkward"}})
	s.Insert(t, database, strings.Repeat("long", 50), bson.D{{Key: "_id", Value: 1}})
	s.Insert(t, database, "fs.chunks", bson.D{{Key: "_id", Value: 1}, {Key: "data", Value: bytes.Repeat([]byte("\x00\xff\x10chunk"), 100_000)}})
	s.Run(t, database, bson.D{{Key: "create", Value: "empty"}}, bson.D{{Key: "create", Value: "log"}, {Key: "capped", Value: true}, {Key: "size", Value: 1 << 20}})
	for i := range 50 {
		s.Insert(t, database, "log", bson.D{{Key: "_id", Value: (i * 37) % 50}, {Key: "line", Value: fmt.Sprint("line ", i)}})
	}
	var many []any
	for i := range 3_000 {
		many = append(many, bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: fmt.Sprint("c", i%97)}, {Key: "total", Value: i * 13}})
	}
	s.Insert(t, database, "orders", many...)
	s.Run(t, database, bson.D{{Key: "createIndexes", Value: "orders"}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "customer", Value: 1}, {Key: "total", Value: -1}}}, {Key: "name", Value: "by customer"}},
		bson.D{{Key: "key", Value: bson.D{{Key: "total", Value: 1}}}, {Key: "name", Value: "total_1"}, {Key: "unique", Value: true}}}}})
	return s.Content(t, database)
}

func TestMongoDBRoundTrip(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name := f.db.Database(t)
	want := mongoEverything(t, f.db, name)
	j := f.job(name)
	dumped := j.must(contract.VerbDump)
	if dumped.Artifact.Format != "mongoarchive" || !strings.HasPrefix(dumped.Artifact.ServerVersion, "7.0") {
		t.Errorf("the artifact is %+v", dumped.Artifact)
	}
	if !strings.Contains(dumped.Note, "not of one moment") {
		t.Errorf("the note is %q", dumped.Note)
	}
	key := j.backup()
	for title, damage := range map[string]func(){
		"nothing": func() {},
		"changed": func() {
			f.db.Insert(t, name, "orders", bson.D{{Key: "_id", Value: "later"}, {Key: "total", Value: -1}})
		},
		"indexes gone": func() {
			f.db.Run(t, name, bson.D{{Key: "dropIndexes", Value: "orders"}, {Key: "index", Value: "total_1"}})
		},
		"extra": func() {
			f.db.Insert(t, name, "surplus", bson.D{{Key: "_id", Value: 1}})
			f.db.Insert(t, name, "sur.plus", bson.D{{Key: "_id", Value: 1}})
		},
		"database gone": func() { f.db.Drop(t, name) },
	} {
		damage()
		f.restore(key, name)
		if got := f.db.Content(t, name); got != want {
			t.Errorf("%s: restored\n%s\nwant\n%s", title, got, want)
		}
		f.noLeftovers(name)
	}
}

func TestMongoDBUnderAnotherName(t *testing.T) {
	t.Parallel()
	f := newMongoFixture(t)
	name, other := f.db.Database(t), f.db.Database(t)
	want := mongoEverything(t, f.db, name)
	f.restore(f.backup(name), other)
	if got := f.db.Content(t, other); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	if got := f.db.Content(t, name); got != want {
		t.Errorf("the source was changed:\n%s", got)
	}
	f.noLeftovers(other)
}

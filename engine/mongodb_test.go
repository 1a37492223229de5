package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

func mongoOperationsFor(parts ...*mongoPart) *mongoOperations {
	return &mongoOperations{restore: &mongoRestore{
		mongoSession: &mongoSession{Access: Access{UID: "0123456789ab-cdef"}}, token: "t0",
		items: []*mongoItem{{source: "shop", target: "copy", parts: parts}}}}
}

func entryOf(kind, namespace string, object bson.D) bson.D {
	return bson.D{{Key: "ts", Value: bson.Timestamp{T: 1, I: 2}}, {Key: "op", Value: kind}, {Key: "ns", Value: namespace}, {Key: "o", Value: object}}
}

// Each operation goes to a temporary name or is left out; what is not known stops the restore.
func TestOperationsDuringADumpAreTranslated(t *testing.T) {
	const temporary = "holdfast_tmp_0123456789ab_new_t0_"
	document := bson.D{{Key: "_id", Value: 1}}
	inTransaction := bson.D{{Key: "applyOps", Value: bson.A{entryOf("i", "shop.orders", document), entryOf("i", "crm.people", document)}}}
	for name, c := range map[string]struct {
		entry bson.D
		want  string // of ns and o; empty: left out
		fails bool
	}{
		"insert":                  {entryOf("i", "shop.orders", document), `copy.` + temporary + `orders {"_id":{"$numberInt":"1"}}`, false},
		"update":                  {entryOf("u", "shop.a.b", document), `copy.` + temporary + `a.b {"_id":{"$numberInt":"1"}}`, false},
		"a time series' bucket":   {entryOf("i", "shop.system.buckets.ticks", document), `copy.system.buckets.` + temporary + `ticks {"_id":{"$numberInt":"1"}}`, false},
		"another database":        {entryOf("i", "crm.people", document), "", false},
		"a database of that name": {entryOf("i", "shopping.orders", document), "", false},
		"the server's own":        {entryOf("i", "admin.system.users", document), "", false},
		"an old restore's":        {entryOf("i", "shop.holdfast_tmp_0123456789ab_new_x", document), "", false},
		"nothing":                 {entryOf("n", "shop.orders", document), "", false},
		"create": {entryOf("c", "shop.$cmd", bson.D{{Key: "create", Value: "fresh"}, {Key: "capped", Value: false}}),
			`copy.$cmd {"create":"` + temporary + `fresh","capped":false}`, false},
		"drop":  {entryOf("c", "shop.$cmd", bson.D{{Key: "drop", Value: "orders"}}), `copy.$cmd {"drop":"` + temporary + `orders"}`, false},
		"index": {entryOf("c", "shop.$cmd", bson.D{{Key: "createIndexes", Value: "orders"}, {Key: "key", Value: bson.D{{Key: "v", Value: 1}}}, {Key: "name", Value: "v_1"}}), "", false},
		"transaction": {entryOf("c", "admin.$cmd", inTransaction),
			`admin.$cmd {"applyOps":[{"ts":{"$timestamp":{"t":1,"i":2}},"op":"i","ns":"copy.` + temporary + `orders","o":{"_id":{"$numberInt":"1"}}}]}`, false},
		"commit":            {entryOf("c", "admin.$cmd", bson.D{{Key: "commitTransaction", Value: 1}}), `admin.$cmd {"commitTransaction":{"$numberInt":"1"}}`, false},
		"rename":            {entryOf("c", "shop.$cmd", bson.D{{Key: "renameCollection", Value: "shop.orders"}, {Key: "to", Value: "shop.x"}}), "", true},
		"drop a database":   {entryOf("c", "shop.$cmd", bson.D{{Key: "dropDatabase", Value: 1}}), "", true},
		"of another":        {entryOf("c", "crm.$cmd", bson.D{{Key: "dropDatabase", Value: 1}}), "", false},
		"change a rule":     {entryOf("c", "shop.$cmd", bson.D{{Key: "collMod", Value: "orders"}, {Key: "validator", Value: bson.D{}}}), "", true},
		"an unknown kind":   {entryOf("zz", "shop.orders", document), "", true},
		"an unknown inside": {entryOf("c", "admin.$cmd", bson.D{{Key: "applyOps", Value: bson.A{entryOf("zz", "shop.orders", document)}}}), "", true},
		"make a view":       {entryOf("c", "shop.$cmd", bson.D{{Key: "create", Value: "v"}, {Key: "viewOn", Value: "orders"}, {Key: "pipeline", Value: bson.A{}}}), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := bson.Marshal(c.entry)
			if err != nil {
				t.Fatal(err)
			}
			got, err := mongoOperationsFor(newMongoPart("shop", "orders")).translate(raw)
			if known, ok := errors.AsType[*Error](err); c.fails != (err != nil) || c.fails && (!ok || known.Reason != ReasonRestoreToolFailed) {
				t.Fatalf("the error is %v", err)
			}
			var text string
			if len(got) > 0 {
				entry := bson.Raw(got)
				text = entry.Lookup("ns").StringValue() + " " + entry.Lookup("o").Document().String()
			}
			if plain := strings.ReplaceAll(text, " ", ""); plain != strings.ReplaceAll(c.want, " ", "") {
				t.Errorf("translated to\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}

// What is made and dropped during a dump is what is put in place.
func TestOperationsChangeWhatIsPutInPlace(t *testing.T) {
	orders, gone := newMongoPart("shop", "orders"), newMongoPart("shop", "gone")
	orders.metadata.Indexes = []bson.D{{{Key: "name", Value: "old"}}, {{Key: "name", Value: "kept"}}}
	o := mongoOperationsFor(orders, gone)
	for _, object := range []bson.D{
		{{Key: "create", Value: "fresh"}}, {{Key: "drop", Value: "gone"}},
		{{Key: "dropIndexes", Value: "orders"}, {Key: "index", Value: "old"}},
		{{Key: "commitIndexBuild", Value: "orders"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "name", Value: "new"}}}}},
		{{Key: "createIndexes", Value: "fresh"}, {Key: "name", Value: "one"}},
	} {
		if _, err := o.entry(entryOf("c", "shop.$cmd", object)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, part := range o.restore.items[0].parts {
		got = append(got, part.Name)
		for _, index := range part.metadata.Indexes {
			got = append(got, text(index, "name"))
		}
	}
	if want := []string{"orders", "kept", "new", "fresh", "one"}; !slices.Equal(got, want) {
		t.Errorf("the parts are %q, want %q", got, want)
	}
}

func TestMongoDBPrivileges(t *testing.T) {
	parse := func(privileges string) mongoPrivileges {
		var p struct{ List []mongoPrivilege }
		if err := bson.UnmarshalExtJSON([]byte(`{"list":`+privileges+`}`), true, &p); err != nil {
			t.Fatal(err)
		}
		return mongoPrivileges{known: true, list: p.List}
	}
	for _, c := range []struct{ privileges, database, collection, lacks string }{
		{`[]`, "shop", "", "[find insert]"},
		{`[{"resource":{"db":"shop","collection":""},"actions":["find","insert"]}]`, "shop", "", "[]"},
		{`[{"resource":{"db":"shop","collection":""},"actions":["find","insert"]}]`, "crm", "", "[find insert]"},
		{`[{"resource":{"db":"shop","collection":"orders"},"actions":["find","insert"]}]`, "shop", "", "[find insert]"},
		{`[{"resource":{"db":"","collection":""},"actions":["find"]},{"resource":{"cluster":true},"actions":["insert"]}]`, "shop", "", "[insert]"},
		{`[{"resource":{"db":"","collection":""},"actions":["find","insert"]}]`, "admin", "system.users", "[find insert]"},
		{`[{"resource":{"db":"admin","collection":"system.users"},"actions":["find"]}]`, "admin", "system.users", "[insert]"},
		{`[{"resource":{"anyResource":true},"actions":["anyAction"]}]`, "admin", "system.users", "[]"},
	} {
		if got := fmt.Sprint(parse(c.privileges).lacks(c.database, c.collection, "find", "insert")); got != c.lacks {
			t.Errorf("%s on %s.%s lacks %s, want %s", c.privileges, c.database, c.collection, got, c.lacks)
		}
	}
	if got := (mongoPrivileges{}).lacks("shop", "", "find"); len(got) != 0 {
		t.Errorf("a server that does not tell: lacks %v", got)
	}
	s := &mongoSession{Access: Access{Username: "weak", Connection: Connection{Host: "db"}}}
	err := s.need(parse(`[]`), "shop", "", "read", "find")
	if known, ok := errors.AsType[*Error](err); !ok || known.Reason != ReasonPermissionDenied || !strings.Contains(known.Message, `"weak" lacks find on database shop`) {
		t.Errorf("the error is %v", err)
	}
}

func TestMongoDBServersThatAreNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		hello mongoHello
		build mongoBuild
		word  string
	}{
		"mongos": {mongoHello{Message: "isdbgrid"}, mongoBuild{Version: "8.0.4"}, "sharded cluster"},
		"old":    {mongoHello{}, mongoBuild{Version: "4.2.24"}, "4.4 and newer"},
		"fine":   {mongoHello{Set: "rs0"}, mongoBuild{Version: "4.4.0"}, ""},
	} {
		err := (&mongoSession{hello: c.hello, build: c.build}).serves()
		known, ok := errors.AsType[*Error](err)
		if ok != (c.word != "") || ok && (known.Reason != ReasonServerNotSupported || !strings.Contains(known.Message, c.word)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Names that are too long for a prefix get another, which differs where they do.
func TestTemporaryNamesFit(t *testing.T) {
	r := mongoOperationsFor().restore
	long := strings.Repeat("x", 190)
	names := []string{r.temporary("new", "shop", "a"), r.temporary("old", "shop", "a"), r.temporary("new", "shop", long), r.temporary("new", "shop", long+"y")}
	for i, name := range names {
		if len("shop.")+len(name) > 200 || !temporaryCollection.MatchString(name) || slices.Contains(names[:i], name) {
			t.Errorf("%q", names)
		}
	}
	if temporaryCollection.MatchString("holdfast_tmp_things") {
		t.Error("a collection of a user's is taken for a restore's")
	}
}

func TestIndexesAreMadeAsTheyWere(t *testing.T) {
	index := bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "a", Value: 1}}}, {Key: "name", Value: "a_1"}, {Key: "ns", Value: "old.c"}}
	if got := fmt.Sprint(indexSpec(index, false)); strings.Contains(got, `"v"`) || strings.Contains(got, "ns") || strings.Contains(got, "collation") {
		t.Errorf("the index is %s", got)
	}
	if got := fmt.Sprint(indexSpec(index, true)); !strings.Contains(got, "simple") {
		t.Errorf("in a collection with a collation, the index is %s", got)
	}
	own := append(slices.Clone(index), bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "de"}}})
	if got := fmt.Sprint(indexSpec(own, true)); strings.Contains(got, "simple") {
		t.Errorf("with a collation of its own, the index is %s", got)
	}
}

// Users and roles are restored where they belong, and else it is said why not.
func TestWhichUsersAreRestored(t *testing.T) {
	server := mongoarchive.Collection{Database: "admin", Name: "system.users"}
	own := mongoarchive.Collection{Database: "shop", Name: "$admin.system.users"}
	for name, c := range map[string]struct {
		collections []mongoarchive.Collection
		named       []string
		target      string
		omit        bool
		args, why   string
		none        bool
	}{
		"none":              {nil, nil, "shop", false, "[]", "", true},
		"of a server":       {[]mongoarchive.Collection{server}, nil, "shop", false, "[]", "", false},
		"one of a server":   {[]mongoarchive.Collection{server}, []string{"shop"}, "shop", false, "[]", "whole server", true},
		"of a database":     {[]mongoarchive.Collection{own}, []string{"shop"}, "shop", false, "[--db=shop --restoreDbUsersAndRoles]", "", false},
		"under other names": {[]mongoarchive.Collection{own}, []string{"copy"}, "copy", false, "[]", "of database shop", true},
		"left out":          {[]mongoarchive.Collection{own}, []string{"shop"}, "shop", true, "[]", "", true},
	} {
		r := mongoOperationsFor().restore
		r.prelude.Collections, r.Databases, r.items[0].target, r.Options.OmitPrivileges = c.collections, c.named, c.target, c.omit
		route, args, why := r.accounts()
		if fmt.Sprint(args) != c.args || (route == nil) != c.none || !strings.Contains(why, c.why) || c.why == "" && why != "" {
			t.Errorf("%s: %v, %v, %q", name, route == nil, args, why)
		}
	}
}

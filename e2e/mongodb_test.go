//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestMongoDB is the main job of MongoDB, whole, against FerretDB and with MongoDB's own tools.
func TestMongoDB(t *testing.T) {
	runEngine(t, engineCase{
		kind: serverKind{
			engine: v1alpha1.EngineMongoDB, image: enginesImage, port: 27017, container: engineContainer("mongodb"),
			ping: mongoClient("admin"),
		},
		setup:  mongoSetup,
		client: mongoClient,
		orders: "orders", copy: "the-copy_2", wayBack: "way_back",
		fill: mongoShop(),
		damage: `{"delete": "items", "deletes": [{"q": {"_id": {"$gt": 40}}, "limit": 0}]}
{"update": "items", "updates": [{"q": {}, "u": {"$set": {"price": 0}}, "multi": true}]}
{"drop": "empty"}
{"insert": "surplus", "documents": [{"_id": 1}]}
`,
		content: `{"find": "items", "sort": {"_id": 1}, "batchSize": 1000, "singleBatch": true}
{"find": "odd näme.1", "sort": {"_id": 1}, "batchSize": 1000, "singleBatch": true}
{"listIndexes": "items"}
{"listCollections": 1, "nameOnly": true}
`,
		write:   `{"update": "counters", "updates": [{"q": {"_id": "both"}, "u": {"$inc": {"a": 1, "b": 1}}}]}`,
		balance: `{"find": "counters", "projection": {"_id": false}}`,
		broken:  []byte("\x6d\xe2\x99\x81 no archive"), whyBroken: "ArtifactCorrupt",
		failures: []backupFailure{
			{"no-such-database", withDatabase("nosuch"), v1alpha1.ReasonDumpFailed, "DatabaseNotFound", []string{"nosuch", "names"}},
		},
	})
}

func mongoClient(database string) []string {
	if database == "" {
		database = "orders"
	}
	return []string{"mongoeval", "/credentials/uri", database}
}

func mongoSetup(user, password string) map[string]string {
	settings, _ := json.Marshal(map[string]any{ // strings alone
		"Listener": map[string]string{"TLS": ":27017", "TLSCertFile": "/tls/tls.crt", "TLSKeyFile": "/tls/tls.key", "Unix": "/tmp/mongodb.sock"},
		"DataURL":  "file:/data/mongodb/", "Username": user, "Password": password,
	})
	uri := url.URL{Scheme: "mongodb", User: url.UserPassword(user, password), Host: "%2Ftmp%2Fmongodb.sock", Path: "/"}
	return map[string]string{"setup": string(settings), "uri": "mongodb://" + uri.User.String() + "@" + uri.Host + "/?authSource=admin"}
}

// mongoShop are commands that make a small shop with a document of each kind.
func mongoShop() string {
	var out strings.Builder
	out.WriteString(`{"create": "items"}` + "\n" + `{"create": "empty"}` + "\n")
	for i := range 60 {
		fmt.Fprintf(&out, `{"insert": "items", "documents": [{"_id": %d, "name": "item %d 🐘 \\ ' \" $x", "price": {"$numberDouble": "%d.5"}, `+
			`"many": {"$numberLong": "%d0000000000"}, "photo": {"$binary": {"base64": "AP8KDRpcJw==", "subType": "00"}}, "made": {"$date": "2026-12-01T08:00:00.123Z"}, `+
			`"by": {"$oid": "65a0000000000000000000%02x"}, "none": null, "tags": ["é", {"deep": [1, true]}]}]}`+"\n", i, i, i, i, i)
	}
	out.WriteString(`{"insert": "odd näme.1", "documents": [{"_id": "x", "text": "` + strings.Repeat("long ", 4000) + `"}]}` + "\n")
	out.WriteString(`{"createIndexes": "items", "indexes": [{"key": {"name": 1}, "name": "by_name", "unique": true}, {"key": {"price": -1, "many": 1}, "name": "by_price"}]}` + "\n")
	out.WriteString(`{"insert": "counters", "documents": [{"_id": "both", "a": 0, "b": 0}]}` + "\n")
	return out.String()
}

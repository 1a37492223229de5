package mongotest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Content tells a database's content from all others: a line a collection, with its options and indexes and the checksum of its
// documents' bytes, in their order for capped collections and sorted for others.
func (s *Server) Content(tb testing.TB, database string) string {
	tb.Helper()
	ctx := context.Background()
	cursor, err := s.client.Database(database).ListCollections(ctx, bson.D{})
	if err != nil {
		tb.Fatal(err)
	}
	var collections []struct {
		Name    string `bson:"name"`
		Options bson.D `bson:"options"`
	}
	if err := cursor.All(ctx, &collections); err != nil {
		tb.Fatal(err)
	}
	var lines []string
	for _, c := range collections {
		var set []string
		for _, option := range c.Options {
			set = append(set, fmt.Sprintf("%s=%v", option.Key, option.Value))
		}
		slices.Sort(set)
		count, sum := s.documents(tb, database, c.Name, slices.Contains(set, "capped=true"))
		lines = append(lines, fmt.Sprintf("%q options %v indexes %s documents %d %s", c.Name, set, s.indexes(tb, database, c.Name), count, sum))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *Server) indexes(tb testing.TB, database, collection string) string {
	tb.Helper()
	cursor, err := s.client.Database(database).Collection(collection).Indexes().List(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	var found []bson.D
	if err := cursor.All(context.Background(), &found); err != nil {
		tb.Fatal(err)
	}
	var texts []string
	for _, index := range found {
		texts = append(texts, fmt.Sprint(index))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func (s *Server) documents(tb testing.TB, database, collection string, ordered bool) (int, string) {
	tb.Helper()
	ctx := context.Background()
	cursor, err := s.client.Database(database).Collection(collection).Find(ctx, bson.D{})
	if err != nil {
		tb.Fatal(err)
	}
	var sums []string
	for cursor.Next(ctx) {
		sum := sha256.Sum256(cursor.Current)
		sums = append(sums, string(sum[:]))
	}
	if err := cursor.Err(); err != nil {
		tb.Fatal(err)
	}
	if !ordered {
		slices.Sort(sums)
	}
	all := sha256.Sum256([]byte(strings.Join(sums, "")))
	return len(sums), hex.EncodeToString(all[:8])
}

package engine

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
)

// mongoRestoreOn is a restore that has loaded some collections, and is about to put them in place.
func mongoRestoreOn(t *testing.T, s *mongotest.Server, loaded ...string) *mongoRestore {
	t.Helper()
	a := Access{Connection: Connection{Host: s.Host, Port: s.Port, TLSMode: TLSDisable, Databases: []string{"shop"}}, Username: mongotest.Superuser,
		Password: mongotest.Password, UID: "0123456789abcdef", Log: slog.New(slog.DiscardHandler)}
	r, err := newMongoRestore(t.Context(), a, Restoration{Artifact: Artifact{Format: formatMongoArchive, Databases: []string{"shop"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	for _, name := range loaded {
		r.items[0].parts = append(r.items[0].parts, &mongoPart{Collection: mongoarchive.Collection{Database: "shop", Name: name}})
		s.Insert(t, "shop", r.temporary("new", "shop", name), bson.D{{Key: "_id", Value: "restored"}})
	}
	return r
}

// Renames that fail in their midst are undone, from wherever they got to.
func TestMongoDBRenamesAreUndone(t *testing.T) {
	t.Parallel()
	s := mongotest.Start(t)
	for _, name := range []string{"both", "surplus", "with.dot"} {
		s.Insert(t, "shop", name, bson.D{{Key: "_id", Value: "old"}, {Key: "in", Value: name}})
	}
	want := s.Content(t, "shop")
	for _, done := range []int{0, 1, 2, 3} {
		r := mongoRestoreOn(t, s, "both", "fresh", "with.dot")
		mark, err := r.writeMark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there, err := r.namesOf(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range r.items[0].parts[:min(done, 3)] {
			if err := r.swapOne(t.Context(), "shop", part, there); err != nil {
				t.Fatal(err)
			}
		}
		if done == 3 {
			if err := r.moveAway(t.Context(), r.items[0], there); err != nil {
				t.Fatal(err)
			}
		}
		failed := r.swapFailed(t.Context(), mark, Permanent(ReasonSwapFailed, "it cannot be"))
		if known, ok := errors.AsType[*Error](failed); !ok || !strings.Contains(known.Message, "was not touched") {
			t.Errorf("%d renames: %v", done, failed)
		}
		if got := s.Content(t, "shop"); got != want {
			t.Errorf("%d renames, undone\n%s\nwant\n%s", done, got, want)
		}
	}
}

// A run that finds the mark goes on: also where clients made collections anew since.
func TestMongoDBRenamesGoOn(t *testing.T) {
	t.Parallel()
	s := mongotest.Start(t)
	for _, name := range []string{"one", "two", "surplus"} {
		s.Insert(t, "shop", name, bson.D{{Key: "_id", Value: "old"}})
	}
	first := mongoRestoreOn(t, s, "one", "two")
	mark, err := first.writeMark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there, err := first.namesOf(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.swapOne(t.Context(), "shop", first.items[0].parts[0], there), first.moveAway(t.Context(), first.items[0], there)); err != nil {
		t.Fatal(err)
	}
	if err := first.rename(t.Context(), "shop", "two", first.temporary("old", "shop", "two"), false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"two", "surplus"} { // a client writes
		s.Insert(t, "shop", name, bson.D{{Key: "_id", Value: "since"}})
	}
	second := mongoRestoreOn(t, s)
	found, err := second.readMark(t.Context())
	if err != nil || found == nil || found.Token != first.token {
		t.Fatalf("the mark is %+v, %v, want %+v", found, err, mark)
	}
	second.recallParts(found)
	if err := second.swap(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if err := second.loadFixed(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	second.finish(t.Context())
	names, err := s.Client().Database("shop").ListCollectionNames(t.Context(), bson.D{})
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"one", "two"}) {
		t.Errorf("left are %q, %v", names, err)
	}
	for _, name := range []string{"one", "two"} {
		if found, err := second.finds(t.Context(), "shop", name, bson.D{{Key: "_id", Value: "restored"}}); err != nil || !found {
			t.Errorf("%s is not the restored one: %v", name, err)
		}
	}
}

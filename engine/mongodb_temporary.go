package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// temporary is the name that a collection has for a while: kind is new or old.
func (r *mongoRestore) temporary(kind, database, collection string) string {
	prefix := r.temporaryPrefix() + kind + "_"
	if kind == "new" {
		prefix += r.token + "_"
	}
	if len(database)+1+len(prefix)+len(collection) > 200 { // of 255 bytes, and some servers take fewer
		sum := sha256.Sum256([]byte(collection))
		return prefix + hex.EncodeToString(sum[:])
	}
	return prefix + collection
}

func (r *mongoRestore) temporaryPrefix() string {
	return temporaryPrefix + strings.ReplaceAll(strings.ToLower(r.UID), "-", "")[:12] + "_"
}

// dropTemporary drops what this restore made for a while, the mark last: without it, nobody would know what the rest is.
func (r *mongoRestore) dropTemporary(ctx context.Context) error {
	for _, item := range r.items {
		found, err := r.allCollections(ctx, item.target)
		if err != nil {
			return err
		}
		left := len(found)
		for _, c := range found {
			if !strings.HasPrefix(c.Name, r.temporaryPrefix()) || c.Name == r.markName() {
				continue
			}
			if err := r.drop(ctx, item.target, c.Name); err != nil {
				return err
			}
			left--
		}
		if left == 0 && len(found) > 0 && r.build.FerretDB != "" { // which keeps a database that has no collection
			if err := r.command(ctx, item.target, bson.D{{Key: "dropDatabase", Value: 1}}, nil); err != nil {
				r.Log.Debug("could not drop an empty database", "error", err.Error())
			}
		}
	}
	return r.drop(ctx, r.items[0].target, r.markName())
}

func (s *mongoSession) drop(ctx context.Context, database, collection string) error {
	err := s.client.Database(database).Collection(collection).Drop(ctx)
	if err != nil && !mongoCode(err, mongoNamespaceNotFound) {
		return s.mongoError(err)
	}
	return nil
}

// cleanUp drops what was loaded, even when ctx has ended. What it cannot drop now, the next run drops.
func (r *mongoRestore) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	if mark, err := r.readMark(ctx); err != nil || mark != nil { // it was written after all
		return
	}
	if err := r.dropTemporary(ctx); err != nil {
		r.Log.Warn("could not drop what was loaded", "error", err.Error())
	}
}

// finish drops what the restore left. It has succeeded by then, whoever asks to stop: what cannot be removed becomes a note.
func (r *mongoRestore) finish(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	if err := r.dropTemporary(ctx); err != nil {
		r.notes = append(r.notes, fmt.Sprintf("collections of the restore are still there (%v): drop those of %s whose names begin with %s", err, named(r.targets()),
			r.temporaryPrefix()))
	}
}

package engine

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// restoreOptions of mongorestore. Each collection's documents are inserted in their order, which capped collections keep,
// and the first that is refused ends it. Indexes are made here, so that one that cannot be made is named.
var restoreOptions = []string{"--maintainInsertionOrder", "--stopOnError", "--noIndexRestore"}

// loadFresh loads, indexes and counts the collections under their temporary names.
func (r *mongoRestore) loadFresh(ctx context.Context) error {
	rewrite := &mongoarchive.Rewrite{Route: func(c mongoarchive.Collection) (mongoarchive.Namespace, bool) {
		item, part := r.find(c)
		if part == nil || part.IsView() || part.Name == scriptsCollection {
			return mongoarchive.Namespace{}, false
		}
		return mongoarchive.Namespace{Database: item.target, Name: r.temporary("new", item.target, part.Name)}, true
	}}
	args := restoreOptions
	operations := &mongoOperations{restore: r}
	if slices.ContainsFunc(r.prelude.Collections, mongoarchive.Collection.IsOplog) {
		rewrite.Oplog = operations.translate
		args = append(slices.Clip(args), "--oplogReplay")
	}
	if r.hasValidators() {
		args = append(slices.Clip(args), "--bypassDocumentValidation") // its documents may be older than the rule
	}
	if err := r.feed(ctx, rewrite, args); err != nil {
		return err
	}
	return r.eachPart(func(item *mongoItem, part *mongoPart) error {
		if part.IsView() || part.Name == scriptsCollection {
			return nil
		}
		return r.completePart(ctx, item.target, r.temporary("new", item.target, part.Name), part, rewrite, operations.count > 0)
	})
}

// completePart makes a collection's indexes and holds its count against the artifact's.
func (r *mongoRestore) completePart(ctx context.Context, database, name string, part *mongoPart, rewrite *mongoarchive.Rewrite, changed bool) error {
	if err := r.createIndexes(ctx, database, name, part); err != nil {
		return err
	}
	_, capped := lookup(part.metadata.Options, "capped")
	if changed || capped || part.IsTimeSeries() { // the number of documents is another one by right
		return nil
	}
	count, err := r.client.Database(database).Collection(name).EstimatedDocumentCount(ctx)
	if err != nil {
		return r.mongoError(err)
	}
	if want := rewrite.Counts[part.Namespace()]; count != want {
		return Transient(ReasonRestoreIncomplete, "collection %s of the artifact has %d documents, and %d of them were restored", part.Namespace(), want, count)
	}
	return nil
}

func (r *mongoRestore) eachPart(do func(*mongoItem, *mongoPart) error) error {
	for _, item := range r.items {
		for _, part := range item.parts {
			if err := do(item, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *mongoRestore) find(c mongoarchive.Collection) (*mongoItem, *mongoPart) {
	for _, item := range r.items {
		for _, part := range item.parts {
			if part.Namespace() == c.Namespace() {
				return item, part
			}
		}
	}
	return nil, nil
}

func (r *mongoRestore) hasValidators() bool {
	return r.eachPart(func(_ *mongoItem, part *mongoPart) error {
		if _, has := lookup(part.metadata.Options, "validator"); has {
			return errFound
		}
		return nil
	}) != nil
}

var errFound = errors.New("found")

// feed has mongorestore restore a part of the artifact.
func (r *mongoRestore) feed(ctx context.Context, rewrite *mongoarchive.Rewrite, args []string) error {
	dump, err := r.Artifact.Open()
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	reader, writer := io.Pipe()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_ = writer.CloseWithError(rewriteArchive(dump, rewrite, writer))
	}()
	err = r.runMongoTool(ctx, "mongorestore", args, reader, nil)
	_ = reader.Close()
	<-copied
	return r.mongoToolFailed(ctx, ReasonRestoreToolFailed, err)
}

func rewriteArchive(dump io.Reader, rewrite *mongoarchive.Rewrite, to io.Writer) error {
	in, err := mongoarchive.NewReader(dump)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 1<<20)
	if err := rewrite.Copy(in, out); err != nil {
		return err
	}
	return out.Flush()
}

// createIndexes makes the indexes of a collection, save the one of _id, which it was made with.
func (r *mongoRestore) createIndexes(ctx context.Context, database, name string, part *mongoPart) error {
	_, collated := lookup(part.metadata.Options, "collation")
	var specs bson.A
	for _, index := range part.metadata.Indexes {
		if indexName, _ := lookup(index, "name"); indexName == "_id_" {
			continue
		}
		if clustered, _ := lookup(index, "clustered"); clustered != nil { // is the collection itself
			continue
		}
		specs = append(specs, indexSpec(index, collated))
	}
	if len(specs) == 0 {
		return nil
	}
	command := bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: specs}}
	if r.build.FerretDB == "" {
		command = append(command, bson.E{Key: "ignoreUnknownIndexOptions", Value: true}) // of servers that were older
	}
	if err := r.command(ctx, database, command, nil); err != nil {
		if !serverSaid(err) || mongoCode(err, mongoUnauthorized) {
			return err
		}
		return Permanent(ReasonRestoreToolFailed, "the indexes of collection %s cannot be made: %w", part.Namespace(), err)
	}
	return nil
}

// indexSpec is an index as a command takes it, of the version that the server makes. An index without collation has none,
// also where its collection has one.
func indexSpec(index bson.D, collated bool) bson.D {
	var spec bson.D
	for _, e := range index {
		if e.Key != "v" && e.Key != "ns" {
			spec = append(spec, e)
		}
	}
	if _, has := lookup(index, "collation"); collated && !has {
		spec = append(spec, bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "simple"}}})
	}
	return spec
}

func lookup(document bson.D, key string) (any, bool) {
	for _, e := range document {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

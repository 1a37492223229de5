package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// A restore loads each collection under a temporary name of the same database, and puts it in place by renames, which MongoDB
// does at once and whatever the size:
//
//	load holdfast_tmp_<uid>_new_<collection>, make its indexes → count → try the views
//	→ note down what is there (the mark) → for each collection: rename the old one to holdfast_tmp_<uid>_old_<collection>,
//	and the new one into its place → what cannot be renamed → views → users and roles → note it down → drop what is left
//
// Up to the mark, nothing of the old data is touched; from there on, each step is one that a later run can tell to be done.
// A failure among the renames is undone. Only what cannot be renamed (time series) is dropped before it is loaded again,
// after it has been loaded once on trial.
type mongoRestore struct {
	*mongoSession
	Restoration
	prelude mongoarchive.Prelude
	items   []*mongoItem
	notes   []string
	// token is in the names of what is loaded, so that each try has its own: a server may still be at an insert of a client
	// program that was killed, and would make a collection of that name anew.
	token string
}

// mongoItem is one database of a restore.
type mongoItem struct {
	source string // name in the artifact
	target string
	exists bool
	parts  []*mongoPart
}

// mongoPart is a collection of the artifact.
type mongoPart struct {
	mongoarchive.Collection
	metadata mongoarchive.Metadata
	fixed    bool // it cannot be renamed
}

func newMongoRestore(ctx context.Context, a Access, restoration Restoration) (*mongoRestore, error) {
	for _, name := range a.Databases {
		if slices.Contains(ownDatabases, name) {
			return nil, Permanent(ReasonInvalidTask, "database %q is the server's own, and is not replaced", name)
		}
	}
	pairs, err := restoreNames(restoration.Artifact, a.Databases)
	if err != nil {
		return nil, err
	}
	if err := a.needUID(); err != nil {
		return nil, err
	}
	s, err := openMongo(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &mongoRestore{mongoSession: s, Restoration: restoration, token: strings.ToLower(rand.Text()[:6])}
	if err := s.serves(); err != nil {
		s.close()
		return nil, err
	}
	for _, pair := range pairs {
		item := &mongoItem{source: pair.source, target: pair.target}
		found, err := s.collections(ctx, item.target)
		if err != nil {
			s.close()
			return nil, err
		}
		item.exists = len(found) > 0
		r.items = append(r.items, item)
	}
	return r, nil
}

// ProbeTarget looks at the server and the client program before a restore.
func (mongoDB) ProbeTarget(ctx context.Context, a Access, artifact Artifact) (Target, error) {
	r, err := newMongoRestore(ctx, a, Restoration{Artifact: artifact})
	if err != nil {
		return Target{}, err
	}
	defer r.close()
	target := Target{Version: r.build.Version}
	if target.ToolVersion, err = a.findMongoTool(ctx, "mongorestore"); err != nil {
		return Target{}, err
	}
	privileges, err := r.privileges(ctx)
	if err != nil {
		return Target{}, err
	}
	for _, item := range r.items {
		target.Databases = append(target.Databases, item.target)
		if item.exists {
			target.Existing = append(target.Existing, item.target)
		}
		if err := r.need(privileges, item.target, "", "readWrite on the database", "find", "insert", "update", "remove", "listCollections", "createCollection",
			"createIndex", "dropCollection", "renameCollectionSameDB"); err != nil {
			return Target{}, err
		}
	}
	return target, nil
}

// targets are the databases that are restored.
func (r *mongoRestore) targets() []string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.target)
	}
	return names
}

// mayLose fails when a database would be replaced that nothing holds.
func (r *mongoRestore) mayLose(item *mongoItem) error {
	if !item.exists {
		return nil
	}
	return r.needSaved(item.target, r.Options)
}

// Restore restores an artifact.
func (mongoDB) Restore(ctx context.Context, a Access, restoration Restoration) (string, error) {
	prelude, err := readMongoPrelude(restoration.Artifact)
	if err != nil {
		return "", err
	}
	if len(restoration.Artifact.Databases) == 0 { // its prelude was too long for the inspection
		restoration.Artifact.Databases = userDatabases(prelude.Databases())
	}
	r, err := newMongoRestore(ctx, a, restoration)
	if err != nil {
		return "", err
	}
	defer r.close()
	r.prelude = prelude
	if !r.Swapped {
		if err := r.putInPlace(ctx); err != nil {
			return "", err
		}
	}
	if err := r.OnSwapped(); err != nil {
		return "", fmt.Errorf("the restored databases are in place, but that could not be noted down: %w", err)
	}
	r.finish(ctx)
	return strings.Join(r.notes, "; "), nil
}

func readMongoPrelude(artifact Artifact) (mongoarchive.Prelude, error) {
	dump, err := artifact.Open()
	if err != nil {
		return mongoarchive.Prelude{}, err
	}
	defer func() { _ = dump.Close() }()
	reader, err := mongoarchive.NewReader(dump)
	if err != nil {
		return mongoarchive.Prelude{}, err
	}
	return reader.Prelude, nil
}

func (r *mongoRestore) putInPlace(ctx context.Context) error {
	if err := r.readParts(); err != nil {
		return err
	}
	mark, err := r.readMark(ctx)
	if err != nil {
		return err
	}
	if mark != nil {
		r.recallParts(mark)
	} else {
		if mark, err = r.prepare(ctx); err != nil {
			r.cleanUp(ctx)
			return untouched(err, r.targets())
		}
	}
	if !mark.Fixed {
		if err := r.swap(ctx, mark); err != nil {
			return r.swapFailed(ctx, mark, err)
		}
	}
	for _, step := range []func(context.Context) error{func(ctx context.Context) error { return r.loadFixed(ctx, mark) }, r.makeViews, r.loadAccounts} {
		if err := step(ctx); err != nil {
			return r.halfDone(err)
		}
	}
	return nil
}

// readParts reads what the prelude says of the collections that are wanted.
func (r *mongoRestore) readParts() error {
	for _, item := range r.items {
		for _, c := range r.prelude.Collections {
			if c.Database != item.source || strings.HasPrefix(c.Name, "$") || temporaryCollection.MatchString(c.Name) ||
				strings.HasPrefix(c.Name, "system.") && c.Name != scriptsCollection {
				continue
			}
			metadata, err := c.Parse()
			if err != nil {
				return Permanent(ReasonRestoreToolFailed, "%w", err)
			}
			item.parts = append(item.parts, &mongoPart{Collection: c, metadata: metadata, fixed: c.IsTimeSeries() || c.Name == scriptsCollection})
		}
	}
	return nil
}

// recallParts makes the parts those that an earlier run loaded.
func (r *mongoRestore) recallParts(mark *mongoMark) {
	r.token = mark.Token
	for i, item := range r.items {
		loaded := mark.Databases[i].Parts
		item.parts = slices.DeleteFunc(item.parts, func(p *mongoPart) bool { return !slices.Contains(loaded, p.Name) })
		for _, name := range loaded {
			if !slices.ContainsFunc(item.parts, func(p *mongoPart) bool { return p.Name == name }) {
				item.parts = append(item.parts, newMongoPart(item.source, name))
			}
		}
	}
}

// newMongoPart is a collection that came to be during the dump.
func newMongoPart(database, name string) *mongoPart {
	return &mongoPart{Collection: mongoarchive.Collection{Database: database, Name: name}}
}

// scriptsCollection holds functions, and can be neither renamed nor be a rename's target.
const scriptsCollection = "system.js"

// prepare does all that may fail and leaves the old databases as they were, and notes down what they were.
func (r *mongoRestore) prepare(ctx context.Context) (*mongoMark, error) {
	for _, item := range r.items {
		if err := r.mayLose(item); err != nil {
			return nil, err
		}
	}
	if err := r.mayMakeAccounts(ctx); err != nil {
		return nil, err
	}
	if err := r.dropTemporary(ctx); err != nil {
		return nil, err
	}
	if err := r.loadFresh(ctx); err != nil {
		return nil, err
	}
	if err := r.tryViews(ctx); err != nil {
		return nil, err
	}
	return r.writeMark(ctx)
}

// halfDone says what a failure behind the mark left, and which way leads back.
func (r *mongoRestore) halfDone(err error) error {
	return withOutcome(err, fmt.Sprintf("%s: restored in part; the next try goes on from there; the way back is the safety backup, status.url, "+
		"and old collections are still there under names that begin with %sold_", named(r.targets()), r.temporaryPrefix()))
}

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mongoMark stands in the first database from the moment on that old collections are touched. It holds what they were.
type mongoMark struct {
	ID string `bson:"_id"`
	// Token of the names that what was loaded has.
	Token string `bson:"token"`
	// Fixed says that collections that cannot be renamed are being replaced: from there on, nothing can be undone.
	Fixed     bool            `bson:"fixed"`
	Databases []mongoMarkedDB `bson:"databases"`
}

type mongoMarkedDB struct {
	Name        string            `bson:"name"`
	Collections []string          `bson:"collections"`
	Views       []mongoCollection `bson:"views"`
	// Parts are the collections that were loaded: operations during the dump may have made some and dropped others.
	Parts []string `bson:"parts"`
}

const markID = "restore"

func (r *mongoRestore) markName() string { return r.temporaryPrefix() + "mark" }

func (r *mongoRestore) marks() *mongo.Collection {
	return r.client.Database(r.items[0].target).Collection(r.markName())
}

// readMark returns the mark of an earlier run, or nil.
func (r *mongoRestore) readMark(ctx context.Context) (*mongoMark, error) {
	var mark mongoMark
	err := r.marks().FindOne(ctx, bson.D{{Key: "_id", Value: markID}}).Decode(&mark)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, r.mongoError(err)
	}
	return &mark, nil
}

func (r *mongoRestore) saveMark(ctx context.Context, mark *mongoMark) error {
	_, err := r.marks().ReplaceOne(ctx, bson.D{{Key: "_id", Value: markID}}, mark, options.Replace().SetUpsert(true))
	if err != nil {
		return r.mongoError(err)
	}
	return nil
}

func (r *mongoRestore) writeMark(ctx context.Context) (*mongoMark, error) {
	mark := &mongoMark{ID: markID, Token: r.token}
	for _, item := range r.items {
		found, err := r.collections(ctx, item.target)
		if err != nil {
			return nil, err
		}
		item.exists = len(found) > 0
		if err := r.mayLose(item); err != nil {
			return nil, err
		}
		was := mongoMarkedDB{Name: item.target}
		for _, part := range item.parts {
			was.Parts = append(was.Parts, part.Name)
		}
		for _, c := range found {
			switch {
			case c.Type == "view":
				was.Views = append(was.Views, c)
			case !strings.HasPrefix(c.Name, "system."):
				was.Collections = append(was.Collections, c.Name)
			}
		}
		mark.Databases = append(mark.Databases, was)
	}
	return mark, r.saveMark(ctx, mark)
}

// errFixed tells a collection that the server does not rename.
var errFixed = errors.New("the collection cannot be renamed")

// rename renames a collection within its database. Where it may replace one, what a client made under the name is dropped.
func (r *mongoRestore) rename(ctx context.Context, database, from, to string, replace bool) error {
	err := r.command(ctx, "admin", bson.D{{Key: "renameCollection", Value: mongoNamespace(database, from)},
		{Key: "to", Value: mongoNamespace(database, to)}}, nil)
	switch {
	case err == nil:
		return nil
	case mongoCode(err, mongoIllegalOperation, mongoCommandNotFound, mongoInvalidNamespace, mongoNotOnView, mongoNotImplemented):
		return errFixed
	case replace && mongoCode(err, mongoNamespaceExists):
		if err := r.drop(ctx, database, to); err != nil {
			return err
		}
		return r.rename(ctx, database, from, to, replace)
	}
	return err
}

// swap puts what was loaded in place, one collection after the other, and moves away what the artifact lacks.
func (r *mongoRestore) swap(ctx context.Context, mark *mongoMark) error {
	for i, item := range r.items {
		for _, view := range mark.Databases[i].Views {
			if err := r.dropView(ctx, item.target, view.Name); err != nil {
				return err
			}
		}
		there, err := r.namesOf(ctx, item.target)
		if err != nil {
			return err
		}
		for _, part := range item.parts {
			if part.IsView() || part.Name == scriptsCollection {
				continue
			}
			if err := r.swapOne(ctx, item.target, part, there); err != nil {
				return err
			}
		}
		if err := r.moveAway(ctx, item, there); err != nil {
			return err
		}
	}
	return nil
}

// namesOf all collections of a database, with what they are.
func (r *mongoRestore) namesOf(ctx context.Context, database string) (map[string]mongoCollection, error) {
	found, err := r.allCollections(ctx, database)
	if err != nil {
		return nil, err
	}
	there := map[string]mongoCollection{}
	for _, c := range found {
		there[c.Name] = c
	}
	return there, nil
}

// dropView drops a view, and not what a client may have made under its name since.
func (r *mongoRestore) dropView(ctx context.Context, database, name string) error {
	there, err := r.namesOf(ctx, database)
	if err != nil || there[name].Type != "view" {
		return err
	}
	return r.drop(ctx, database, name)
}

// swapOne replaces one collection. It was replaced before when nothing is left under its temporary name.
func (r *mongoRestore) swapOne(ctx context.Context, database string, part *mongoPart, there map[string]mongoCollection) error {
	fresh, old := r.temporary("new", database, part.Name), r.temporary("old", database, part.Name)
	if _, waits := there[fresh]; !waits {
		return nil
	}
	if part.fixed {
		return nil
	}
	current, exists := there[part.Name]
	if exists && current.Type == "timeseries" {
		part.fixed = true
		return nil
	}
	_, moved := there[old]
	if exists && !moved {
		if err := r.rename(ctx, database, part.Name, old, false); err != nil {
			part.fixed = errors.Is(err, errFixed)
			return ignoreFixed(err)
		}
	}
	err := r.rename(ctx, database, fresh, part.Name, true)
	part.fixed = errors.Is(err, errFixed)
	return ignoreFixed(err)
}

func ignoreFixed(err error) error {
	if errors.Is(err, errFixed) {
		return nil
	}
	return err
}

// moveAway renames what the artifact does not hold. What cannot be renamed is dropped later, by loadFixed.
func (r *mongoRestore) moveAway(ctx context.Context, item *mongoItem, there map[string]mongoCollection) error {
	for name := range there {
		if !r.surplus(item, there[name]) || there[name].Type == "timeseries" {
			continue
		}
		old := r.temporary("old", item.target, name)
		var err error
		if _, moved := there[old]; moved { // and a client made it anew
			err = r.drop(ctx, item.target, name)
		} else {
			err = ignoreFixed(r.rename(ctx, item.target, name, old, false))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// surplus tells whether a collection is one that the artifact lacks.
func (r *mongoRestore) surplus(item *mongoItem, c mongoCollection) bool {
	if c.Type == "view" || strings.HasPrefix(c.Name, "system.") || strings.HasPrefix(c.Name, temporaryPrefix) {
		return false
	}
	return !slices.ContainsFunc(item.parts, func(p *mongoPart) bool { return p.Name == c.Name && !p.IsView() })
}

// swapFailed undoes the renames where that can be done now. Where the server is away, or we are stopped, the next run goes on.
func (r *mongoRestore) swapFailed(ctx context.Context, mark *mongoMark, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Reason == ReasonServerUnreachable && !serverSaid(err) {
		return r.halfDone(err)
	}
	if undone := r.undo(ctx, mark); undone != nil {
		r.Log.Warn("could not undo the renames", "error", undone.Error())
		return r.halfDone(err)
	}
	return untouched(err, r.targets())
}

// undo gives the old collections and views their names back, and drops what was loaded.
func (r *mongoRestore) undo(ctx context.Context, mark *mongoMark) error {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	for i, item := range r.items {
		if err := r.undoDatabase(ctx, item, mark.Databases[i]); err != nil {
			return err
		}
	}
	return r.dropTemporary(ctx)
}

func (r *mongoRestore) undoDatabase(ctx context.Context, item *mongoItem, was mongoMarkedDB) error {
	there, err := r.namesOf(ctx, item.target)
	if err != nil {
		return err
	}
	for _, part := range item.parts {
		_, waits := there[r.temporary("new", item.target, part.Name)]
		if waits || part.fixed || part.IsView() || slices.Contains(was.Collections, part.Name) {
			continue
		}
		if err := r.drop(ctx, item.target, part.Name); err != nil {
			return err
		}
	}
	for _, name := range was.Collections {
		old := r.temporary("old", item.target, name)
		if _, moved := there[old]; !moved {
			continue
		}
		if err := r.rename(ctx, item.target, old, name, true); err != nil {
			return err
		}
	}
	for _, view := range was.Views {
		if err := r.createView(ctx, item.target, view.Name, view.Options); err != nil {
			return err
		}
	}
	return nil
}

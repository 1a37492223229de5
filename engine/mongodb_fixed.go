package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// loadFixed replaces the collections that cannot be renamed: time series, stored functions, and what else the server refuses
// to rename. Each was loaded once, under its temporary name, so that only an outage should keep it from being loaded again.
func (r *mongoRestore) loadFixed(ctx context.Context, mark *mongoMark) error {
	var load []*mongoPart
	for _, item := range r.items {
		parts, surplus, err := r.fixedOf(ctx, item)
		if err != nil {
			return err
		}
		if len(parts)+len(surplus) == 0 {
			continue
		}
		if !mark.Fixed {
			mark.Fixed = true
			if err := r.saveMark(ctx, mark); err != nil {
				return err
			}
		}
		for _, name := range surplus {
			if err := r.empty(ctx, item.target, name); err != nil {
				return err
			}
		}
		for _, part := range parts {
			waits, err := r.replaceFixed(ctx, item, part)
			if err != nil {
				return err
			}
			if waits {
				load = append(load, part)
			}
		}
	}
	if len(load) == 0 {
		return nil
	}
	return r.loadInPlace(ctx, load)
}

// fixedOf are the parts that wait for their place, and the old collections that are still there and should not be.
func (r *mongoRestore) fixedOf(ctx context.Context, item *mongoItem) (parts []*mongoPart, surplus []string, err error) {
	there, err := r.namesOf(ctx, item.target)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range item.parts {
		_, waits := there[r.temporary("new", item.target, part.Name)]
		if waits || part.Name == scriptsCollection {
			parts = append(parts, part)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		scripts := name == scriptsCollection && !slices.ContainsFunc(parts, func(p *mongoPart) bool { return p.Name == name })
		if scripts || r.surplus(item, there[name]) {
			surplus = append(surplus, name)
		}
	}
	return parts, surplus, nil
}

// empty drops a collection. Stored functions are deleted, as their collection cannot be dropped everywhere.
func (r *mongoRestore) empty(ctx context.Context, database, name string) error {
	if name != scriptsCollection {
		return r.drop(ctx, database, name)
	}
	if _, err := r.client.Database(database).Collection(name).DeleteMany(ctx, bson.D{}); err != nil {
		return r.mongoError(err)
	}
	return nil
}

// replaceFixed drops the old collection, and tells whether the new one has still to be loaded.
func (r *mongoRestore) replaceFixed(ctx context.Context, item *mongoItem, part *mongoPart) (waits bool, err error) {
	if err := r.empty(ctx, item.target, part.Name); err != nil {
		return false, err
	}
	if part.IsTimeSeries() || part.Name == scriptsCollection {
		return true, nil
	}
	err = r.rename(ctx, item.target, r.temporary("new", item.target, part.Name), part.Name, true)
	return errors.Is(err, errFixed), ignoreFixed(err)
}

func (r *mongoRestore) loadInPlace(ctx context.Context, load []*mongoPart) error {
	rewrite := &mongoarchive.Rewrite{Route: func(c mongoarchive.Collection) (mongoarchive.Namespace, bool) {
		item, part := r.find(c)
		if part == nil || !slices.Contains(load, part) {
			return mongoarchive.Namespace{}, false
		}
		return mongoarchive.Namespace{Database: item.target, Name: part.Name}, true
	}}
	if err := r.feed(ctx, rewrite, restoreOptions); err != nil {
		return err
	}
	for _, part := range load {
		item, _ := r.find(part.Collection)
		if part.Name == scriptsCollection {
			continue
		}
		if err := r.completePart(ctx, item.target, part.Name, part, rewrite, false); err != nil {
			return err
		}
	}
	return nil
}

// tryViews makes the views under temporary names, to see that they can be made.
func (r *mongoRestore) tryViews(ctx context.Context) error {
	return r.eachPart(func(item *mongoItem, part *mongoPart) error {
		if !part.IsView() {
			return nil
		}
		name := r.temporary("new", item.target, part.Name)
		if err := r.createView(ctx, item.target, name, part.metadata.Options); err != nil {
			return err
		}
		return r.drop(ctx, item.target, name)
	})
}

// makeViews makes the views of the artifact.
func (r *mongoRestore) makeViews(ctx context.Context) error {
	return r.eachPart(func(item *mongoItem, part *mongoPart) error {
		if !part.IsView() {
			return nil
		}
		return r.createView(ctx, item.target, part.Name, part.metadata.Options)
	})
}

// createView makes a view, and anew where it is there.
func (r *mongoRestore) createView(ctx context.Context, database, name string, options bson.D) error {
	if err := r.dropView(ctx, database, name); err != nil {
		return err
	}
	err := r.command(ctx, database, append(bson.D{{Key: "create", Value: name}}, options...), nil)
	if err != nil && serverSaid(err) && !mongoCode(err, mongoUnauthorized) {
		return Permanent(ReasonRestoreToolFailed, "view %s cannot be made: %w", strings.TrimPrefix(name, r.temporaryPrefix()+"new_"+r.token+"_"), err)
	}
	return err
}

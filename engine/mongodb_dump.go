package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// Dump writes what Probe found, as one archive that mongorestore restores by hand. mongodump dumps one database or all of
// them, so the archives of several named ones are joined.
func (mongoDB) Dump(ctx context.Context, a Access, server Server, dump io.Writer) error {
	s, err := openMongo(ctx, a)
	if err != nil {
		return err
	}
	defer s.close()
	plan, err := s.planDump(ctx)
	if err != nil {
		return err
	}
	if plan.note != server.Note {
		return Transient(ReasonDumpIncomplete, "%s changed while it was looked at: %s", s.where(), plan.note)
	}
	switch {
	case s.whole():
		var args []string
		if plan.oplog {
			args = append(args, "--oplog")
		}
		err = s.runMongoTool(ctx, "mongodump", args, nil, dump)
	case len(plan.databases) == 1:
		err = s.runMongoTool(ctx, "mongodump", plan.argsFor(plan.databases[0]), nil, dump)
	default:
		err = s.dumpJoined(ctx, plan, dump)
	}
	return s.mongoToolFailed(ctx, ReasonDumpToolFailed, err)
}

// argsFor dumps one database, without what a restore made in it for a while.
func (p mongoDump) argsFor(database string) []string {
	args := []string{"--db=" + database, "--excludeCollectionsWithPrefix=" + temporaryPrefix}
	if p.accounts {
		args = append(args, "--dumpDbUsersAndRoles")
	}
	return args
}

// dumpJoined dumps databases one behind the other. The prelude of an archive announces all that is in it, so the preludes
// are fetched before: mongodump is stopped when it has written its own.
func (s *mongoSession) dumpJoined(ctx context.Context, plan mongoDump, dump io.Writer) error {
	var joined mongoarchive.Prelude
	preludes := make([]mongoarchive.Prelude, len(plan.databases))
	for i, name := range plan.databases {
		prelude := &mongoarchive.PreludeWriter{}
		if err := s.runMongoTool(ctx, "mongodump", plan.argsFor(name), nil, prelude); !errors.Is(err, mongoarchive.ErrPreludeRead) {
			if err == nil {
				err = Transient(ReasonDumpIncomplete, "mongodump ended well, but it wrote nothing of database %q", name)
			}
			return err
		}
		preludes[i] = prelude.Prelude
		joined.Header = preludes[0].Header
		joined.Collections = append(joined.Collections, preludes[i].Collections...)
	}
	head, err := joined.Encode()
	if err != nil {
		return err
	}
	if _, err := dump.Write(head); err != nil {
		return err
	}
	for i, name := range plan.databases {
		rest := &mongoarchive.PreludeWriter{Rest: dump, Accept: func(again mongoarchive.Prelude) error {
			if !sameCollections(again.Collections, preludes[i].Collections) {
				return Transient(ReasonDumpIncomplete, "collections of database %q were made or dropped while it was dumped", name)
			}
			return nil
		}}
		if err := s.runMongoTool(ctx, "mongodump", plan.argsFor(name), nil, rest); err != nil {
			return err
		}
		if rest.Prelude.Collections == nil {
			return fmt.Errorf("mongodump ended well, but it wrote nothing of database %q", name)
		}
	}
	return nil
}

// sameCollections tells whether two preludes announce the same collections, in any order, and none that was made anew.
func sameCollections(a, b []mongoarchive.Collection) bool {
	ids := func(collections []mongoarchive.Collection) []string {
		var ids []string
		for _, c := range collections {
			metadata, err := c.Parse()
			ids = append(ids, fmt.Sprintf("%s %s %s %v", c.Namespace(), c.Type, metadata.UUID, err))
		}
		slices.Sort(ids)
		return ids
	}
	return slices.Equal(ids(a), ids(b))
}

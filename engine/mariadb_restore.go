package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// A restore loads each database into a fresh one and puts the tables of all of them in place with a single RENAME TABLE,
// as MariaDB renames no databases:
//
//	create and load holdfast_new_<uid>, with views, routines and triggers, to see that they can be made → check it
//	→ put the triggers aside, which no table can be renamed with
//	→ RENAME TABLE TARGET.t TO holdfast_old_<uid>.t, holdfast_new_<uid>.t TO TARGET.t, …: all or none
//	→ make views, routines, triggers and events anew in TARGET → note it down → drop what is left
//
// Up to the RENAME nothing of the old data is touched. A table that is renamed with the others marks that it happened,
// so that a later run goes on behind it. Only databases that bear the UID of the restore are ever dropped.
type myRestore struct {
	*mySession
	Restoration
	items    []*myItem
	replay   []replayed      // of views, routines, triggers, events and accounts
	accounts []string        // that this restore made, or is about to
	definers map[string]bool // that the server has or will have; nil where it may not be asked
	notes    []string
}

// myItem is one database of a restore.
type myItem struct {
	source string // name in the artifact; empty when the artifact does not say
	target string
	fresh  string
	old    string
	exists bool
	tables []string // that the script makes
}

func newMyRestore(ctx context.Context, a Access, restoration Restoration) (*myRestore, error) {
	pairs, err := myNames(restoration.Artifact, a.Databases)
	if err != nil {
		return nil, err
	}
	if err := a.needUID(); err != nil {
		return nil, err
	}
	s, err := openMy(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &myRestore{mySession: s, Restoration: restoration}
	there, err := s.databases(ctx)
	if err != nil {
		s.close()
		return nil, err
	}
	for i, pair := range pairs {
		r.items = append(r.items, &myItem{source: pair.source, target: pair.target, fresh: temporaryName("new", a.UID, i),
			old: temporaryName("old", a.UID, i), exists: slices.Contains(there, pair.target)})
	}
	return r, nil
}

// myNames pairs the databases of an artifact with those that are wanted.
func myNames(artifact Artifact, wanted []string) ([]namePair, error) {
	for _, name := range wanted {
		if slices.Contains(systemDatabases, strings.ToLower(name)) {
			return nil, Permanent(ReasonInvalidTask, "database %q is the server's own, and is not replaced", name)
		}
	}
	return restoreNames(artifact, wanted)
}

// ProbeTarget looks at the server before a restore. No client program is needed: this program itself runs the script.
func (mariaDB) ProbeTarget(ctx context.Context, a Access, artifact Artifact) (Target, error) {
	r, err := newMyRestore(ctx, a, Restoration{Artifact: artifact})
	if err != nil {
		return Target{}, err
	}
	defer r.close()
	info, err := r.server(ctx)
	if err != nil {
		return Target{}, err
	}
	grants, err := r.grants(ctx)
	if err != nil {
		return Target{}, err
	}
	target := Target{Version: info.version}
	for _, item := range r.items {
		target.Databases = append(target.Databases, item.target)
		if item.exists {
			target.Existing = append(target.Existing, item.target)
		}
		for _, name := range []string{item.target, item.fresh, item.old} {
			if err := r.mayRestore(grants, name); err != nil {
				return Target{}, err
			}
		}
	}
	return target, r.obstacles(ctx)
}

// obstacles fails when foreign keys of other databases lead into one that is replaced: they would follow the old tables.
func (r *myRestore) obstacles(ctx context.Context) error {
	for _, item := range r.items {
		keys, err := r.strings(ctx, `SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, ' (', CONSTRAINT_NAME, ')') FROM information_schema.KEY_COLUMN_USAGE
			WHERE REFERENCED_TABLE_SCHEMA = ? AND TABLE_SCHEMA <> REFERENCED_TABLE_SCHEMA ORDER BY 1`, item.target)
		if err != nil {
			return r.myError("", err)
		}
		if len(keys) > 0 {
			return Permanent(ReasonSwapFailed, "database %q of %s cannot be replaced while foreign keys of other databases lead into it: drop them "+
				"and make them anew behind the restore: %s", item.target, r.where(), strings.Join(keys, ", "))
		}
	}
	return nil
}

// targets are the databases that are restored.
func (r *myRestore) targets() []string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.target)
	}
	return names
}

// mayLose fails when a database would be replaced that nothing holds.
func (r *myRestore) mayLose(item *myItem) error {
	if !item.exists {
		return nil
	}
	return r.needSaved(item.target, r.Options)
}

// Restore restores an artifact.
func (mariaDB) Restore(ctx context.Context, a Access, restoration Restoration) (string, error) {
	r, err := newMyRestore(ctx, a, restoration)
	if err != nil {
		return "", err
	}
	defer r.close()
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

func (r *myRestore) putInPlace(ctx context.Context) error {
	renamed, err := r.marked(ctx)
	if err != nil {
		return err
	}
	if renamed {
		err = r.runScript(ctx, false) // to learn what is made anew
	} else {
		err = r.loadAndRename(ctx)
	}
	if err == nil || renamed {
		if err == nil {
			err = r.makeCode(ctx)
		}
		return r.halfDone(err)
	}
	return untouched(err, r.targets())
}

// loadAndRename does all that may fail and leaves the old databases as they were.
func (r *myRestore) loadAndRename(ctx context.Context) error {
	if err := r.obstacles(ctx); err != nil {
		return err
	}
	for _, item := range r.items {
		if err := r.mayLose(item); err != nil {
			return err
		}
	}
	if err := r.takeUp(ctx); err != nil {
		return err
	}
	err := r.load(ctx)
	if err == nil {
		err = r.rename(ctx)
	}
	if err != nil {
		r.cleanUp(ctx)
	}
	return err
}

// cleanUp drops what was loaded, even when ctx has ended. What it cannot drop now, the next run drops.
func (r *myRestore) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	err := r.reconnect(ctx)
	if err == nil {
		var renamed bool
		if renamed, err = r.marked(ctx); err == nil && renamed { // after all: a later run goes on from there
			return
		}
	}
	if err == nil {
		err = r.takeUp(ctx)
	}
	if err != nil {
		r.Log.Warn("could not drop what was loaded", "error", err.Error())
	}
}

// reconnect opens the connection anew: it may have broken, or have been given up in the midst of a statement. The server
// may still be at that statement, such as a RENAME that waits for its turn, so it is told to end it and waited for.
func (r *myRestore) reconnect(ctx context.Context) error {
	s, err := openMy(ctx, r.Access)
	if err != nil {
		return err
	}
	r.close()
	abandoned := r.id
	r.mySession = s
	for {
		var count int
		if err := r.scan(ctx, []any{&count}, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", abandoned); err != nil || count == 0 {
			return err
		}
		if err := r.exec(ctx, fmt.Sprintf("KILL %d", abandoned)); err != nil && !hasNumber(err, 1094) { // gone meanwhile
			return r.myError("", err)
		}
		if err := Pause(ctx, swapInterval); err != nil {
			return err
		}
	}
}

// halfDone says what a failure behind the RENAME left, and which way leads back.
func (r *myRestore) halfDone(err error) error {
	return withOutcome(err, fmt.Sprintf("the tables of %s are restored, but not all of their views, routines, triggers and events; "+
		"the way back is the safety backup, status.url, and the old tables are still in %s", named(r.targets()), r.olds()))
}

func (r *myRestore) olds() string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.old)
	}
	return strings.Join(names, ", ")
}

// finish drops what the restore left. It has succeeded by then, whoever asks to stop: what cannot be removed becomes a note.
func (r *myRestore) finish(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	if err := r.exec(ctx, "DROP TABLE IF EXISTS "+r.mark(r.items[0].target)); err != nil {
		r.notes = append(r.notes, fmt.Sprintf("the mark of this restore is still there (%v): DROP TABLE %s", err, r.mark(r.items[0].target)))
	}
	for _, item := range r.items {
		for _, name := range []string{item.old, item.fresh} {
			if err := r.drop(ctx, name); err != nil {
				r.notes = append(r.notes, fmt.Sprintf("%s could not be dropped (%v): DROP DATABASE IF EXISTS %s", name, err, mydump.QuoteName(name)))
			}
		}
	}
}

// drop drops a temporary database of this restore.
func (r *myRestore) drop(ctx context.Context, name string) error {
	if id := temporaryName("", r.UID, 0); !strings.Contains(name, strings.TrimPrefix(id, "holdfast_")) {
		return fmt.Errorf("refusing to drop %q, which is not of this restore", name)
	}
	// tables of one dropped database may refer to another's
	if err := r.exec(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return err
	}
	return r.exec(ctx, "DROP DATABASE IF EXISTS "+mydump.QuoteName(name))
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A restore loads each database into a spare one, one of the server's numbers that holds no key, and puts all of them in place
// by a single transaction:
//
//	read the artifact whole, to see that it can be restored → mark the spares → RESTORE each key into them → compare the counts
//	→ MULTI, SWAPDB target spare, …, EXEC: all or none → note it down → FLUSHDB what was swapped out
//
// A key that bears the UID of the restore marks each spare, so that a later run knows what is its own. In the transaction the mark
// moves to what was swapped out. Only databases with this mark are ever flushed, unless the server has no spare number: then the
// target itself is flushed and loaded, and the safety backup alone is the way back.
type redisRestore struct {
	*redisConn
	Restoration
	info  redisServer
	items []*redisItem
	plan  *redisPlan
	// inPlace says that the targets themselves are loaded, and swapping that they are about to be done with.
	inPlace, swapping bool
	// claimed are the databases that this run marked, and others those that bear the mark of another restore.
	claimed, others []string
	// format is the newest version of the format that the server reads.
	format int
	begun  time.Time
	notes  []string
}

// redisItem is one database of a restore.
type redisItem struct {
	source string // number in the artifact; empty where a foreign file's only database is meant
	target string
	spare  string
	exists bool
	loaded redisCounts
}

// States of a mark.
const (
	markLoading  = "loading"
	markReplaced = "replaced"
	markInPlace  = "loading-in-place"
	markDone     = "done-in-place"
)

func newRedisRestore(ctx context.Context, a Access, restoration Restoration) (*redisRestore, error) {
	pairs, err := redisNames(restoration.Artifact, a.Databases)
	if err != nil {
		return nil, err
	}
	if err := a.needUID(); err != nil {
		return nil, err
	}
	c, err := openRedis(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &redisRestore{redisConn: c, Restoration: restoration, begun: time.Now()}
	if r.info, err = c.server(ctx); err != nil {
		c.close()
		return nil, err
	}
	held := r.info.keys()
	for _, pair := range pairs {
		r.items = append(r.items, &redisItem{source: pair.source, target: pair.target, exists: held[pair.target] > 0})
	}
	return r, nil
}

// ProbeTarget looks at the server before a restore.
func (redisEngine) ProbeTarget(ctx context.Context, a Access, artifact Artifact) (Target, error) {
	r, err := newRedisRestore(ctx, a, Restoration{Artifact: artifact})
	if err != nil {
		return Target{}, err
	}
	defer r.close()
	target := Target{Version: r.info.version}
	for _, item := range r.items {
		if err := r.choose(ctx, item.target); err != nil {
			return Target{}, err
		}
		target.Databases = append(target.Databases, item.target)
		if item.exists {
			target.Existing = append(target.Existing, item.target)
		}
	}
	if err := r.isPrimary(); err != nil {
		return Target{}, err
	}
	return target, r.may(ctx, []string{"SET", redisMark, "x"}, []string{"GET", redisMark}, []string{"WATCH", redisMark}, []string{"DEL", redisMark}, []string{"DUMP", redisMark},
		[]string{"RESTORE", "k", "0", "v", "ABSTTL"}, []string{"DBSIZE"}, []string{"MULTI"}, []string{"EXEC"}, []string{"SWAPDB", "0", "1"},
		[]string{"FLUSHDB", "ASYNC"})
}

func (r *redisRestore) isPrimary() error {
	if r.info.info["role"] != "slave" {
		return nil
	}
	return Permanent(ReasonServerNotSupported, "%s is a replica of %s, which takes no writes: set spec.database.host to the primary, or to a Service that "+
		"leads to it", r.where(), r.info.info["master_host"])
}

// targets are the databases that are restored.
func (r *redisRestore) targets() []string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.target)
	}
	return names
}

// Restore restores an artifact.
func (redisEngine) Restore(ctx context.Context, a Access, restoration Restoration) (string, error) {
	r, err := newRedisRestore(ctx, a, restoration)
	if err != nil {
		return "", err
	}
	defer r.close()
	marked, err := r.marked(ctx)
	if err != nil {
		return "", err
	}
	if !r.Swapped && len(marked[markReplaced]) == 0 && len(marked[markDone]) == 0 {
		if err := r.putInPlace(ctx, marked); err != nil {
			return "", err
		}
	}
	if err := r.OnSwapped(); err != nil {
		return "", fmt.Errorf("the restored databases are in place, but that could not be noted down: %w", err)
	}
	r.finish(ctx)
	return strings.Join(r.notes, "; "), nil
}

// redisMark is the key that marks a database. All restores have the same, so that only one of them can take a database.
const redisMark = "holdfast:restore"

// mark is its value: what the database is to this restore.
func (r *redisRestore) mark(state string) string { return state + " " + r.UID }

// marked are the databases that earlier runs marked, by the state that the mark has.
func (r *redisRestore) marked(ctx context.Context) (map[string][]string, error) {
	marked := map[string][]string{}
	for database := range r.info.keys() {
		if err := r.choose(ctx, database); err != nil {
			return nil, err
		}
		value, err := r.text(ctx, "GET", redisMark)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Message, "WRONGTYPE") {
				continue // somebody else's
			}
			return nil, err
		}
		state, owner, _ := strings.Cut(value, " ")
		switch {
		case state == "":
		case owner == r.UID:
			marked[state] = append(marked[state], database)
		case state == markLoading || state == markReplaced:
			r.others = append(r.others, database)
		}
	}
	return marked, nil
}

// halfRestored says what a failure left that was loading in place, and which way leads back.
func (r *redisRestore) halfRestored(err error) error {
	was := " is half restored, and what it held"
	if len(r.items) > 1 {
		was = " are half restored, and what they held"
	}
	return withOutcome(err, named(r.targets())+was+" is in the safety backup, status.url")
}

func (r *redisRestore) putInPlace(ctx context.Context, marked map[string][]string) error {
	if err := r.prepare(ctx, append(marked[markLoading], marked[markInPlace]...)); err != nil {
		if slices.ContainsFunc(marked[markInPlace], r.isTarget) { // an earlier run was loading it in place
			return r.halfRestored(err)
		}
		return untouched(err, r.targets())
	}
	err := r.load(ctx)
	if err == nil {
		err = r.loadFunctions(ctx)
	}
	if err == nil {
		err = r.swap(ctx)
	}
	if err == nil {
		return nil
	}
	return r.failed(ctx, err)
}

// failed says what a failure left, and gives up what was loaded, even when ctx has ended. What it cannot give up now, the next run
// does. A transaction whose answer was lost may have been done: then there is no failure.
func (r *redisRestore) failed(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	marked, lost := r.askAnew(ctx)
	switch {
	case lost != nil && r.swapping:
		return Transient(ReasonServerUnreachable, "%s went away while the restored databases were put in place: %w: %w", r.where(), err, errUnsure)
	case len(marked[markReplaced]) > 0 || len(marked[markDone]) > 0:
		return nil
	case r.inPlace:
		return r.halfRestored(err)
	case lost == nil:
		for _, database := range marked[markLoading] {
			lost = errors.Join(lost, r.empty(ctx, database, markLoading))
		}
	}
	if lost != nil {
		r.Log.Warn("could not drop what was loaded", "error", lost.Error())
	}
	return untouched(err, r.targets())
}

// askAnew connects once more, as the old connection may be in the midst of a value or lost, and asks for the marks.
func (r *redisRestore) askAnew(ctx context.Context) (map[string][]string, error) {
	c, err := openRedis(ctx, r.Access)
	if err != nil {
		return nil, err
	}
	r.close()
	r.redisConn = c
	if r.info, err = c.server(ctx); err != nil {
		return nil, err
	}
	return r.marked(ctx)
}

// prepare does all that can be known before anything is written.
func (r *redisRestore) prepare(ctx context.Context, loading []string) error {
	if err := r.isPrimary(); err != nil {
		return err
	}
	var err error
	if r.plan, err = planRedis(ctx, r.Artifact, r.items, r.begun); err != nil {
		return err
	}
	for _, item := range r.items {
		if slices.Contains(r.others, item.target) {
			return r.taken(item.target)
		}
		if err := r.mayLose(item, loading); err != nil {
			return err
		}
	}
	if err := r.hasRoom(); err != nil {
		return err
	}
	for _, database := range loading {
		if r.isTarget(database) {
			continue // it was being loaded in place, and will be again
		}
		if err := r.empty(ctx, database, markLoading); err != nil {
			return err
		}
	}
	err = r.claimSpares(ctx)
	if err == nil {
		err = r.readFormat(ctx)
	}
	if err != nil {
		r.unmark(ctx)
	}
	return err
}

func (r *redisRestore) isTarget(database string) bool {
	return slices.ContainsFunc(r.items, func(item *redisItem) bool { return item.target == database })
}

// mayLose fails when a database would be replaced that no safety backup holds: its keys came to be after the inspection.
func (r *redisRestore) mayLose(item *redisItem, loading []string) error {
	if !item.exists || slices.Contains(loading, item.target) {
		return nil
	}
	return r.needSaved(item.target, r.Options)
}

// hasRoom fails when keys of the server would be pushed out to make room.
func (r *redisRestore) hasRoom() error {
	most, used := r.info.number("maxmemory"), r.info.number("used_memory")
	if most == 0 || used+r.plan.bytes <= most {
		return nil
	}
	return Permanent(ReasonRestoreToolFailed, "%s has room for %d MiB more below its maxmemory, and the restore needs %d MiB at the least, beside the keys that it "+
		"replaces: raise maxmemory, or empty the database first (FLUSHDB), whose keys are in the safety backup, status.url, by now", r.where(),
		max(0, most-used)>>20, r.plan.bytes>>20+1)
}

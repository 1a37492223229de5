package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// claimSpares takes the highest numbers that hold no key. Where there are not enough the targets are loaded themselves.
func (r *redisRestore) claimSpares(ctx context.Context) error {
	count, err := r.databases(ctx)
	if err != nil {
		return err
	}
	now, err := r.server(ctx) // what an earlier run left is gone by now
	if err != nil {
		return err
	}
	held, at := now.keys(), 0
	for number := count - 1; number >= 0 && at < len(r.items); number-- {
		name := strconv.Itoa(number)
		if held[name] > 0 || r.isTarget(name) {
			continue
		}
		got, err := r.claim(ctx, name, markLoading)
		if err != nil {
			return err
		}
		if got {
			r.items[at].spare = name
			at++
		}
	}
	if at == len(r.items) {
		return nil
	}
	return r.claimTargets(ctx)
}

// claimTargets marks the targets themselves, unless there would be spares if no other restore had them.
func (r *redisRestore) claimTargets(ctx context.Context) error {
	if len(r.others) > 0 {
		return r.taken(r.others[0])
	}
	r.unmark(ctx)
	r.inPlace = true
	for _, item := range r.items {
		item.spare = item.target
		if got, err := r.claim(ctx, item.target, markInPlace); err != nil || !got {
			return cmp.Or(err, r.taken(item.target))
		}
	}
	return nil
}

// claim marks a database, which only one restore can. Where it is to be empty and another client has written to it since, it is given
// up again.
func (r *redisRestore) claim(ctx context.Context, database, state string) (bool, error) {
	if err := r.choose(ctx, database); err != nil {
		return false, err
	}
	before, err := r.text(ctx, "GET", redisMark)
	if err != nil {
		return false, err
	}
	if state == markInPlace && before != "" { // of this restore's earlier run, or of one that failed in place, to which this is the way back
		_, err := r.text(ctx, "SET", redisMark, r.mark(state))
		return true, err
	}
	answer, err := r.text(ctx, "SET", redisMark, r.mark(state), "NX")
	if err != nil {
		return false, err
	}
	if answer == "" {
		r.others = append(r.others, database)
		return false, nil
	}
	r.claimed = append(r.claimed, database)
	if state == markInPlace {
		return true, nil
	}
	keys, err := r.number(ctx, "DBSIZE")
	if err == nil && keys != 1 {
		_, err = r.number(ctx, "DEL", redisMark)
		return false, err
	}
	return true, err
}

// taken says that another restore is at work in a database.
func (r *redisRestore) taken(database string) error {
	return Transient(ReasonSwapFailed, "database %s of %s is in use by another restore, whose UID its key %s holds: this one is tried again. If no other runs, that one "+
		"was killed: FLUSHDB the database, which holds nothing but what it loaded or replaced", database, r.where(), redisMark)
}

// databases is how many numbers the server has. Where it does not tell, its own default is tried.
func (r *redisRestore) databases(ctx context.Context) (int, error) {
	reply, err := r.do(ctx, "CONFIG", "GET", "databases")
	if pair, _ := reply.([]any); err == nil && len(pair) == 2 {
		if text, _ := pair[1].(string); text != "" {
			return strconv.Atoi(text)
		}
	}
	if err != nil && !refusedBy(err) {
		return 0, r.redisError(err)
	}
	const usual = 16
	if err := r.choose(ctx, strconv.Itoa(usual-1)); err != nil {
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != ReasonDatabaseNotFound {
			return 0, err
		}
		return 1, nil
	}
	return usual, nil
}

// unmark takes the marks of this run away again, before anything was loaded. It flushes nothing: what is marked may be the target itself.
func (r *redisRestore) unmark(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	for _, database := range r.claimed {
		err := r.choose(ctx, database)
		if err == nil {
			_, err = r.number(ctx, "DEL", redisMark)
		}
		if err != nil {
			r.Log.Warn("could not take a mark away", "database", database, "error", err.Error())
		}
	}
	r.claimed = nil
}

// swap puts all databases in place at once.
func (r *redisRestore) swap(ctx context.Context) error {
	commands := [][]string{{"MULTI"}}
	for _, item := range r.items {
		if r.inPlace {
			commands = append(commands, []string{"SELECT", item.target}, []string{"SET", redisMark, r.mark(markDone)})
			continue
		}
		if err := r.guard(ctx, item); err != nil {
			return err
		}
		commands = append(commands, []string{"SWAPDB", item.target, item.spare}, []string{"SELECT", item.target}, []string{"DEL", redisMark},
			[]string{"SELECT", item.spare}, []string{"SET", redisMark, r.mark(markReplaced)})
	}
	r.swapping = true
	return r.transaction(ctx, append(commands, []string{"EXEC"}))
}

// guard lets the transaction fail if another restore marks the target, which may have been empty, or the spare is no longer ours.
func (r *redisRestore) guard(ctx context.Context, item *redisItem) error {
	for _, database := range []string{item.target, item.spare} {
		if err := r.choose(ctx, database); err != nil {
			return err
		}
		if _, err := r.text(ctx, "WATCH", redisMark); err != nil {
			return err
		}
		value, err := r.text(ctx, "GET", redisMark)
		if err != nil {
			return err
		}
		state, owner, _ := strings.Cut(value, " ")
		foreign := owner != r.UID && (state == markLoading || state == markReplaced)
		if foreign || (database == item.spare && value != r.mark(markLoading)) {
			return r.taken(database)
		}
	}
	return nil
}

// transaction sends commands from MULTI to EXEC. The server runs all of them or, where it refuses one, none.
func (r *redisRestore) transaction(ctx context.Context, commands [][]string) error {
	for _, command := range commands {
		if err := r.send(command...); err != nil {
			return r.redisError(err)
		}
	}
	if err := r.redisConn.flush(ctx); err != nil {
		return r.redisError(err)
	}
	var failed error
	var reply any
	for range commands {
		var err error
		reply, err = r.receive(ctx)
		if err != nil && !refusedBy(err) {
			return r.redisError(err)
		}
		failed = errors.Join(failed, err)
		list, _ := reply.([]any)
		for _, part := range list {
			if refused, ok := part.(redisRefusal); ok {
				failed = errors.Join(failed, refused)
			}
		}
	}
	if failed == nil && reply == nil { // EXEC found what is watched changed
		return r.taken(r.items[0].target)
	}
	if failed != nil {
		return Permanent(ReasonSwapFailed, "%s did not put the restored databases in place: %w", r.where(), failed)
	}
	return nil
}

// empty flushes a database that bears the mark of this state.
func (r *redisRestore) empty(ctx context.Context, database, state string) error {
	if err := r.choose(ctx, database); err != nil {
		return err
	}
	value, err := r.text(ctx, "GET", redisMark)
	if err != nil || value != r.mark(state) {
		return err
	}
	_, err = r.text(ctx, "FLUSHDB", "ASYNC")
	return err
}

// finish empties what was swapped out. The restore has succeeded by then, whoever asks to stop: what cannot be done becomes a note.
func (r *redisRestore) finish(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	marked, err := r.askAnew(ctx)
	if err == nil {
		err = r.removeMarked(ctx, marked)
	}
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("what was replaced could not be removed (%v): look for the key %s in each database; FLUSHDB the one where it says %q, and "+
			"DEL it where it says %q", err, redisMark, r.mark(markReplaced), r.mark(markDone)))
	}
}

func (r *redisRestore) removeMarked(ctx context.Context, marked map[string][]string) error {
	for _, state := range []string{markReplaced, markLoading} {
		for _, database := range marked[state] {
			if err := r.empty(ctx, database, state); err != nil {
				return err
			}
		}
	}
	for _, database := range marked[markDone] {
		if err := r.choose(ctx, database); err != nil {
			return err
		}
		if _, err := r.number(ctx, "DEL", redisMark); err != nil {
			return err
		}
	}
	return nil
}

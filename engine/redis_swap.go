package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// chooseSpares takes the highest numbers that hold no key. Where there are not enough the targets are loaded themselves.
func (r *redisRestore) chooseSpares(ctx context.Context) error {
	count, err := r.databases(ctx)
	if err != nil {
		return err
	}
	held := r.info.keys()
	var spares []string
	for number := count - 1; number >= 0 && len(spares) < len(r.items); number-- {
		name := strconv.Itoa(number)
		if held[name] == 0 && !r.isTarget(name) {
			spares = append(spares, name)
		}
	}
	r.inPlace = len(spares) < len(r.items)
	for i, item := range r.items {
		item.spare = item.target
		if !r.inPlace {
			item.spare = spares[i]
		}
	}
	return nil
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

// markSpares marks what will be loaded, and learns from the first mark which version of the format the server reads.
func (r *redisRestore) markSpares(ctx context.Context) error {
	for _, item := range r.items {
		if err := r.markSpare(ctx, item); err != nil {
			return err
		}
	}
	return r.readFormat(ctx)
}

// markSpare marks one database. Another client, such as another restore, may have found it empty at the same time: then both see
// more than their own key in it, and give it up.
func (r *redisRestore) markSpare(ctx context.Context, item *redisItem) error {
	if err := r.choose(ctx, item.spare); err != nil {
		return err
	}
	if _, err := r.text(ctx, "SET", r.mark(), markLoading); err != nil || r.inPlace {
		return err
	}
	keys, err := r.number(ctx, "DBSIZE")
	if err == nil && keys != 1 {
		err = Transient(ReasonSwapFailed, "database %s of %s was empty and was filled while this restore began", item.spare, r.where())
	}
	return err
}

// unmark takes the marks away again, before anything was loaded. It flushes nothing: what is marked may be the target itself.
func (r *redisRestore) unmark(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	for _, item := range r.items {
		err := r.choose(ctx, item.spare)
		if err == nil {
			_, err = r.number(ctx, "DEL", r.mark())
		}
		if err != nil {
			r.Log.Warn("could not take a mark away", "database", item.spare, "error", err.Error())
		}
	}
}

// swap puts all databases in place at once.
func (r *redisRestore) swap(ctx context.Context) error {
	commands := [][]string{{"MULTI"}}
	for _, item := range r.items {
		if r.inPlace {
			commands = append(commands, []string{"SELECT", item.target}, []string{"SET", r.mark(), markDone})
			continue
		}
		commands = append(commands, []string{"SWAPDB", item.target, item.spare}, []string{"SELECT", item.target}, []string{"DEL", r.mark()},
			[]string{"SELECT", item.spare}, []string{"SET", r.mark(), markReplaced})
	}
	return r.transaction(ctx, append(commands, []string{"EXEC"}))
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
	for range commands {
		reply, err := r.receive(ctx)
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
	if failed != nil {
		return Permanent(ReasonSwapFailed, "%s did not put the restored databases in place: %w", r.where(), failed)
	}
	return nil
}

// empty flushes a database that bears the mark.
func (r *redisRestore) empty(ctx context.Context, database string) error {
	if err := r.choose(ctx, database); err != nil {
		return err
	}
	state, err := r.text(ctx, "GET", r.mark())
	if err != nil || state == "" {
		return err
	}
	_, err = r.text(ctx, "FLUSHDB", "ASYNC")
	return err
}

// cleanUp empties the spares, even when ctx has ended. What it cannot empty now, the next run does.
func (r *redisRestore) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	c, err := openRedis(ctx, r.Access) // the old connection may be in the midst of a value
	if err == nil {
		r.close()
		r.redisConn = c
		for _, item := range r.items {
			err = errors.Join(err, r.empty(ctx, item.spare))
		}
	}
	if err != nil {
		r.Log.Warn("could not drop what was loaded", "error", err.Error())
	}
}

// finish empties what was swapped out. The restore has succeeded by then, whoever asks to stop: what cannot be done becomes a note.
func (r *redisRestore) finish(ctx context.Context) {
	ctx, cancel := outlast(ctx, finishPatience, stopPatience)
	defer cancel()
	c, err := openRedis(ctx, r.Access)
	if err == nil {
		r.close()
		r.redisConn = c
		err = r.removeMarked(ctx)
	}
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("what was replaced could not be removed (%v): look for the key %s in each database; FLUSHDB the one where it says %q, and "+
			"DEL it where it says %q", err, r.mark(), markReplaced, markDone))
	}
}

func (r *redisRestore) removeMarked(ctx context.Context) error {
	var err error
	if r.info, err = r.server(ctx); err != nil {
		return err
	}
	marked, err := r.marked(ctx)
	if err != nil {
		return err
	}
	for _, database := range append(marked[markReplaced], marked[markLoading]...) {
		if err := r.empty(ctx, database); err != nil {
			return err
		}
	}
	for _, database := range marked[markDone] {
		if err := r.choose(ctx, database); err != nil {
			return err
		}
		if _, err := r.number(ctx, "DEL", r.mark()); err != nil {
			return err
		}
	}
	return nil
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file is what the restores of all engines have in common.

// How long what a restore left is cleared away, and how much longer once somebody asked to stop, as a pod that is told to end has
// 30 seconds.
const (
	finishPatience = 2 * time.Minute
	stopPatience   = 10 * time.Second
)

// namePair says which database of an artifact is restored under which name.
type namePair struct{ source, target string }

// restoreNames pairs the databases of an artifact with those that are wanted.
func restoreNames(artifact Artifact, wanted []string) ([]namePair, error) {
	if artifact.Format == formatPgCluster || len(artifact.Databases) > 1 {
		return clusterNames(artifact.Databases, wanted)
	}
	source := ""
	if len(artifact.Databases) > 0 {
		source = artifact.Databases[0]
	}
	switch {
	case len(wanted) == 1:
		return []namePair{{source, wanted[0]}}, nil
	case len(wanted) > 1:
		return nil, Permanent(ReasonInvalidTask, "the artifact holds one database, and spec.database.names has %d names: leave "+
			"one, the name that it is restored under", len(wanted))
	case source == "":
		return nil, Permanent(ReasonInvalidTask, "the artifact does not say of which database it is: set spec.database.names to "+
			"the one name that it is restored under")
	}
	return []namePair{{source, source}}, nil
}

func clusterNames(held, wanted []string) ([]namePair, error) {
	var pairs []namePair
	for _, name := range wanted {
		if !slices.Contains(held, name) {
			return nil, Permanent(ReasonDatabaseNotFound, "the artifact holds no database %q: it holds %q", name, held)
		}
	}
	for _, name := range held {
		if len(wanted) == 0 || slices.Contains(wanted, name) {
			pairs = append(pairs, namePair{name, name})
		}
	}
	return pairs, nil
}

// temporaryName of a database: kind is new or old.
func temporaryName(kind, uid string, index int) string {
	id := strings.ReplaceAll(strings.ToLower(uid), "-", "")
	name := "holdfast_" + kind + "_" + id[:min(12, len(id))]
	if index > 0 {
		name += fmt.Sprintf("_%d", index)
	}
	return name
}

var errTooLong = errors.New("it took too long")

// outlast returns a context for what must still be done when ctx ends. It ends after patience, or grace after ctx.
func outlast(ctx context.Context, patience, grace time.Duration) (context.Context, func()) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	late := time.AfterFunc(patience, func() { cancel(errTooLong) })
	forget := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	return lasting, func() {
		late.Stop()
		forget()
		cancel(nil)
	}
}

// errUnsure is part of an error that leaves open what became of the swap.
var errUnsure = errors.New("whether they are in place is found out by the next try")

// needUID fails where what a restore makes for a while could not be named after it.
func (a Access) needUID() error {
	if len(strings.ReplaceAll(a.UID, "-", "")) >= 12 {
		return nil
	}
	return Permanent(ReasonInvalidTask, "the task's object has no UID to name by what is made for a while")
}

// needSaved fails when a database would be replaced that no safety backup holds: it came to be after the inspection.
func (a Access) needSaved(database string, options RestoreOptions) error {
	if !options.SavedOnly || slices.Contains(options.Saved, database) {
		return nil
	}
	return Permanent(ReasonTargetNotSaved, "database %q of %s came to be after this restore looked, so no safety backup holds it: create a new "+
		"DatabaseRestore, which will save it first", database, a.where())
}

// named names databases for people, for the beginning of a sentence.
func named(databases []string) string {
	if len(databases) == 1 {
		return "database " + databases[0]
	}
	return "databases " + strings.Join(databases, ", ")
}

// untouched says of a failure that it left the databases as they were, unless that is not known.
func untouched(err error, databases []string) error {
	was := " was not touched"
	if len(databases) > 1 {
		was = " were not touched"
	}
	if errors.Is(err, errUnsure) {
		return err
	}
	return withOutcome(err, named(databases)+was)
}

// withOutcome says in a message for people what became of the databases.
func withOutcome(err error, outcome string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &Error{Reason: e.Reason, Message: e.Message + " (" + outcome + ")", Retryable: e.Retryable, cause: err}
}

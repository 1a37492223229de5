// Package flow leads an object through its steps: what a step's error means, which condition it becomes, and the one
// place where status is written.
package flow

import (
	"errors"
	"fmt"
	"time"
)

// Stall ends an object for good. Trying again cannot help until a person changes something and makes a new object.
type Stall struct {
	// Reason is one CamelCase word: the reason of the Stalled condition.
	Reason string
	// Message is for people: what failed, on which object, why, what to do next.
	Message string
}

func (s *Stall) Error() string { return s.Reason + ": " + s.Message }

// Stalled returns an error that ends the object for good.
func Stalled(reason, format string, args ...any) error {
	return &Stall{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Wait says that a step is under way. The object is looked at again when something it owns changes, and after the
// given time at the latest.
type Wait struct {
	After   time.Duration
	Message string
}

func (w *Wait) Error() string { return w.Message }

// Waiting returns an error that leaves the object where it is and looks again after a while.
func Waiting(after time.Duration, format string, args ...any) error {
	return &Wait{After: after, Message: fmt.Sprintf(format, args...)}
}

// AsStall returns the Stall in an error's chain.
func AsStall(err error) (*Stall, bool) {
	return errors.AsType[*Stall](err)
}

// AsWait returns the Wait in an error's chain.
func AsWait(err error) (*Wait, bool) {
	return errors.AsType[*Wait](err)
}

// atStep is the error of a step that is not done, with the sentence that tells people what the step begins.
type atStep struct {
	error
	begins string
}

func (e *atStep) Unwrap() error { return e.error }

// noted is an error with something that people are told beside it.
type noted struct {
	error
	reason, text string
}

func (n *noted) Unwrap() error { return n.error }

// Noted returns an error that also has a Warning event sent about the subject, once status is written.
func Noted(err error, reason, text string) error { return &noted{err, reason, text} }

// beginsOf returns the sentence of the step that an error comes from, or nothing where there is none.
func beginsOf(err error) string {
	if at, ok := errors.AsType[*atStep](err); ok {
		return at.begins
	}
	return ""
}

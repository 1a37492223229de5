package flow

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Step is one stage of an object's work. It is run again from the start whenever the object is looked at, so it reads
// what is there, does what is missing, and returns nil only when it is done.
type Step struct {
	// Stage is the reason of the Ready condition while the step is at work.
	Stage string
	// Begins is the event that is sent when the stage is the first that is not done: one sentence that says what begins.
	// Empty: what the step waits for says it best.
	Begins string
	// Failed is the reason of the Ready condition when the step stalled.
	Failed string
	// Condition is what the step makes True, and is skipped by when it is. Empty: the step has none and always runs.
	Condition string
	// Do returns nil when the step is done, a Stall or a Wait, or any other error, which is shown and tried again.
	Do func(context.Context) error
}

// Run leads a subject through its steps up to the first that is not done, and returns that step's error. Conditions
// are set on the subject in memory; Writer.Finish makes them last.
func Run(ctx context.Context, subject Subject, now time.Time, timeout time.Duration, steps []Step) error {
	for _, step := range steps {
		if step.Condition != "" && IsTrue(subject, step.Condition) {
			continue
		}
		if err := runStep(ctx, subject, now, timeout, step); err != nil {
			return &atStep{err, step.Begins}
		}
	}
	return nil
}

func runStep(ctx context.Context, subject Subject, now time.Time, timeout time.Duration, step Step) error {
	err := step.Do(ctx)
	if err == nil {
		return nil
	}
	if cause, ok := AsStall(err); ok {
		message := advise(subject, cause.Message)
		if cause.Reason == v1alpha1.ReasonDeadlineExceeded {
			// A Job has what is left of the time as its own deadline, and may come to its end first.
			message = deadlineMessage(subject, timeout, step, cause.Message)
		}
		return stall(subject, now, step, &Stall{Reason: cause.Reason, Message: message})
	}
	if late := Remaining(subject, now, timeout) <= 0; late {
		return stall(subject, now, step, &Stall{
			Reason: v1alpha1.ReasonDeadlineExceeded, Message: deadlineMessage(subject, timeout, step, err.Error()),
		})
	}
	if wait, ok := AsWait(err); ok {
		show(subject, step, wait.Message)
		wait.After = min(wait.After, Remaining(subject, now, timeout)+time.Second)
	} else if !isNoise(ctx, err) {
		show(subject, step, "trying again after an error: "+err.Error())
	}
	return err
}

// show says on the subject what a step is waiting for.
func show(subject Subject, step Step, message string) {
	if step.Condition != "" {
		MarkFalse(subject, step.Condition, step.Stage, message)
	}
	MarkFalse(subject, v1alpha1.ConditionReady, step.Stage, message)
}

// isNoise says whether an error is part of normal work, which the next look gets over: somebody was faster, or the
// manager is stopping. A request that timed out while the manager goes on is none.
func isNoise(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.Canceled) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// Remaining is how much of its timeout a subject has left; the whole of it before the work began.
func Remaining(subject Subject, now time.Time, timeout time.Duration) time.Duration {
	start := *subject.Progress().StartTime
	if start == nil {
		return timeout
	}
	return start.Add(timeout).Sub(now)
}

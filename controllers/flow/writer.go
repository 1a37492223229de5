package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
)

// maxNote is the most that the events API allows in a note.
const maxNote = 1024

// afresh is when an object is looked at again that changed, or went, while it was worked on.
const afresh = 200 * time.Millisecond

// Writer is the one place where status is written and events are sent.
type Writer struct {
	Client   client.Client
	Recorder events.EventRecorder
}

// Finish writes what a reconciliation changed in status, once, and tells people about it after it landed. It turns
// the error of the steps into what the queue should do: nil and a Stall end the work, a Wait comes back later, and
// anything else is tried again with growing delays.
func (w Writer) Finish(ctx context.Context, before, after Subject, cause error) (ctrl.Result, error) {
	landed, err := w.write(ctx, before, after, beginsOf(cause))
	if err != nil {
		return ctrl.Result{}, err
	}
	if !landed {
		return ctrl.Result{RequeueAfter: afresh}, nil
	}
	if note, is := errors.AsType[*noted](cause); is {
		w.Event(after, corev1.EventTypeWarning, note.reason, "Reconcile", note.text)
	}
	return ResultOf(ctx, cause)
}

// Write writes what changed in status, if anything did, and tells people about it. It returns false when the object
// changed or went meanwhile, so that all must be looked at afresh.
func (w Writer) Write(ctx context.Context, before, after Subject) (bool, error) {
	return w.write(ctx, before, after, "")
}

// Note is Write for what stands in status alone: what an object waits for before its work begins is no event.
func (w Writer) Note(ctx context.Context, before, after Subject) (bool, error) {
	return w.patch(ctx, before, after)
}

func (w Writer) write(ctx context.Context, before, after Subject, begins string) (bool, error) {
	landed, err := w.patch(ctx, before, after)
	if landed {
		w.tell(ctx, before, after, begins)
	}
	return landed, err
}

// patch returns true when the server has what after says.
func (w Writer) patch(ctx context.Context, before, after Subject) (bool, error) {
	*after.Progress().ObservedGeneration = after.GetGeneration()
	// Only status may differ here: metadata is patched on its own, and reaches both copies.
	if equality.Semantic.DeepEqual(before, after) {
		return true, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := w.Client.Status().Patch(ctx, after, patch)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing status: %w", err)
	}
	return true, nil
}

// ResultOf turns the error of a step into what the queue should do.
func ResultOf(ctx context.Context, cause error) (ctrl.Result, error) {
	if cause == nil {
		return ctrl.Result{}, nil
	}
	if stall, ok := AsStall(cause); ok {
		log.FromContext(ctx).Info("failed for good", "reason", stall.Reason, "message", stall.Message)
		return ctrl.Result{}, nil
	}
	if wait, ok := AsWait(cause); ok {
		return ctrl.Result{RequeueAfter: wait.After}, nil
	}
	return ctrl.Result{}, cause
}

// tell sends an event for each stage that began, with the sentence of its step, and for the end.
func (w Writer) tell(ctx context.Context, before, after Subject, begins string) {
	was, is := readyOf(before), readyOf(after)
	if is == nil || (was != nil && was.Reason == is.Reason && was.Status == is.Status) {
		return
	}
	if was == nil && is.Status == metav1.ConditionTrue && after.Progress().StartTime == nil {
		return // a schedule that is followed from the start is no news
	}
	log.FromContext(ctx).Info("stage", "reason", is.Reason, "message", is.Message)
	kind, note := corev1.EventTypeNormal, is.Message
	switch {
	case IsTrue(after, v1alpha1.ConditionStalled), after.Progress().StartTime == nil && is.Status == metav1.ConditionFalse:
		// What has no stages, a schedule, is Ready unless something is wrong.
		kind = corev1.EventTypeWarning
	case is.Status == metav1.ConditionFalse && begins != "":
		note = begins
	}
	w.Event(after, kind, is.Reason, "Reconcile", note)
}

// Event sends an event about an object, cut to what the events API allows.
func (w Writer) Event(about client.Object, kind, reason, action, note string) {
	w.Recorder.Eventf(about, nil, kind, reason, action, "%s", contract.CutMiddle(note, maxNote))
}

func readyOf(subject Subject) *metav1.Condition {
	return meta.FindStatusCondition(*subject.Progress().Conditions, v1alpha1.ConditionReady)
}

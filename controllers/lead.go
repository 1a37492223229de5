package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// kind is what tells one kind of object from another.
type kind[S flow.Subject] interface {
	// advance leads an object through its stages as far as they are done.
	advance(ctx context.Context, subject S) error
	// tidy removes what an ended object needs no more.
	tidy(ctx context.Context, subject S) error
	// reconcileDelete lets a deleted object go once nothing is left of it but what policy says.
	reconcileDelete(ctx context.Context, subject S) error
}

// lead looks at one object: it is gone, deleted, ended, or has work to do. subject is read into.
func lead[S flow.Subject](ctx context.Context, c Common, request ctrl.Request, subject S, k kind[S]) (ctrl.Result, error) {
	if err := c.load(ctx, request.NamespacedName, subject); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case subject.GetUID() == "":
		return ctrl.Result{}, nil
	case !subject.GetDeletionTimestamp().IsZero():
		return flow.ResultOf(ctx, k.reconcileDelete(ctx, subject))
	case flow.Ended(subject):
		return flow.ResultOf(ctx, k.tidy(ctx, subject))
	}
	if err := c.begin(ctx, subject); err != nil {
		return ctrl.Result{}, err
	}
	before := subject.DeepCopyObject().(S)
	if start := subject.Progress().StartTime; *start == nil {
		now := metav1.NewTime(c.Now())
		*start = &now
	}
	result, err := c.Writer.Finish(ctx, before, subject, k.advance(ctx, subject))
	if err != nil || !flow.Ended(subject) || result.RequeueAfter > 0 {
		return result, err // the end that could not be written has not come: nothing may be removed yet
	}
	// The cache may not know yet of what was made a moment ago, so the tidying is done once more when it does.
	return ctrl.Result{RequeueAfter: poll}, k.tidy(ctx, subject)
}

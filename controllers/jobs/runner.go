package jobs

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// poll is how often a Job that is under way is looked at, beside the looks that its changes cause: a pod's waiting
// state does not change its Job.
const poll = 5 * time.Second

// Runner creates Jobs once, and observes them from then on. A Job is never updated.
type Runner struct {
	// Client reads from the cache, which holds only what carries our label.
	Client client.Client
	// Live reads from the API server, for what the cache may not know yet.
	Live client.Reader
	// AgentImage is the image with the agent: the operator's own.
	AgentImage string
	// StartTimeout is how long a pod may take until its containers run.
	StartTimeout time.Duration
	Now          func() time.Time
}

// Run returns the result of a blueprint's Job once it succeeded, a Wait while it is under way, and a Stall when it
// failed for good.
func (r Runner) Run(ctx context.Context, b Blueprint) (contract.Result, error) {
	b.AgentImage = r.AgentImage
	job, err := r.ensure(ctx, b)
	if err != nil {
		return contract.Result{}, err
	}
	if !job.DeletionTimestamp.IsZero() {
		return contract.Result{}, flow.Waiting(poll, "Job %s is being deleted and will be made anew", job.Name)
	}
	pods, err := r.pods(ctx, job)
	if err != nil {
		return contract.Result{}, err
	}
	return r.judge(ctx, job, Observe(job, pods, r.Now(), r.StartTimeout))
}

func (r Runner) judge(ctx context.Context, job *batchv1.Job, outcome Outcome) (contract.Result, error) {
	switch outcome.State {
	case Succeeded:
		return outcome.Result, nil
	case Failed:
		if outcome.Reason == v1alpha1.ReasonPodCannotStart {
			why := r.whyNoPod(ctx, job, outcome.NoPod)
			if outcome.NoPod && why == "" {
				return contract.Result{}, flow.Waiting(poll, "Job %s has no pod at the moment", job.Name)
			}
			outcome.Message += why
		}
		return contract.Result{}, flow.Stalled(outcome.Reason, "%s", withAdvice(outcome))
	case Lost:
		if err := r.Delete(ctx, job); err != nil {
			return contract.Result{}, err
		}
		return contract.Result{}, flow.Waiting(poll, "Job %s succeeded but its pod is gone: running it again", job.Name)
	case Running:
	}
	return contract.Result{}, flow.Waiting(poll, "%s", withAdvice(outcome))
}

// withAdvice puts the fields to look at behind what the cluster says.
func withAdvice(outcome Outcome) string {
	if outcome.Advice == "" {
		return outcome.Message
	}
	return strings.TrimRight(outcome.Message, ". ") + ". " + outcome.Advice
}

// ensure returns the blueprint's Job, made if it was not there.
func (r Runner) ensure(ctx context.Context, b Blueprint) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	key := client.ObjectKey{Namespace: b.Owner.GetNamespace(), Name: b.Name()}
	err := r.Client.Get(ctx, key, job)
	if err == nil {
		return job, CheckOwner(job, b.Owner)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Job %s: %w", key, err)
	}
	if b.Deadline <= 0 {
		return nil, flow.Waiting(poll, "no time is left to run Job %s", key.Name)
	}
	wanted, err := Build(b)
	if err != nil {
		return nil, err
	}
	if !b.Owner.GetDeletionTimestamp().IsZero() {
		// An owner that is deleted in the foreground has its children deleted by the garbage collector, and with them
		// the Job that cleans up behind it. So that one has no owner reference; its label and its TTL are enough.
		return wanted, CreateOrAdopt(ctx, r.Client, r.Live, b.Owner, wanted)
	}
	return wanted, CreateOnce(ctx, r.Client, r.Live, b.Owner, wanted)
}

// CreateOnce creates an owner's child. One that is there already is read into child if it is ours (an earlier try
// made it and the cache does not know yet), and refused if it is not.
func CreateOnce(ctx context.Context, c client.Client, live client.Reader, owner, child client.Object) error {
	if err := controllerutil.SetControllerReference(owner, child, c.Scheme()); err != nil {
		return fmt.Errorf("taking ownership of %s: %w", child.GetName(), err)
	}
	return CreateOrAdopt(ctx, c, live, owner, child)
}

// CreateOrAdopt is CreateOnce for a child that shall outlive its owner, and so has no owner reference.
func CreateOrAdopt(ctx context.Context, c client.Client, live client.Reader, owner, child client.Object) error {
	err := c.Create(ctx, child)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		if err := live.Get(ctx, client.ObjectKeyFromObject(child), child); err != nil {
			return fmt.Errorf("reading %s that is there already: %w", child.GetName(), err)
		}
		return CheckOwner(child, owner)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return flow.Stalled(v1alpha1.ReasonRefused, "the API server refused %s %s/%s: %v",
			kindOf(child), child.GetNamespace(), child.GetName(), err)
	}
	return fmt.Errorf("creating %s %s: %w", kindOf(child), child.GetName(), err)
}

// kindOf an object as people know it: Job, and not *v1.Job.
func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// CheckOwner refuses an object that bears a child's name and belongs to somebody else.
func CheckOwner(child, owner client.Object) error {
	if child.GetLabels()[v1alpha1.LabelOwnerUID] == string(owner.GetUID()) {
		return nil
	}
	return flow.Stalled(v1alpha1.ReasonNameConflict, "%s %s/%s exists and was not made for this object: "+
		"rename or delete it", kindOf(child), child.GetNamespace(), child.GetName())
}

// pods of a Job, as the cache has them. Of a finished Job they are read live: the caches of Jobs and of pods lag on
// their own, and a result that is not seen would have the work done twice.
func (r Runner) pods(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	var reader client.Reader = r.Client
	if Finished(job) {
		reader = r.Live
	}
	var pods corev1.PodList
	err := reader.List(ctx, &pods, client.InNamespace(job.Namespace),
		client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}
	return pods.Items, nil
}

// whyNoPod finds what the cluster said last about a Job or its pods that could not start. It reads events, and only
// in this case: nothing else tells of a quota or of a pod security standard that refuses a pod.
func (r Runner) whyNoPod(ctx context.Context, job *batchv1.Job, noPod bool) string {
	var list corev1.EventList
	if err := r.Live.List(ctx, &list, client.InNamespace(job.Namespace), client.Limit(500)); err != nil {
		return ""
	}
	var last corev1.Event
	for _, event := range list.Items {
		ours := strings.HasPrefix(event.InvolvedObject.Name, job.Name)
		fresh := r.Now().Sub(happened(event)) < r.StartTimeout
		if noPod && event.Reason != "FailedCreate" { // what the Job controller says of a pod that is refused
			continue
		}
		if ours && fresh && event.Type == corev1.EventTypeWarning && !happened(event).Before(happened(last)) {
			last = event
		}
	}
	if last.Message == "" {
		return ""
	}
	return ". The cluster says: " + last.Message
}

// happened is when an event was last seen: its sender sets one of several fields.
func happened(event corev1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}

// Delete deletes a Job and, before it is gone, its pods: their agents get to clean up.
func (r Runner) Delete(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: &job.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}
	return nil
}

// Of lists the Jobs that belong to an owner, from the cache.
func (r Runner) Of(ctx context.Context, owner client.Object) ([]batchv1.Job, error) {
	var list batchv1.JobList
	err := r.Client.List(ctx, &list, client.InNamespace(owner.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(owner.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(job batchv1.Job) bool { // a copy with our labels is not ours
		return job.Name != ChildName(owner, job.Labels[v1alpha1.LabelStage])
	}), nil
}

// Finished says whether a Job came to an end, good or bad.
func Finished(job *batchv1.Job) bool {
	return isTrue(job, batchv1.JobComplete) || isTrue(job, batchv1.JobFailed)
}

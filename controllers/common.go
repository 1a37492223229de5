package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/snapshots"
)

// poll is how often something that is going away is looked at.
const poll = 2 * time.Second

// Common is what all reconcilers work with.
type Common struct {
	Options
	// Client reads Jobs, pods and claims from a cache of those that carry our label.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Writer flow.Writer
	Jobs   jobs.Runner
	// Cluster reads storage and snapshot classes, and claims that are not ours.
	Cluster   snapshots.Cluster
	Snapshots snapshots.Taker
	// Queue gives places to the backups, of which only so many run at once.
	Queue *Queue
}

// Options are what whoever runs the operator may choose.
type Options struct {
	// AgentImage is the image with the agent.
	AgentImage string
	// Images are the engines that this operator serves, with the image of their client tools.
	Images map[v1alpha1.Engine]string
	// PodStartTimeout is how long a pod may take until its containers run.
	PodStartTimeout time.Duration
	// DeletionTimeout is how long a deleted object may take to end its work and remove what its policy names,
	// before it lets go.
	DeletionTimeout time.Duration
	// ExpiryTimeout is the same for a backup that retention deletes, for which nobody waits.
	ExpiryTimeout time.Duration
	// MaxRunning is how many backups run at once, MaxRunningPerNamespace how many in each namespace; others wait. 0: there
	// is no such limit.
	MaxRunning, MaxRunningPerNamespace int
	Now                                func() time.Time
}

// NewCommon wires what all reconcilers work with.
func NewCommon(mgr ctrl.Manager, o Options) (Common, error) {
	recorder, err := newRecorder(mgr, "holdfast")
	return Wire(mgr.GetClient(), mgr.GetAPIReader(), recorder, o), err
}

// Wire is NewCommon for a client that reads from a cache with the indexes of package index, and a reader of the API server.
func Wire(c client.Client, live client.Reader, recorder events.EventRecorder, o Options) Common {
	return Common{
		Options: o, Client: c, Live: live,
		Writer:    flow.Writer{Client: c, Recorder: recorder},
		Jobs:      jobs.Runner{Client: c, Live: live, AgentImage: o.AgentImage, StartTimeout: o.PodStartTimeout, Now: o.Now},
		Cluster:   snapshots.Cluster{Live: live},
		Snapshots: snapshots.Taker{Client: c, Live: live, Now: o.Now},
		Queue:     &Queue{Client: c, Total: o.MaxRunning, PerNamespace: o.MaxRunningPerNamespace},
	}
}

// load reads an object from the cache, and afresh when there is work to do: a stale copy of an object that has just
// ended would have its Jobs made again.
func (c Common) load(ctx context.Context, key client.ObjectKey, subject flow.Subject) error {
	if err := c.Client.Get(ctx, key, subject); err != nil {
		return client.IgnoreNotFound(err)
	}
	if flow.Ended(subject) && subject.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := c.Live.Get(ctx, key, subject); err != nil {
		subject.SetUID("")
		return client.IgnoreNotFound(err)
	}
	return nil
}

// timeToDelete is how long a deleted object may still take.
func (c Common) timeToDelete(object client.Object) time.Duration {
	return object.GetDeletionTimestamp().Add(c.DeletionTimeout).Sub(c.Now())
}

// begin gives an object its finalizer.
func (c Common) begin(ctx context.Context, subject flow.Subject) error {
	if controllerutil.ContainsFinalizer(subject, v1alpha1.Finalizer) {
		return nil
	}
	before := subject.DeepCopyObject().(client.Object)
	controllerutil.AddFinalizer(subject, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, subject, patch); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// letGo removes the finalizer: the object may go.
func (c Common) letGo(ctx context.Context, subject flow.Subject) error {
	before := subject.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(subject, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.Client.Patch(ctx, subject, patch)); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// removeJobs deletes those of the owner's Jobs that remove says yes to, and returns how many are not gone yet.
func (c Common) removeJobs(ctx context.Context, owner client.Object, remove func(stage contract.Verb) bool) (int, error) {
	list, err := c.Jobs.Of(ctx, owner)
	if err != nil {
		return 0, err
	}
	left := 0
	for i := range list {
		job := &list[i]
		if !remove(contract.Verb(job.Labels[v1alpha1.LabelStage])) {
			continue
		}
		left++
		if !job.DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.Jobs.Delete(ctx, job); err != nil {
			return left, err
		}
	}
	return left, nil
}

func everyJob(contract.Verb) bool { return true }

// blueprintFor is what the Jobs of both kinds are built from alike.
func (c Common) blueprintFor(owner flow.Subject, kind string, verb contract.Verb, timeout time.Duration, backoffLimit *int32,
	template v1alpha1.PodTemplate) jobs.Blueprint {
	return jobs.Blueprint{
		Owner:        owner,
		Task:         contract.Task{Version: contract.Version, Verb: verb, Object: reference(owner, kind)},
		PodTemplate:  template,
		BackoffLimit: ptr.Deref(backoffLimit, 2),
		Deadline:     flow.Remaining(owner, c.Now(), timeout),
	}
}

// onStaging lets a blueprint's Job work on the owner's staging claim, which is made if it is not there.
func (c Common) onStaging(ctx context.Context, b jobs.Blueprint, spec v1alpha1.StagingSpec, size resource.Quantity) (jobs.Blueprint, error) {
	claim, err := c.ensureStaging(ctx, b.Owner, spec, size)
	if err != nil {
		return jobs.Blueprint{}, err
	}
	b.StagingClaim = claim
	b.Task.StagingSizeBytes = size.Value()
	return b, nil
}

// ensureStaging makes the staging claim of an owner if it is not there.
func (c Common) ensureStaging(ctx context.Context, owner client.Object, spec v1alpha1.StagingSpec, size resource.Quantity) (string, error) {
	name := stagingName(owner)
	claim := &corev1.PersistentVolumeClaim{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, claim)
	if err == nil {
		return name, jobs.CheckOwner(claim, owner)
	}
	if !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading the staging claim %s: %w", name, err)
	}
	claim = jobs.StagingClaim(owner, name, spec.StorageClassName, size)
	return name, jobs.CreateOnce(ctx, c.Client, c.Live, owner, claim)
}

func stagingName(owner client.Object) string { return jobs.ChildName(owner, "staging") }

func (c Common) removeStaging(ctx context.Context, owner client.Object) error {
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: stagingName(owner)}
	if err := c.Client.Get(ctx, key, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.Labels[v1alpha1.LabelOwnerUID] != string(owner.GetUID()) || !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := client.IgnoreNotFound(c.Client.Delete(ctx, claim)); err != nil {
		return fmt.Errorf("deleting the staging claim %s: %w", key, err)
	}
	return nil
}

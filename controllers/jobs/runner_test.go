package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// bench is a Runner at work for one backup, with a Job controller beside it.
type bench struct {
	jobs.Runner
	server client.WithWatch
	clock  *testutil.Clock
	world  testutil.Cluster
	hidden func(client.Object) bool // what the cache does not know yet
	refuse error                    // what the API server says to every creation
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{clock: testutil.NewClock(), hidden: func(client.Object) bool { return false }}
	b.server = testutil.NewFake(t, b.clock, blueprint().Owner)
	b.world = testutil.Cluster{Client: b.server, Now: b.clock.Now}
	refusing := interceptor.NewClient(b.server, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if b.refuse != nil {
				return b.refuse
			}
			return c.Create(ctx, object, opts...)
		},
	})
	b.Runner = jobs.Runner{
		Client: testutil.Cached(refusing, func(o client.Object) bool { return b.hidden(o) }), Live: b.server,
		AgentImage: "holdfast:test", StartTimeout: startTimeout, Now: b.clock.Now,
	}
	return b
}

func (b *bench) run(t *testing.T) (contract.Result, error) {
	t.Helper()
	return b.Run(t.Context(), blueprint())
}

// job returns the one Job that there is.
func (b *bench) job(t *testing.T) *batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := b.server.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("there are %d Jobs, want 1", len(list.Items))
	}
	return &list.Items[0]
}

func (b *bench) finish(t *testing.T, result contract.Result) {
	t.Helper()
	if err := b.world.Finish(t.Context(), b.job(t), result); err != nil {
		t.Fatal(err)
	}
}

func expectWait(t *testing.T, err error, says string) {
	t.Helper()
	if wait, ok := flow.AsWait(err); !ok || !strings.Contains(wait.Message, says) || wait.After <= 0 {
		t.Fatalf("the error is %v, want a Wait that says %q", err, says)
	}
}

func expectStall(t *testing.T, err error, reason, says string) {
	t.Helper()
	if stall, ok := flow.AsStall(err); !ok || stall.Reason != reason || !strings.Contains(stall.Message, says) {
		t.Fatalf("the error is %v, want a Stall for %s that says %q", err, reason, says)
	}
}

func TestRunMakesAJobOnceAndReturnsItsResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		_, err := b.run(t)
		expectWait(t, err, "no pod yet")
	}
	job := b.job(t)
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != blueprint().Owner.GetUID() {
		t.Errorf("the Job's controller is %v, so its changes wake nobody", owner)
	}
	if job.Spec.Template.Spec.InitContainers[0].Image != "holdfast:test" {
		t.Error("the Job does not use the operator's own image for the agent")
	}
	b.finish(t, testutil.Result(blueprint().Task))
	result, err := b.run(t)
	if err != nil || *result.Artifact != *testutil.Artifact() {
		t.Errorf("the result is %+v (%v)", result, err)
	}
}

func TestRunForADeletedOwnerMakesAJobThatNoCollectorTakes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := blueprint()
	now := metav1.NewTime(testutil.Start)
	late.Owner.SetDeletionTimestamp(&now)
	_, err := b.Run(t.Context(), late)
	expectWait(t, err, "")
	if owners := b.job(t).OwnerReferences; len(owners) > 0 {
		t.Errorf("the Job belongs to %v, and goes before it could clean up when that is deleted in the foreground", owners)
	}
	if _, err = b.Run(t.Context(), late); err != nil {
		expectWait(t, err, "")
	}
}

func TestRunAdoptsAJobThatTheCacheDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "")
	b.finish(t, testutil.Result(blueprint().Task))
	b.hidden = func(object client.Object) bool { _, isJob := object.(*batchv1.Job); return isJob }
	if result, err := b.run(t); err != nil || result.Artifact == nil {
		t.Errorf("the Job that is there was not adopted: %+v, %v", result, err)
	}
}

func TestRunReadsAResultThatTheCacheDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]contract.Result{
		"a success": testutil.Result(blueprint().Task),
		"a failure": testutil.Failure(contract.VerbDump, "StagingFull", "the claim is full"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.run(t)
			expectWait(t, err, "")
			b.finish(t, result)
			b.hidden = func(object client.Object) bool { _, isPod := object.(*corev1.Pod); return isPod }
			got, err := b.run(t)
			if result.Failure != nil {
				expectStall(t, err, "StagingFull", "the claim is full")
				return
			}
			if err != nil || got.Artifact == nil {
				t.Errorf("the work would be done twice: %+v, %v", got, err)
			}
		})
	}
}

func TestRunRefusesAForeignJob(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"of nobody":        nil,
		"of another owner": {v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwnerUID: otherUID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: blueprint().Name(), Labels: labels}}
			if err := b.server.Create(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			_, err := b.run(t)
			expectStall(t, err, v1alpha1.ReasonNameConflict, "shop/"+blueprint().Name())
		})
	}
}

func TestRunRunsALostJobAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "")
	lost := b.job(t)
	if err := b.world.EndJob(t.Context(), lost, batchv1.JobComplete, "", ""); err != nil {
		t.Fatal(err)
	}
	_, err = b.run(t)
	expectWait(t, err, "its pod is gone: running it again")
	_, err = b.run(t)
	expectWait(t, err, "is being deleted")
	if err := b.world.Collect(t.Context(), testutil.Namespace); err != nil {
		t.Fatal(err)
	}
	_, err = b.run(t)
	expectWait(t, err, "no pod yet")
	if b.job(t).UID == lost.UID {
		t.Error("the Job was not made anew")
	}
}

func TestRunTellsWhyAPodCannotBeMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "")
	job := b.job(t)
	for number, event := range []corev1.Event{
		{Type: corev1.EventTypeWarning, Message: "exceeded quota: pods", LastTimestamp: metav1.NewTime(testutil.Start.Add(3 * time.Minute))},
		{Type: corev1.EventTypeWarning, Message: "an older trouble", LastTimestamp: metav1.NewTime(testutil.Start.Add(time.Minute))},
		{Type: corev1.EventTypeNormal, Message: "all is well", LastTimestamp: metav1.NewTime(testutil.Start.Add(4 * time.Minute))},
	} {
		event.Namespace, event.Name = job.Namespace, "event-"+string(rune('a'+number))
		event.Reason = "FailedCreate"
		event.InvolvedObject = corev1.ObjectReference{Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID}
		if err := b.server.Create(t.Context(), &event); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(startTimeout)
	_, err = b.run(t)
	expectStall(t, err, v1alpha1.ReasonPodCannotStart, "The cluster says: exceeded quota: pods")
}

func TestRunEndsOnARefusalThatWillNotPass(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	terminating := apierrors.NewForbidden(resource, "a", errors.New("namespace shop is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		refusal error
		stalls  bool
	}{
		"a policy forbids it":            {apierrors.NewForbidden(resource, "a", errors.New("no Jobs here")), true},
		"it is invalid":                  {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "a", nil), true},
		"the namespace is being deleted": {terminating, false},
		"the server is away":             {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.refuse = test.refusal
			_, err := b.run(t)
			if test.stalls {
				expectStall(t, err, v1alpha1.ReasonRefused, blueprint().Name())
				return
			}
			if _, stalled := flow.AsStall(err); stalled || !errors.Is(err, test.refusal) {
				t.Errorf("the error is %v, want %v to be tried again", err, test.refusal)
			}
		})
	}
}

func TestRunStartsNothingWhenNoTimeIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := blueprint()
	late.Deadline = 0
	_, err := b.Run(t.Context(), late)
	expectWait(t, err, "no time is left")
	var list batchv1.JobList
	if err := b.server.List(t.Context(), &list); err != nil || len(list.Items) > 0 {
		t.Errorf("a Job was made that has no time to work (%v)", err)
	}
}

func TestDeleteSparesAJobThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "")
	forerunner := b.job(t)
	forerunner.UID = "another"
	if err := b.Delete(t.Context(), forerunner); err != nil {
		t.Fatal(err)
	}
	if job := b.job(t); !job.DeletionTimestamp.IsZero() {
		t.Error("the Job of that name was deleted, though it is another one")
	}
}

func TestRunWaitsForAPodInPlaceOfOneThatWasDrained(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "no pod yet")
	job := b.job(t)
	refused := corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "refused"}, Type: corev1.EventTypeWarning,
		Reason: "FailedCreate", Message: "exceeded quota: pods", LastTimestamp: metav1.NewTime(testutil.Start),
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID},
	}
	if err := b.server.Create(t.Context(), &refused); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(10 * startTimeout)
	_, err = b.run(t)
	expectWait(t, err, "has no pod at the moment") // what was refused long ago is not why
}

func TestOfListsNoCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "")
	job := b.job(t)
	copied := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "by-hand", Labels: job.Labels}}
	if err := b.server.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	list, err := b.Of(t.Context(), blueprint().Owner)
	if err != nil || len(list) != 1 || list[0].UID != job.UID {
		t.Errorf("its Jobs are %v (%v), want %s alone", list, err, job.Name)
	}
}

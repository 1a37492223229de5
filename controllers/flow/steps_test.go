package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

const timeout = time.Hour

var resource = schema.GroupResource{Group: "batch", Resource: "jobs"}

// begun returns a backup whose work began at testutil.Start.
func begun() *v1alpha1.DatabaseBackup {
	backup := testutil.Backup("orders").Build()
	start := metav1.NewTime(testutil.Start)
	backup.Status.StartTime = &start
	return backup
}

// steps are a backup's first two stages, of which the second ends as given. Each notes that it ran.
func steps(ran *[]string, second error) []flow.Step {
	return []flow.Step{
		{Stage: "Pending", Failed: "PreflightFailed", Do: func(context.Context) error {
			*ran = append(*ran, "Pending")
			return nil
		}},
		{Stage: "Dumping", Failed: "DumpFailed", Condition: v1alpha1.ConditionDumped, Do: func(context.Context) error {
			*ran = append(*ran, "Dumping")
			return second
		}},
		{Stage: "Uploading", Failed: "UploadFailed", Condition: v1alpha1.ConditionUploaded, Do: func(context.Context) error {
			*ran = append(*ran, "Uploading")
			return nil
		}},
	}
}

func run(backup *v1alpha1.DatabaseBackup, after time.Duration, list []flow.Step) error {
	return flow.Run(context.Background(), backup, testutil.Start.Add(after), timeout, list)
}

// expect checks a condition of the backup.
func expect(t *testing.T, backup *v1alpha1.DatabaseBackup, kind string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	condition := meta.FindStatusCondition(backup.Status.Conditions, kind)
	if condition == nil {
		t.Fatalf("no condition %s in %v", kind, backup.Status.Conditions)
	}
	if condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, message) {
		t.Errorf("%s is %s for %s (%s), want %s for %s with %q", kind, condition.Status, condition.Reason, condition.Message, status, reason, message)
	}
	if condition.ObservedGeneration != backup.Generation {
		t.Errorf("%s speaks of generation %d, the object has %d", kind, condition.ObservedGeneration, backup.Generation)
	}
}

func TestRunLeadsThroughAllSteps(t *testing.T) {
	t.Parallel()
	var ran []string
	if err := run(begun(), 0, steps(&ran, nil)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Pending", "Dumping", "Uploading"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestRunSkipsWhatIsDone(t *testing.T) {
	t.Parallel()
	var ran []string
	backup := begun()
	flow.MarkTrue(backup, v1alpha1.ConditionDumped, v1alpha1.ReasonSucceeded, "")
	if err := run(backup, 0, steps(&ran, errors.New("it must not run"))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Pending", "Uploading"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestRunRunsAgainWhatIsNotDone(t *testing.T) {
	t.Parallel()
	var ran []string
	backup := begun()
	flow.MarkFalse(backup, v1alpha1.ConditionDumped, "Dumping", "at work")
	if err := run(backup, 0, steps(&ran, nil)); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(ran, "Dumping") {
		t.Errorf("ran %v: a condition that is False counts as done", ran)
	}
}

func TestRunEndsTheObjectOnAStall(t *testing.T) {
	t.Parallel()
	var ran []string
	backup := begun()
	cause := fmt.Errorf("wrapped: %w", flow.Stalled("StagingFull", "the claim of %s is full", "10Gi"))
	err := run(backup, time.Minute, steps(&ran, cause))
	if stall, ok := flow.AsStall(err); !ok || stall.Reason != "StagingFull" {
		t.Errorf("the error is %v, want the Stall", err)
	}
	expect(t, backup, v1alpha1.ConditionStalled, metav1.ConditionTrue, "StagingFull", "the claim of 10Gi is full")
	expect(t, backup, v1alpha1.ConditionReady, metav1.ConditionFalse, "DumpFailed", "the claim of 10Gi is full")
	expect(t, backup, v1alpha1.ConditionDumped, metav1.ConditionFalse, "StagingFull", "the claim of 10Gi is full")
	if slices.Contains(ran, "Uploading") {
		t.Error("a step ran behind the one that stalled")
	}
	if done := backup.Status.CompletionTime; done == nil || !done.Time.Equal(testutil.Start.Add(time.Minute)) {
		t.Errorf("completionTime is %v", done)
	}
	if !flow.Ended(backup) {
		t.Error("a stalled object has not ended")
	}
}

func TestRunShowsWhatAStepWaitsFor(t *testing.T) {
	t.Parallel()
	var ran []string
	backup := begun()
	err := run(backup, time.Minute, steps(&ran, flow.Waiting(5*time.Second, "Job %s is at work", "a")))
	wait, ok := flow.AsWait(err)
	if !ok || wait.After != 5*time.Second {
		t.Errorf("the error is %v, want a Wait of 5s", err)
	}
	expect(t, backup, v1alpha1.ConditionReady, metav1.ConditionFalse, "Dumping", "Job a is at work")
	expect(t, backup, v1alpha1.ConditionDumped, metav1.ConditionFalse, "Dumping", "Job a is at work")
	if flow.Has(backup, v1alpha1.ConditionStalled) || backup.Status.CompletionTime != nil || flow.Ended(backup) {
		t.Errorf("an object that waits has ended: %+v", backup.Status)
	}
}

func TestRunComesBackWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	var ran []string
	err := run(begun(), timeout-10*time.Second, steps(&ran, flow.Waiting(time.Minute, "at work")))
	if wait, ok := flow.AsWait(err); !ok || wait.After != 11*time.Second {
		t.Errorf("the error is %#v, want a Wait of 11s: until just after the deadline", err)
	}
}

func TestRunShowsAnErrorThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"the API server is away":    errors.New("dial tcp: connection refused"),
		"it does not answer":        fmt.Errorf("creating Job a: %w", context.DeadlineExceeded),
		"a right was taken away":    apierrors.NewForbidden(resource, "a", errors.New("cannot create Jobs")),
		"a webhook is out of order": apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string
			backup := begun()
			if err := run(backup, time.Minute, steps(&ran, cause)); !errors.Is(err, cause) {
				t.Errorf("the error is %v, want %v", err, cause)
			}
			says := "trying again after an error: " + cause.Error()
			expect(t, backup, v1alpha1.ConditionReady, metav1.ConditionFalse, "Dumping", says)
			expect(t, backup, v1alpha1.ConditionDumped, metav1.ConditionFalse, "Dumping", says)
			if flow.Ended(backup) || backup.Status.CompletionTime != nil {
				t.Errorf("an error that may pass ended the object: %+v", backup.Status)
			}
		})
	}
}

func TestRunIsSilentAboutErrorsOfNormalWork(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"somebody was faster": apierrors.NewConflict(resource, "a", errors.New("changed")),
		"it went meanwhile":   fmt.Errorf("reading Job a: %w", apierrors.NewNotFound(resource, "a")),
		"a call was given up": fmt.Errorf("reading Job a: %w", context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string
			backup := begun()
			if err := run(backup, time.Minute, steps(&ran, cause)); !errors.Is(err, cause) {
				t.Errorf("the error is %v, want %v", err, cause)
			}
			if len(backup.Status.Conditions) != 0 {
				t.Errorf("it became conditions: %v", backup.Status.Conditions)
			}
		})
	}
}

func TestRunIsSilentWhenTheManagerIsStopping(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var ran []string
	backup := begun()
	list := steps(&ran, nil)
	list[1].Do = func(context.Context) error {
		stop()
		return errors.New("client rate limiter Wait returned an error")
	}
	if err := flow.Run(ctx, backup, testutil.Start, timeout, list); err == nil {
		t.Fatal("the error is lost")
	}
	if len(backup.Status.Conditions) != 0 {
		t.Errorf("it became conditions: %v", backup.Status.Conditions)
	}
}

func TestRunEndsTheObjectWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]error{
		"while it waits":           flow.Waiting(time.Minute, "the last word"),
		"while the API is failing": errors.New("the last word"),
		"by a Job's own deadline":  flow.Stalled(v1alpha1.ReasonDeadlineExceeded, "the last word"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string
			backup := begun()
			if stall, ok := flow.AsStall(run(backup, timeout, steps(&ran, last))); !ok || stall.Reason != v1alpha1.ReasonDeadlineExceeded {
				t.Fatalf("the error is %v, want a Stall for %s", stall, v1alpha1.ReasonDeadlineExceeded)
			}
			expect(t, backup, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeadlineExceeded, "the last word")
			expect(t, backup, v1alpha1.ConditionReady, metav1.ConditionFalse, "DumpFailed", "spec.timeout of 1h0m0s")
		})
	}
}

func TestRunTakesAResultThatCameInTimeThoughItIsSeenLate(t *testing.T) {
	t.Parallel()
	var ran []string
	if err := run(begun(), 10*timeout, steps(&ran, nil)); err != nil {
		t.Errorf("steps that are done failed: %v", err)
	}
}

func TestRunPrefersAStallToTheDeadline(t *testing.T) {
	t.Parallel()
	var ran []string
	stall, ok := flow.AsStall(run(begun(), 2*timeout, steps(&ran, flow.Stalled("StagingFull", "full"))))
	if !ok || stall.Reason != "StagingFull" {
		t.Errorf("the cause is %v, want the step's own", stall)
	}
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	fresh := testutil.Backup("orders").Build()
	if got := flow.Remaining(fresh, testutil.Start, timeout); got != timeout {
		t.Errorf("an object that has not begun has %s, want all of %s", got, timeout)
	}
	if got := flow.Remaining(begun(), testutil.Start.Add(20*time.Minute), timeout); got != 40*time.Minute {
		t.Errorf("after 20m of an hour there are %s left", got)
	}
}

func TestCompleteMakesReady(t *testing.T) {
	t.Parallel()
	backup := begun()
	flow.Complete(backup, testutil.Start.Add(time.Minute), "it can be restored from")
	expect(t, backup, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "restored from")
	if !flow.Ended(backup) || backup.Status.CompletionTime == nil {
		t.Error("a Ready object has not ended")
	}
}

func TestMessagesFitTheAPI(t *testing.T) {
	t.Parallel()
	backup := begun()
	flow.MarkFalse(backup, v1alpha1.ConditionReady, "Dumping", strings.Repeat("long ", 10000))
	if got := len(backup.Status.Conditions[0].Message); got > 32768 {
		t.Errorf("the message has %d bytes, the API takes 32768", got)
	}
}

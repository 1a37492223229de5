package controllers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestBackupAsksTheStoreBeforeItDumps(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Timeout(time.Hour).Build())
	w.cluster.Answer = hold(contract.VerbCheck)
	w.round()
	backup := w.backup("orders")
	task, job := w.task(backup, contract.VerbCheck), w.job(backup, contract.VerbCheck)
	if task.Store.Bucket != "backups" || task.Database != nil || task.DatabaseSecret != nil || task.StoreSecret.Name != "s3" {
		t.Errorf("the agent is told %+v", task)
	}
	if !strings.HasPrefix(task.Key, "prod/shop/orders/") || !strings.HasSuffix(task.Key, "-"+jobs.ShortUID(backup.UID)) {
		t.Errorf("it tries the key %q, want one in the backup's own folder with its UID", task.Key)
	}
	pod := job.Spec.Template.Spec
	if len(pod.InitContainers) > 0 || pod.Containers[0].Image != "holdfast:test" {
		t.Errorf("it runs %+v, and needs no more than our own image", pod)
	}
	for _, volume := range pod.Volumes {
		if volume.PersistentVolumeClaim != nil {
			t.Error("it waits for a claim that it does not need")
		}
		if volume.Secret != nil && !slices.Contains([]string{"s3", "s3-ca"}, volume.Secret.SecretName) {
			t.Errorf("it sees the Secret %s", volume.Secret.SecretName)
		}
	}
	if seconds := *job.Spec.ActiveDeadlineSeconds; seconds != 1800 {
		t.Errorf("it has %d s, want half of the backup's hour", seconds)
	}
	w.expectLeft("-check")
}

func TestBackupDumpsNothingThatCannotBeUploaded(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	w.cluster.Answer = fail(contract.VerbCheck, "BucketNotFound", "there is no bucket backups")
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expectStalled(w.backup("orders"), v1alpha1.ReasonPreflightFailed, "BucketNotFound", "there is no bucket backups")
	if len(w.created) != 1 {
		t.Errorf("made were %v, want the check Job alone", w.created)
	}
}

// A store that is away may well be back when the dump is done.
func TestBackupThatHalfItsTimeWaitedForTheStoreDumpsAllTheSame(t *testing.T) {
	const timeout = 10 * time.Minute
	for name, test := range map[string]struct {
		waited time.Duration
		stage  string
		reason string
	}{
		"half of the time": {timeout / 2, v1alpha1.ReasonSucceeded, v1alpha1.ReasonSucceeded},
		"all of the time":  {timeout, v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Timeout(timeout).Build())
			w.cluster.Answer = hold(contract.VerbCheck)
			w.round()
			job := w.job(w.backup("orders"), contract.VerbCheck)
			if _, err := w.cluster.Pod(t.Context(), job, "run", corev1.PodStatus{Phase: corev1.PodRunning}); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(test.waited)
			if err := w.cluster.EndJob(t.Context(), job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"); err != nil {
				t.Fatal(err)
			}
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			if got := flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady); got != test.stage {
				t.Errorf("it ended as %s, want %s", got, test.stage)
			}
			if test.stage != v1alpha1.ReasonSucceeded {
				w.expectStalled(w.backup("orders"), test.stage, test.reason, "spec.timeout of 10m0s")
			}
		})
	}
}

// Once the dump began, the store is not asked again: the check Job may be gone by then.
func TestBackupAsksTheStoreOnce(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	w.cluster.Answer = hold(contract.VerbDump)
	w.settle("the dump begins", func() bool {
		return flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady) == v1alpha1.ReasonDumping
	})
	if err := w.server.Delete(t.Context(), w.job(w.backup("orders"), contract.VerbCheck)); err != nil {
		t.Fatal(err)
	}
	w.round()
	w.expectLeft("-dump", "-staging")
	w.cluster.Answer = nil
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

// Rights that suffice for an upload suffice for the check, and what it could not take away is told.
func TestBackupTellsWhatTheCheckLeft(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Build())
	w.cluster.Answer = answer(func(result *contract.Result) {
		if result.Verb == contract.VerbCheck {
			result.Note = "an unfinished upload stays"
		}
	})
	statuses := 0
	w.deny = func(verb string, object client.Object) error {
		if verb != "patch status" {
			return nil
		}
		// The second tells what the check has found: somebody else was faster, and all is looked at again.
		if statuses++; statuses == 2 {
			return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("changed"))
		}
		return nil
	}
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	told := 0
	for _, event := range w.events.Events() {
		if event.Kind == corev1.EventTypeWarning && event.Reason == v1alpha1.ReasonArtifactLeftBehind && event.Note == "an unfinished upload stays" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("people were told %d times: %v", told, w.eventReasons("orders"))
	}
}

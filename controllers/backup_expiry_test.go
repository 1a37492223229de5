package controllers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// removal is a Ready backup that is being deleted, whose store answers as a test wants.
type removal struct {
	*world
	backup *v1alpha1.DatabaseBackup
	// tries are when a delete Job was run.
	tries []time.Time
}

// removes deletes a Ready backup with annotations. Its store fails each try of which trouble has a reason for.
func removes(t *testing.T, trouble func(after time.Duration) string, annotations ...string) *removal {
	t.Helper()
	r := &removal{world: deletionCase{policy: v1alpha1.DeletionDelete, stage: v1alpha1.ReasonSucceeded}.world(parallel(t))}
	r.annotate("orders", annotations...)
	r.cluster.Answer = func(task contract.Task) *contract.Result {
		result := testutil.Result(task)
		if task.Verb == contract.VerbDelete {
			r.tries = append(r.tries, r.clock.Now())
			if reason := trouble(r.since()); reason != "" {
				result = testutil.Failure(task.Verb, reason, "the store is of no use")
			}
		}
		return &result
	}
	r.remove(r.world.backup("orders"))
	r.backup = r.world.backup("orders")
	// The fake client stamps deletions with the time of the machine.
	r.clock.Advance(max(0, -r.since()))
	return r
}

func (w *world) annotate(name string, annotations ...string) {
	w.t.Helper()
	backup := w.backup(name)
	for _, annotation := range annotations {
		metav1.SetMetaDataAnnotation(&backup.ObjectMeta, annotation, "true")
	}
	if err := w.server.Update(w.t.Context(), backup); err != nil {
		w.t.Fatal(err)
	}
}

// since is how long ago the deletion was.
func (r *removal) since() time.Duration { return r.clock.Now().Sub(r.backup.DeletionTimestamp.Time) }

// wait lets time pass as the manager asks for, until the backup is gone or the condition holds. Each look is one of a
// manager that has just started.
func (r *removal) wait(until func() bool) {
	r.t.Helper()
	for range 3000 {
		if r.gone(r.backup) || until() {
			return
		}
		result, err := r.look(r.backup)
		if err != nil {
			result.RequeueAfter = time.Minute
		}
		r.step()
		r.clock.Advance(result.RequeueAfter)
	}
	r.t.Fatalf("nothing after %s and %d tries: %v", r.since(), len(r.tries), r.world.backup("orders").Status.Conditions)
}

func (r *removal) toTheEnd() {
	r.t.Helper()
	r.wait(func() bool { return false })
	r.round()
	r.round()
	r.expectLeft()
}

// warnings are the events of a reason.
func (w *world) warnings(reason string) []string {
	var notes []string
	for _, event := range w.events.Events() {
		if event.Kind == corev1.EventTypeWarning && event.Reason == reason {
			notes = append(notes, event.Note)
		}
	}
	return notes
}

// fails lets the store fail for a reason, until so long after the deletion.
func fails(reason string, until time.Duration) func(time.Duration) string {
	return func(after time.Duration) string {
		if after < until {
			return reason
		}
		return ""
	}
}

// poll is how often a test looks at what takes a moment.
const poll = 5 * time.Second

const never = 365 * 24 * time.Hour

func TestRemovalIsTriedAgainWhenTheTroubleMayPass(t *testing.T) {
	expired := v1alpha1.AnnotationExpired
	for name, test := range map[string]struct {
		annotations []string
		reason      string
		lasts       time.Duration
	}{
		"a person waits, the store is away":            {nil, contract.ReasonStoreUnreachable, 4 * time.Minute},
		"a person waits, the agent was stopped":        {nil, contract.ReasonTerminated, 20 * time.Second},
		"expired, the Secret is made late":             {[]string{expired}, contract.ReasonSecretMissing, time.Hour},
		"expired, the store is away for long":          {[]string{expired}, contract.ReasonStoreUnreachable, 40 * time.Hour},
		"expired, credentials are mended":              {[]string{expired}, contract.ReasonStoreCredentials, 30 * time.Hour},
		"expired, the bucket comes back":               {[]string{expired}, contract.ReasonBucketNotFound, time.Hour},
		"expired, a policy of the store was corrected": {[]string{expired}, contract.ReasonStoreDenied, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := removes(t, fails(test.reason, test.lasts), test.annotations...)
			r.toTheEnd()
			if left := r.warnings(v1alpha1.ReasonArtifactLeftBehind); len(left) > 0 {
				t.Errorf("it was left behind: %v", left)
			}
			if told := r.warnings(test.reason); len(told) != len(r.tries)-1 || len(told) == 0 || !strings.Contains(told[0], r.backup.Status.URL) {
				t.Errorf("%d tries, and people were told: %v", len(r.tries), told)
			}
		})
	}
}

func TestRemovalIsTriedWithGrowingDelays(t *testing.T) {
	r := removes(t, fails(contract.ReasonStoreUnreachable, 40*time.Hour), v1alpha1.AnnotationExpired)
	r.toTheEnd()
	if len(r.tries) < 40 || len(r.tries) > 70 {
		t.Errorf("%d tries in 40 hours", len(r.tries))
	}
	last := time.Duration(0)
	for i := range r.tries[1:] {
		gap := r.tries[i+1].Sub(r.tries[i])
		if gap < 30*time.Second || gap > time.Hour+time.Minute || gap < last-10*time.Second {
			t.Errorf("try %d comes %s after the one before, which came %s after its own", i+1, gap, last)
		}
		last = gap
	}
	if last < time.Hour {
		t.Errorf("the delay grew to %s only", last)
	}
}

func TestRemovalGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		after  time.Duration
		tries  int // 0 for any number
		says   string
		marks  []string
	}{
		"a person, in time":                       {contract.ReasonStoreUnreachable, deletionTimeout, 0, "within 10m0s", nil},
		"a person, credentials":                   {contract.ReasonStoreCredentials, 0, 1, "of no use", nil},
		"a person, no bucket":                     {contract.ReasonBucketNotFound, 0, 1, "of no use", nil},
		"a person, the Secret is gone":            {contract.ReasonSecretMissing, 0, 1, "of no use", nil},
		"a person, the manifest is not ours":      {contract.ReasonNotOurs, 0, 1, "of no use", nil},
		"expired, in time":                        {contract.ReasonStoreUnreachable, expiryTimeout, 0, "within 48h0m0s", []string{v1alpha1.AnnotationExpired}},
		"expired, the manifest is not ours":       {contract.ReasonNotOurs, 0, 1, "of no use", []string{v1alpha1.AnnotationExpired}},
		"expired, the manifest cannot be read":    {contract.ReasonManifestInvalid, 0, 1, "of no use", []string{v1alpha1.AnnotationExpired}},
		"expired, credentials are never mended":   {contract.ReasonStoreCredentials, expiryTimeout, 0, "of no use", []string{v1alpha1.AnnotationExpired}},
		"expired and to be forgotten, not a case": {contract.ReasonStoreUnreachable, 0, -1, "", []string{v1alpha1.AnnotationExpired, v1alpha1.AnnotationForget}},
	} {
		t.Run(name, func(t *testing.T) {
			r := removes(t, fails(test.reason, never), test.marks...)
			if test.tries < 0 {
				r.wait(func() bool { return false })
				if len(r.tries) > 0 {
					t.Errorf("%d tries", len(r.tries))
				}
				return
			}
			r.toTheEnd()
			left := r.warnings(v1alpha1.ReasonArtifactLeftBehind)
			if len(left) != 1 || !strings.Contains(left[0], r.backup.Status.URL) || !strings.Contains(left[0], test.says) {
				t.Errorf("people were told %v, want once, and %q", left, test.says)
			}
			if since := r.since(); since < test.after-10*time.Second || since > test.after+2*time.Minute {
				t.Errorf("it let go after %s, want %s", since, test.after)
			}
			if test.tries > 0 && len(r.tries) != test.tries {
				t.Errorf("%d tries, want %d", len(r.tries), test.tries)
			}
		})
	}
}

func TestRemovalSaysWhatItWaitsForOnce(t *testing.T) {
	r := removes(t, fails(contract.ReasonStoreUnreachable, never), v1alpha1.AnnotationExpired)
	r.wait(func() bool { return r.since() > time.Hour })
	for r.mustLook(r.backup).RequeueAfter < time.Minute { // until a try has failed
		r.clock.Advance(poll)
		r.step()
	}
	writes := len(r.writes)
	for range 5 {
		if result := r.mustLook(r.backup); result.RequeueAfter < time.Minute {
			t.Errorf("it is looked at again in %s", result.RequeueAfter)
		}
	}
	if more := r.writes[writes:]; len(more) > 0 || len(r.warnings(contract.ReasonStoreUnreachable)) != len(r.tries) {
		t.Errorf("it writes %v, and told %d times of %d tries", more, len(r.warnings(contract.ReasonStoreUnreachable)), len(r.tries))
	}
	r.expect(r.world.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
		"s3://backups/"+r.backup.Status.Artifact.Key, "the store is of no use", "could not be removed yet", "It is tried again at ")
	if len(r.list(&snapshotv1.VolumeSnapshotList{})) == 0 {
		t.Error("the snapshots went before the artifact, whose manifest names them")
	}
}

func TestRemovalWhoseJobIsRefused(t *testing.T) {
	r := removes(t, fails("", 0), v1alpha1.AnnotationExpired)
	r.deny = func(verb string, object client.Object) error {
		if _, isJob := object.(*batchv1.Job); isJob && verb == "create" && r.since() < 5*time.Hour {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, object.GetName(), errors.New("a policy"))
		}
		return nil
	}
	r.toTheEnd()
	if told := r.warnings(v1alpha1.ReasonRefused); len(told) != 1 || len(r.tries) != 1 || r.since() > 10*time.Hour {
		t.Errorf("%d tries, gone after %s, and people were told %v, want once", len(r.tries), r.since(), told)
	}
}

func TestRemovalWhoseNamespaceIsDeleted(t *testing.T) {
	r := removes(t, fails(contract.ReasonStoreUnreachable, never), v1alpha1.AnnotationExpired)
	r.wait(func() bool { return r.since() > time.Hour })
	r.deny = func(verb string, object client.Object) error {
		if verb != "create" {
			return nil
		}
		refusal := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, object.GetName(), errors.New("terminating"))
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return refusal
	}
	for _, job := range r.list(&batchv1.JobList{}) {
		r.remove(job)
	}
	r.mustLook(r.backup)
	r.wait(func() bool { return false })
	if left := r.warnings(v1alpha1.ReasonArtifactLeftBehind); len(left) != 1 || r.since() > 3*time.Hour {
		t.Errorf("gone after %s, people were told %v", r.since(), left)
	}
}

func TestRemovalGivesTheSnapshotsOfAnExpiredBackupTheirTime(t *testing.T) {
	r := removes(t, fails(contract.ReasonStoreUnreachable, 24*time.Hour), v1alpha1.AnnotationExpired)
	refused := 0
	r.deny = func(verb string, object client.Object) error {
		if _, isSnapshot := object.(*snapshotv1.VolumeSnapshot); isSnapshot && verb == "delete" && r.since() < 30*time.Hour {
			refused++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "volumesnapshots"}, object.GetName(), errors.New("a policy"))
		}
		return nil
	}
	r.toTheEnd()
	if left := r.warnings(v1alpha1.ReasonArtifactLeftBehind); len(left) > 0 || refused == 0 {
		t.Errorf("refused %d times, left behind: %v", refused, left)
	}
}

func TestForgottenBackups(t *testing.T) {
	for name, test := range map[string]struct {
		policy v1alpha1.DeletionPolicy
		marks  []string
		fails  contract.Verb
		stage  string
		kept   bool
	}{
		"Ready, Delete, forgotten":  {v1alpha1.DeletionDelete, []string{v1alpha1.AnnotationForget}, "", v1alpha1.ReasonSucceeded, true},
		"Ready, Retain, forgotten":  {v1alpha1.DeletionRetain, []string{v1alpha1.AnnotationForget}, "", v1alpha1.ReasonSucceeded, true},
		"failed, Delete, forgotten": {v1alpha1.DeletionDelete, []string{v1alpha1.AnnotationForget}, contract.VerbUpload, v1alpha1.ReasonUploadFailed, false},
		"Ready, no policy":          {"", nil, "", v1alpha1.ReasonSucceeded, true},
		"Ready, no policy, expired": {"", []string{v1alpha1.AnnotationExpired}, "", v1alpha1.ReasonSucceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := deletionCase{policy: test.policy, fails: test.fails, stage: test.stage}.world(parallel(t))
			w.annotate("orders", test.marks...)
			removed := false
			w.cluster.Answer = func(task contract.Task) *contract.Result {
				removed = removed || task.Verb == contract.VerbDelete
				result := testutil.Result(task)
				return &result
			}
			backup := w.backup("orders")
			w.remove(backup)
			w.settle("it is gone", func() bool { return w.gone(backup) })
			w.round()
			w.round()
			if removed == test.kept {
				t.Errorf("a delete Job ran: %t", removed)
			}
			if test.kept {
				w.expectLeft("-snap-")
			} else {
				w.expectLeft()
			}
		})
	}
}

func TestRemovalWhoseManagerIsKilledAtEachWrite(t *testing.T) {
	backup := testutil.Backup("orders").UID(fixedUID).Claims(dataClaim).Policy(v1alpha1.DeletionDelete).
		With(func(b *v1alpha1.DatabaseBackup) {
			b.Annotations = map[string]string{v1alpha1.AnnotationExpired: "true"}
		}).Build()
	killedEverywhere(parallel(t), []client.Object{backup}, func(w *world) any {
		w.settle("Ready", func() bool { return flow.IsTrue(w.backup("orders"), v1alpha1.ConditionReady) })
		tries := 0
		w.cluster.Answer = func(task contract.Task) *contract.Result {
			result := testutil.Result(task)
			if tries++; task.Verb == contract.VerbDelete && tries == 1 {
				result = testutil.Failure(task.Verb, contract.ReasonStoreUnreachable, "away")
			}
			return &result
		}
		w.remove(w.backup("orders"))
		w.settle("it is gone", func() bool {
			w.clock.Advance(20 * time.Second)
			return w.gone(backup)
		})
		w.quiet()
		return fmt.Sprintf("tries %d, left %v, left behind %t", min(tries, 2), w.left(),
			slices.Contains(w.eventReasons("orders"), v1alpha1.ReasonArtifactLeftBehind))
	})
}

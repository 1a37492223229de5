package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestRestorePreflight(t *testing.T) {
	plain := func() *testutil.RestoreBuilder { return testutil.Restore("again") }
	s3 := func(change func(*v1alpha1.S3Source)) *testutil.RestoreBuilder {
		return plain().With(func(r *v1alpha1.DatabaseRestore) { change(r.Spec.Source.S3) })
	}
	stalled := testutil.Backup("orders").Build()
	flow.MarkTrue(stalled, v1alpha1.ConditionStalled, "StagingFull", "full")
	oddURL := testutil.Backup("orders").Build()
	flow.MarkTrue(oddURL, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "")
	oddURL.Status.URL = "s3://backups"
	for name, test := range map[string]struct {
		restore *testutil.RestoreBuilder
		there   []client.Object
		reason  string
		says    string
	}{
		"source not found":    {plain().FromBackup("orders"), nil, v1alpha1.ReasonSourceNotFound, "shop/orders"},
		"source failed":       {plain().FromBackup("orders"), []client.Object{stalled}, v1alpha1.ReasonSourceNotReady, "StagingFull"},
		"source's URL is odd": {plain().FromBackup("orders"), []client.Object{oddURL}, v1alpha1.ReasonInvalidSource, "orders"},
		"bucket disagrees":    {s3(func(s *v1alpha1.S3Source) { s.Bucket = "other" }), nil, v1alpha1.ReasonInvalidSource, "other"},
		"prefix disagrees":    {s3(func(s *v1alpha1.S3Source) { s.Prefix = "other" }), nil, v1alpha1.ReasonInvalidSource, "other"},
		"StorageClass absent": {plain().With(func(r *v1alpha1.DatabaseRestore) { r.Spec.Staging.StorageClassName = "gone" }), nil, v1alpha1.ReasonStorageClassMissing, "gone"},
		"engine not served":   {plain().With(func(r *v1alpha1.DatabaseRestore) { r.Spec.Database.Engine = v1alpha1.EngineMySQL }), nil, v1alpha1.ReasonEngineNotSupported, "MySQL"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), append(test.there, test.restore.Build())...)
			w.expectStalled(w.restored(), v1alpha1.ReasonPreflightFailed, test.reason, test.says)
			if len(w.created) > 0 {
				t.Errorf("made before it was known whether it can work: %v", w.created)
			}
			w.quiet()
		})
	}
}

func TestRestoreFailsAsItsAgentsSay(t *testing.T) {
	for name, test := range map[string]struct {
		verb  contract.Verb
		stage string
		left  []string
	}{
		"inspect": {contract.VerbInspect, v1alpha1.ReasonInspectionFailed, nil},
		"fetch":   {contract.VerbFetch, v1alpha1.ReasonFetchFailed, []string{"-snap-"}},
		"load":    {contract.VerbLoad, v1alpha1.ReasonRestoreFailed, []string{"-snap-"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Restore("again").Build())
			w.cluster.Answer = fail(test.verb, "SomethingWrong", "it is the moon's fault")
			restore := w.restored()
			w.expectStalled(restore, test.stage, "SomethingWrong", "it is the moon's fault")
			if test.verb == contract.VerbLoad {
				w.expectStalled(restore, test.stage, "SomethingWrong", restore.Status.URL)
			}
			w.quiet()
			w.expectLeft(test.left...)
		})
	}
}

func TestRestoreTouchesNothingWhenItsSafetyBackupFails(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = fail(contract.VerbDump, "AuthenticationFailed", "wrong password")
	restore := w.restored()
	w.expectStalled(restore, v1alpha1.ReasonSafetyFailed, v1alpha1.ReasonSafetyBackupNotTaken, "AuthenticationFailed", "wrong password", "nothing was touched")
	w.quiet()
	if slices.ContainsFunc(w.left(), func(name string) bool { return strings.Contains(name, "-fetch") || strings.Contains(name, "-load") }) {
		t.Errorf("the restore went on: %v", w.left())
	}
	if restore.Status.URL != "" {
		t.Errorf("it names %s as the way back", restore.Status.URL)
	}
	stalled := meta.FindStatusCondition(restore.Status.Conditions, v1alpha1.ConditionStalled)
	if strings.Count(stalled.Message, "create a new") != 1 || !strings.Contains(stalled.Message, "create a new DatabaseRestore") {
		t.Errorf("it does not say once that a new restore is what helps: %s", stalled.Message)
	}
}

func TestRestoreTouchesNothingWhenItsSafetyBackupIsDeleted(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbDump)
	restore := w.stage(v1alpha1.ReasonTakingSafety)
	w.remove(w.backup(restore.Status.SafetyBackupName))
	w.expectStalled(w.restored(), v1alpha1.ReasonSafetyFailed, v1alpha1.ReasonSafetyBackupNotTaken, "was deleted", "nothing was touched")
}

func TestRestoreRefusesForeignObjectsOfItsNames(t *testing.T) {
	restore := testutil.Restore("again").UID(fixedUID).Build()
	name := metav1.ObjectMeta{Namespace: testutil.Namespace}
	for title, foreign := range map[string]client.Object{
		"inspect": &batchv1.Job{ObjectMeta: name}, "load": &batchv1.Job{ObjectMeta: name},
		"safety": &v1alpha1.DatabaseBackup{ObjectMeta: name, Spec: testutil.Backup("x").NoSnapshots().Build().Spec},
	} {
		t.Run(title, func(t *testing.T) {
			foreign.SetName(jobs.ChildName(restore, title))
			w := newWorld(parallel(t), foreign, restore)
			if got := flow.ReasonOf(w.restored(), v1alpha1.ConditionStalled); got != v1alpha1.ReasonNameConflict {
				t.Errorf("it stalled for %q, want %s", got, v1alpha1.ReasonNameConflict)
			}
			w.quiet()
			if w.gone(foreign) {
				t.Error("what was not Holdfast's is gone")
			}
		})
	}
}

func TestRestoreIsNotReadyOnASuccessThatShowsNothing(t *testing.T) {
	for stage, verb := range map[string]contract.Verb{
		v1alpha1.ReasonInspectionFailed: contract.VerbInspect, v1alpha1.ReasonFetchFailed: contract.VerbFetch,
	} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Restore("again").Build())
			w.cluster.Answer = answer(func(result *contract.Result) {
				if result.Verb == verb {
					result.Source, result.Target = nil, nil
				}
			})
			w.expectStalled(w.restored(), stage, v1alpha1.ReasonJobFailed)
		})
	}
}

func TestRestoreEndsWhenItsTimeIsOver(t *testing.T) {
	const timeout = 5 * time.Minute
	for name, test := range map[string]struct {
		hold      contract.Verb
		stage     string
		condition string
	}{
		"inspect": {contract.VerbInspect, v1alpha1.ReasonInspectionFailed, ""},
		"safety":  {contract.VerbDump, v1alpha1.ReasonSafetyFailed, v1alpha1.ConditionSafetyBackupTaken},
		"fetch":   {contract.VerbFetch, v1alpha1.ReasonFetchFailed, v1alpha1.ConditionVerified},
		"load":    {contract.VerbLoad, v1alpha1.ReasonRestoreFailed, v1alpha1.ConditionRestored},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Restore("again").Timeout(timeout).Build())
			w.cluster.Answer = hold(test.hold)
			for range 12 {
				w.round()
			}
			w.running()
			w.clock.Advance(timeout)
			restore := w.restored()
			if test.hold == contract.VerbDump {
				// The safety backup has what was left of the restore's time, so either may be seen to end first.
				w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionFalse, test.stage)
			} else {
				w.expectStalled(restore, test.stage, v1alpha1.ReasonDeadlineExceeded, "spec.timeout of 5m0s")
			}
			if test.condition != "" && flow.IsTrue(restore, test.condition) {
				t.Errorf("%s is True all the same", test.condition)
			}
			w.quiet()
			for _, left := range w.left() {
				if strings.HasSuffix(left, "-"+string(test.hold)) || strings.HasSuffix(left, "-staging") {
					t.Errorf("left is %s", left)
				}
			}
		})
	}
}

func TestRestoreWhoseManagerWasAwayStartsNothingLate(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Timeout(time.Hour).Build())
	w.round()
	w.clock.Advance(3 * time.Hour)
	w.expectStalled(w.restored(), v1alpha1.ReasonSafetyFailed, v1alpha1.ReasonDeadlineExceeded)
	if len(w.backups()) > 0 {
		t.Errorf("a safety backup began when the time was over, with %s to work", w.backups()[0].(*v1alpha1.DatabaseBackup).Spec.Timeout.Duration)
	}
}

func TestRestoreOfMoreDatabasesThanStatusTakes(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = answer(func(result *contract.Result) {
		if result.Target == nil {
			return
		}
		result.Target.Databases = nil
		for i := range 90 {
			result.Target.Databases = append(result.Target.Databases, fmt.Sprintf("db%d", i))
		}
		result.Target.Existing = result.Target.Databases
	})
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if got := len(restore.Status.Source.Databases); got == 0 || got > 64 {
		t.Errorf("status names %d databases, the API takes 64 at most: it could never be written", got)
	}
	if names := w.backup(restore.Status.SafetyBackupName).Spec.Database.Names; len(names) != 0 {
		t.Errorf("the safety backup names %d databases, the API takes 64: it must be of all", len(names))
	}
}

func TestRestoreIsDeletedInAnyStage(t *testing.T) {
	for name, test := range map[string]struct {
		hold  contract.Verb
		stage string
		left  []string
	}{
		"inspecting": {contract.VerbInspect, v1alpha1.ReasonInspecting, nil},
		"safety":     {contract.VerbDump, v1alpha1.ReasonTakingSafety, nil},
		"fetching":   {contract.VerbFetch, v1alpha1.ReasonFetching, []string{"-snap-"}},
		"restoring":  {contract.VerbLoad, v1alpha1.ReasonRestoring, []string{"-snap-"}},
		"Ready":      {"", v1alpha1.ReasonSucceeded, []string{"-snap-"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Restore("again").Build())
			w.cluster.Answer = hold(test.hold)
			restore := w.stage(test.stage)
			w.round()
			w.remove(restore)
			w.settle("all is gone", func() bool { return w.gone(restore) && len(w.backups()) == 0 })
			w.round()
			w.round()
			w.expectLeft(test.left...)
			for what := range w.created {
				if strings.HasSuffix(what, "-delete") {
					t.Errorf("%s: the way back was removed", what)
				}
			}
		})
	}
}

func TestRestoreGoesThoughItsJobsDoNotEnd(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbLoad)
	restore := w.stage(v1alpha1.ReasonRestoring)
	w.remove(restore)
	if w.mustLook(restore); w.gone(restore) {
		t.Fatal("it went while an agent was at work on the server")
	}
	w.clock.Advance(w.restore("again").DeletionTimestamp.Add(deletionTimeout).Sub(w.clock.Now()))
	if w.mustLook(restore); !w.gone(restore) {
		t.Error("it hangs on a Job that does not end")
	}
}

package controllers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

func TestBackupPreflight(t *testing.T) {
	storage, volume := testutil.StorageClass(), testutil.Volume(testutil.Namespace, dataClaim)
	class := testutil.SnapshotClass(testutil.SnapshotClassName, testutil.Driver, false)
	claim := testutil.Bound(testutil.DataClaim(testutil.Namespace, dataClaim))
	unbound := testutil.DataClaim(testutil.Namespace, dataClaim)
	unbound.Status.Phase = corev1.ClaimPending
	local := testutil.Volume(testutil.Namespace, dataClaim)
	local.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt"}}
	redis := func(b *v1alpha1.DatabaseBackup) { b.Spec.Database.Engine = v1alpha1.EngineRedis }
	plain := func() *testutil.BackupBuilder { return testutil.Backup("orders") }
	for name, test := range map[string]struct {
		backup *testutil.BackupBuilder
		there  []client.Object
		reason string
		says   string
	}{
		"claim absent":             {plain().Claims(dataClaim), []client.Object{storage, class}, v1alpha1.ReasonClaimNotFound, dataClaim},
		"second claim absent":      {plain().Claims(dataClaim, "gone"), []client.Object{storage, class, claim, volume}, v1alpha1.ReasonClaimNotFound, "gone"},
		"claim unbound":            {plain().Claims(dataClaim), []client.Object{storage, class, unbound}, v1alpha1.ReasonClaimNotBound, dataClaim},
		"claim without CSI":        {plain().Claims(dataClaim), []client.Object{storage, class, claim, local}, v1alpha1.ReasonSnapshotClassMissing, "CSI"},
		"no class for the claim":   {plain().Claims(dataClaim), []client.Object{storage, claim, volume}, v1alpha1.ReasonSnapshotClassMissing, testutil.Driver},
		"no class for the staging": {plain(), []client.Object{storage}, v1alpha1.ReasonSnapshotClassMissing, testutil.Driver},
		"class absent":             {plain().SnapshotClass("gone"), []client.Object{storage, class}, v1alpha1.ReasonSnapshotClassMissing, "gone"},
		"StorageClass absent":      {plain().Staging("gone", ""), []client.Object{storage, class}, v1alpha1.ReasonStorageClassMissing, "gone"},
		"no default StorageClass":  {plain(), []client.Object{class}, v1alpha1.ReasonStorageClassMissing, "default"},
		"engine not served":        {plain().With(redis), []client.Object{storage, class}, v1alpha1.ReasonEngineNotSupported, "Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBareWorld(parallel(t), append(test.there, test.backup.Build())...)
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			w.expectStalled(w.backup("orders"), v1alpha1.ReasonPreflightFailed, test.reason, test.says)
			if len(w.created) > 0 {
				t.Errorf("made before it was known whether it can work: %v", w.created)
			}
			w.quiet()
		})
	}
}

func TestBackupPreflightWithoutTheSnapshotAPI(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Build())
	w.server = interceptor.NewClient(w.server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch list.(type) {
			case *snapshotv1.VolumeSnapshotClassList, *snapshotv1.VolumeSnapshotList:
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}}
			}
			return c.List(ctx, list, opts...)
		},
	})
	backup := w.backup("orders")
	w.mustLook(backup)
	w.expectStalled(w.backup("orders"), v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonSnapshotAPIMissing)
	w.remove(backup)
	w.mustLook(backup)
	if !w.gone(backup) {
		t.Error("a backup cannot go in a cluster without the snapshot API")
	}
}

func TestBackupFailsAsItsAgentsSay(t *testing.T) {
	for name, test := range map[string]struct {
		verb  contract.Verb
		stage string
	}{
		"check":  {contract.VerbCheck, v1alpha1.ReasonPreflightFailed},
		"dump":   {contract.VerbDump, v1alpha1.ReasonDumpFailed},
		"upload": {contract.VerbUpload, v1alpha1.ReasonUploadFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
			w.cluster.Answer = fail(test.verb, "SomethingWrong", "it is the moon's fault")
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			backup := w.backup("orders")
			w.expectStalled(backup, test.stage, "SomethingWrong", "it is the moon's fault")
			if backup.Status.URL != "" {
				t.Errorf("a failed backup has the URL %s", backup.Status.URL)
			}
			w.quiet()
			w.expectLeft()
			events := w.events.Events()
			if last := events[len(events)-1]; last.Kind != corev1.EventTypeWarning || last.Reason != test.stage {
				t.Errorf("the last event is %v, want a warning of %s", last, test.stage)
			}
		})
	}
}

func TestBackupBearsATroubledSnapshot(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	w.cluster.Snapshot = testutil.SnapshotTroubled
	w.settle("the trouble shows", func() bool {
		condition := meta.FindStatusCondition(w.backup("orders").Status.Conditions, v1alpha1.ConditionSnapshotted)
		return condition != nil && condition.Message != "" && flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady) == v1alpha1.ReasonSnapshotting
	})
	w.round()
	w.expect(w.backup("orders"), v1alpha1.ConditionSnapshotted, metav1.ConditionFalse, v1alpha1.ReasonSnapshotting, testutil.SnapshotTrouble)
	w.cluster.Snapshot = testutil.SnapshotReady
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestBackupGivesUpOnASnapshotThatIsNeverReady(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	w.cluster.Snapshot = testutil.SnapshotTroubled
	w.settle("the snapshot is asked for", func() bool { return len(w.left()) == 4 })
	w.clock.Advance(10 * time.Minute)
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expectStalled(w.backup("orders"), v1alpha1.ReasonSnapshotFailed, v1alpha1.ReasonSnapshotNotReady, testutil.SnapshotTrouble)
	w.quiet()
	w.expectLeft()
}

func TestBackupEndsWhenItsTimeIsOver(t *testing.T) {
	const timeout = 5 * time.Minute
	for name, test := range map[string]struct {
		hold  contract.Verb
		fate  testutil.SnapshotFate
		stage string
	}{
		"dump":     {hold: contract.VerbDump, stage: v1alpha1.ReasonDumpFailed},
		"snapshot": {fate: testutil.SnapshotPending, stage: v1alpha1.ReasonSnapshotFailed},
		"upload":   {hold: contract.VerbUpload, stage: v1alpha1.ReasonUploadFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Timeout(timeout).Build())
			w.cluster.Answer, w.cluster.Snapshot = hold(test.hold), test.fate
			for range 6 {
				w.round()
			}
			w.running()
			w.clock.Advance(timeout)
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			w.expectStalled(w.backup("orders"), test.stage, v1alpha1.ReasonDeadlineExceeded, "spec.timeout of 5m0s")
			w.quiet()
			w.expectLeft()
		})
	}
}

// running gives every Job that has not ended a pod that runs, so that it is the time of the object that is over.
func (w *world) running() {
	w.t.Helper()
	for _, object := range w.list(&batchv1.JobList{}) {
		job := object.(*batchv1.Job)
		if jobs.Finished(job) {
			continue
		}
		if _, err := w.cluster.Pod(w.t.Context(), job, "run", corev1.PodStatus{Phase: corev1.PodRunning}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestBackupWhoseManagerWasAwayStartsNothingLate(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Timeout(time.Hour).Build())
	w.settle("the dump is done", func() bool { return len(w.left()) == 3 })
	w.clock.Advance(3 * time.Hour)
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expectStalled(w.backup("orders"), v1alpha1.ReasonUploadFailed, v1alpha1.ReasonDeadlineExceeded)
	if slices.Contains(w.left(), "v1.Job "+jobs.ChildName(w.backup("orders"), "upload")) {
		t.Error("an upload began when the time was over")
	}
}

func TestBackupTakesAResultThatCameWhileItsManagerWasAway(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Timeout(time.Hour).Build())
	w.settle("the upload is done", func() bool { return len(w.left()) == 4 })
	w.clock.Advance(3 * time.Hour)
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestBackupRefusesForeignObjectsOfItsNames(t *testing.T) {
	backup := testutil.Backup("orders").UID("3f2a91c0-1111-4222-8333-444455556666").Claims(dataClaim).Build()
	name := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: testutil.Namespace, Name: jobs.ChildName(backup, suffix)}
	}
	for title, foreign := range map[string]client.Object{
		"a Job":            &batchv1.Job{ObjectMeta: name("dump")},
		"a claim":          &corev1.PersistentVolumeClaim{ObjectMeta: name("staging")},
		"a VolumeSnapshot": &snapshotv1.VolumeSnapshot{ObjectMeta: name("snap-" + jobs.ShortHash(dataClaim))},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(parallel(t), foreign, backup)
			w.deny = func(verb string, object client.Object) error {
				if verb == "delete" && object.GetName() == foreign.GetName() {
					t.Errorf("the foreign %s was deleted", object.GetName())
				}
				return nil
			}
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			if got := flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionStalled); got != v1alpha1.ReasonNameConflict {
				t.Errorf("it stalled for %q, want %s", got, v1alpha1.ReasonNameConflict)
			}
			w.remove(w.backup("orders"))
			w.round()
			if w.gone(foreign) {
				t.Error("what was not Holdfast's is gone")
			}
		})
	}
}

func TestBackupAdoptsWhatTheCacheDoesNotKnowYet(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	w.hidden = func(object client.Object) bool {
		switch object.(type) {
		case *batchv1.Job, *corev1.PersistentVolumeClaim:
			return true
		}
		return false
	}
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	for what, times := range w.created {
		if times != 1 {
			t.Errorf("%s was made %d times", what, times)
		}
	}
}

func TestBackupThatEndsAtOnceLeavesNothingThoughTheCacheLags(t *testing.T) {
	backup := testutil.Backup("orders").UID(fixedUID).Build()
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: jobs.ChildName(backup, "dump")}}
	w := newWorld(parallel(t), foreign, backup)
	w.hidden = func(object client.Object) bool { _, isClaim := object.(*corev1.PersistentVolumeClaim); return isClaim }
	w.mustLook(backup)
	w.step() // the check Job
	result := w.mustLook(backup)
	w.expectStalled(w.backup("orders"), v1alpha1.ReasonDumpFailed, v1alpha1.ReasonNameConflict)
	if result.RequeueAfter <= 0 {
		t.Fatal("nobody looks again when the cache knows of the staging claim, and it stays for ever")
	}
	w.hidden = func(client.Object) bool { return false }
	if result := w.mustLook(backup); result.RequeueAfter > 0 {
		t.Error("an ended object is looked at for ever")
	}
	w.step() // the garbage collector
	w.expectLeft()
}

func TestBackupShowsTroubleThatIsTriedAgain(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Build())
	trouble := apierrors.NewInternalError(errors.New("etcd has no leader"))
	w.deny = func(verb string, object client.Object) error {
		if verb == "create" && strings.HasSuffix(object.GetName(), "-dump") {
			return trouble
		}
		return nil
	}
	backup := w.backup("orders")
	w.mustLook(backup)
	w.step() // the check Job
	w.writes = nil
	for range 3 {
		if _, err := w.look(backup); !errors.Is(err, trouble) {
			t.Fatalf("the error is %v, want %v, to be tried again", err, trouble)
		}
	}
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDumping, "trying again", "etcd has no leader")
	wrote := slices.DeleteFunc(slices.Clone(w.writes), func(write string) bool { return !strings.HasPrefix(write, "patch status") })
	if len(wrote) != 1 {
		t.Errorf("one trouble was written %d times: %v", len(wrote), w.writes)
	}
	w.deny = nil
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// restored runs a restore called again to its end.
func (w *world) restored() *v1alpha1.DatabaseRestore {
	w.t.Helper()
	w.settle("an end", func() bool { return flow.Ended(w.restore("again")) })
	return w.restore("again")
}

// stage runs a restore called again until it works on a stage.
func (w *world) stage(reason string) *v1alpha1.DatabaseRestore {
	w.t.Helper()
	w.settle(reason, func() bool { return flow.ReasonOf(w.restore("again"), v1alpha1.ConditionReady) == reason })
	return w.restore("again")
}

// answer lets agents succeed, after change had a say in their results.
func answer(change func(*contract.Result)) func(contract.Task) *contract.Result {
	return func(task contract.Task) *contract.Result {
		result := testutil.Result(task)
		change(&result)
		return &result
	}
}

func TestRestoreStageByStage(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbInspect)
	restore := w.stage(v1alpha1.ReasonInspecting)
	if !slices.Contains(restore.Finalizers, v1alpha1.Finalizer) || restore.Status.StartTime == nil {
		t.Errorf("finalizers %v, started %v", restore.Finalizers, restore.Status.StartTime)
	}
	w.expectLeft("-inspect")

	w.cluster.Answer = hold(contract.VerbDump)
	restore = w.stage(v1alpha1.ReasonTakingSafety)
	if got := restore.Status.Source; got.URL != testutil.SourceURL || got.SizeBytes != 4096 || !slices.Equal(got.Databases, []string{"orders"}) {
		t.Errorf("the source is %+v", got)
	}
	w.expect(restore, v1alpha1.ConditionSafetyBackupTaken, metav1.ConditionFalse, v1alpha1.ReasonTakingSafety)
	safety := w.backup(restore.Status.SafetyBackupName)
	if owner := metav1.GetControllerOf(safety); owner == nil || owner.UID != restore.UID {
		t.Errorf("the safety backup belongs to %v", owner)
	}

	w.cluster.Answer = hold(contract.VerbFetch)
	restore = w.stage(v1alpha1.ReasonFetching)
	safety = w.backup(restore.Status.SafetyBackupName)
	w.expect(restore, v1alpha1.ConditionSafetyBackupTaken, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, safety.Status.URL)
	if restore.Status.URL == "" || restore.Status.URL != safety.Status.URL {
		t.Errorf("the way back is %q, the safety backup's %q", restore.Status.URL, safety.Status.URL)
	}

	w.cluster.Answer = hold(contract.VerbLoad)
	restore = w.stage(v1alpha1.ReasonRestoring)
	w.expect(restore, v1alpha1.ConditionVerified, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, testutil.Source().SHA256)

	w.cluster.Answer = nil
	restore = w.restored()
	w.expect(restore, v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "orders")
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, testutil.SourceURL, safety.Status.URL)
	w.quiet()
	w.expectLeft("-snap-")
	want := []string{"Inspecting", "TakingSafetyBackup", "Fetching", "Restoring", "Succeeded"}
	if got := w.eventReasons("again"); !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
	w.expectNotes("again", "looking at "+testutil.SourceURL, "backing up what will be replaced on orders-db.shop.svc",
		"downloading and verifying "+testutil.SourceURL, "restoring orders into orders-db.shop.svc", "restored from "+testutil.SourceURL)
}

func TestRestoreTellsTheAgentsWhatToDo(t *testing.T) {
	omit := func(r *v1alpha1.DatabaseRestore) { r.Spec.Options.Ownership = v1alpha1.ItemOmit }
	w := newWorld(parallel(t), testutil.Restore("again").NoSafety().With(omit).Build())
	w.cluster.Answer = hold(contract.VerbLoad)
	restore := w.stage(v1alpha1.ReasonRestoring)
	inspect, fetch, load := w.task(restore, contract.VerbInspect), w.task(restore, contract.VerbFetch), w.task(restore, contract.VerbLoad)
	key := strings.TrimPrefix(testutil.SourceURL, "s3://backups/")
	if inspect.Key != key || fetch.Key != key || inspect.Store.Bucket != "backups" || fetch.Store.Bucket != "backups" {
		t.Errorf("the agents look at %s and %s, want %s", inspect.Key, fetch.Key, key)
	}
	if fetch.Expect == nil || fetch.Expect.SHA256 != testutil.Source().SHA256 {
		t.Errorf("the fetch does not know what was inspected: %+v", fetch.Expect)
	}
	if fetch.Database != nil || load.Store != nil || load.Database.Host != "orders-db.shop.svc" {
		t.Error("an agent knows of a place that it has nothing to do with")
	}
	for _, task := range []contract.Task{inspect, load} {
		if task.Restore == nil || !task.Restore.OmitOwnership || task.Restore.OmitPrivileges {
			t.Errorf("%s is told to restore %+v", task.Verb, task.Restore)
		}
	}
	if fetch.StagingSizeBytes != 1<<30 || load.StagingSizeBytes != 1<<30 {
		t.Errorf("the staging claim has %d bytes, want 1Gi for a small artifact", fetch.StagingSizeBytes)
	}
}

func TestRestoreSizesItsStagingByTheArtifact(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").NoSafety().Build())
	w.cluster.Answer = func(task contract.Task) *contract.Result {
		result := testutil.Result(task)
		if task.Verb == contract.VerbFetch {
			return nil
		}
		result.Source.SizeBytes = 16 << 30
		return &result
	}
	restore := w.stage(v1alpha1.ReasonFetching)
	if got := w.task(restore, contract.VerbFetch).StagingSizeBytes; got != 17<<30+256<<20 {
		t.Errorf("the staging claim has %d bytes for an artifact of 16Gi", got)
	}
}

func TestRestoreSafetyBackupIsOfWhatIsThere(t *testing.T) {
	class := func(r *v1alpha1.DatabaseRestore) {
		r.Spec.Staging.StorageClassName, r.Spec.PodTemplate.ServiceAccountName = testutil.StorageClassName, "restorer"
		r.Spec.Database.Names = nil
	}
	w := newWorld(parallel(t), testutil.Restore("again").Timeout(time.Hour).With(class).Build())
	w.cluster.Answer = func(task contract.Task) *contract.Result {
		if task.Verb == contract.VerbDump {
			return nil
		}
		result := testutil.Result(task)
		result.Target.Databases, result.Target.Existing = []string{"orders", "stock", "new"}, []string{"orders", "stock"}
		return &result
	}
	w.clock.Advance(time.Minute)
	restore := w.stage(v1alpha1.ReasonTakingSafety)
	spec := w.backup(restore.Status.SafetyBackupName).Spec
	if !slices.Equal(spec.Database.Names, []v1alpha1.DatabaseName{"orders", "stock"}) || spec.Database.Host != "orders-db.shop.svc" {
		t.Errorf("it is of %+v", spec.Database)
	}
	if spec.Storage.S3.Bucket != "backups" || spec.Storage.S3.Prefix != "prod" || spec.Storage.S3.Endpoint != testutil.Access().Endpoint {
		t.Errorf("it goes to %+v, want where the source lies", spec.Storage.S3)
	}
	if spec.DeletionPolicy != v1alpha1.DeletionRetain {
		t.Errorf("its policy is %s: the way back would go with the restore", spec.DeletionPolicy)
	}
	if spec.Timeout.Duration <= 0 || spec.Timeout.Duration > time.Hour {
		t.Errorf("it may take %s of the restore's hour", spec.Timeout.Duration)
	}
	if spec.Staging.StorageClassName != testutil.StorageClassName || spec.PodTemplate.ServiceAccountName != "restorer" {
		t.Errorf("it does not run as the restore does: %+v", spec)
	}
}

func TestRestoreSafetyBackupGoesWhereTheUserSays(t *testing.T) {
	elsewhere := func(r *v1alpha1.DatabaseRestore) {
		bucket := testutil.Bucket()
		bucket.Bucket = "safety"
		r.Spec.SafetyBackup.Storage = &v1alpha1.StorageSpec{S3: bucket}
		r.Spec.SafetyBackup.VolumeSnapshot = &v1alpha1.VolumeSnapshotSpec{Mode: v1alpha1.VolumeSnapshotDisabled}
	}
	w := newWorld(parallel(t), testutil.Restore("again").With(elsewhere).Build())
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if !strings.HasPrefix(restore.Status.URL, "s3://safety/") {
		t.Errorf("the way back is %s", restore.Status.URL)
	}
	w.quiet()
	w.expectLeft()
}

func TestRestoreOfWhatIsNotThereYetNeedsNoSafetyBackup(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = answer(func(result *contract.Result) {
		if result.Target != nil {
			result.Target.Existing = nil
		}
	})
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionSafetyBackupTaken, metav1.ConditionTrue, v1alpha1.ReasonNothingToBackUp, "orders")
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if len(w.backups()) > 0 || restore.Status.URL != "" || restore.Status.SafetyBackupName != "" {
		t.Errorf("%d safety backups, status %+v", len(w.backups()), restore.Status)
	}
}

func TestRestoreWithoutSafetyBackup(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").NoSafety().Build())
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionSafetyBackupTaken, metav1.ConditionTrue, v1alpha1.ReasonNotWanted)
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if len(w.backups()) > 0 {
		t.Error("a safety backup was made all the same")
	}
	w.quiet()
	w.expectLeft()
}

func TestRestoreFromABackup(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build())
	w.settle("the backup is Ready", func() bool { return flow.Ended(w.backup("orders")) })
	if err := w.server.Create(t.Context(), testutil.Restore("again").FromBackup("orders").Build()); err != nil {
		t.Fatal(err)
	}
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, w.backup("orders").Status.URL)
	safety := w.backup(restore.Status.SafetyBackupName)
	if safety.Spec.Storage.S3.Bucket != "backups" || safety.Spec.Storage.S3.Prefix != "prod" {
		t.Errorf("the safety backup goes to %+v, want where the source lies", safety.Spec.Storage.S3)
	}
}

func TestRestoreWaitsForItsSourceToBeReady(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build(), testutil.Restore("again").FromBackup("orders").Build())
	w.cluster.Answer = hold(contract.VerbUpload)
	w.stage(v1alpha1.ReasonPending)
	for range 3 {
		w.round()
	}
	w.expect(w.restore("again"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "orders is not Ready yet")
	w.cluster.Answer = nil
	w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestRestoreGoesOnThoughItsSourceObjectGoesOnceVerified(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build(), testutil.Restore("again").FromBackup("orders").NoSafety().Build())
	w.cluster.Answer = hold(contract.VerbLoad)
	w.stage(v1alpha1.ReasonRestoring)
	w.remove(w.backup("orders"))
	w.settle("the source is gone", func() bool { return len(w.backups()) == 0 })
	w.round()
	w.cluster.Answer = nil
	w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestRestoreSeesObjectsThatTheCacheDoesNotKnowYet(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build(), testutil.Restore("again").FromBackup("orders").Build())
	looks := map[string]int{}
	w.hidden = func(object client.Object) bool {
		if _, isBackup := object.(*v1alpha1.DatabaseBackup); !isBackup {
			return false
		}
		looks[object.GetName()]++
		return looks[object.GetName()] <= 2
	}
	w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

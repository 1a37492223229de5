package controllers_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestBackupStageByStage(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	backup := w.backup("orders")

	if result := w.mustLook(backup); result.RequeueAfter <= 0 {
		t.Error("nobody comes back to see whether the check Job's pod can start")
	}
	backup = w.backup("orders")
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending)
	if !slices.Contains(backup.Finalizers, v1alpha1.Finalizer) || backup.Status.StartTime == nil {
		t.Errorf("finalizers %v, started %v", backup.Finalizers, backup.Status.StartTime)
	}
	w.expectLeft("-check")

	w.step()
	w.mustLook(backup)
	backup = w.backup("orders")
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDumping)
	w.expect(backup, v1alpha1.ConditionDumped, metav1.ConditionFalse, v1alpha1.ReasonDumping)
	w.expectLeft("-check", "-dump", "-staging")

	w.step()
	w.mustLook(backup)
	backup = w.backup("orders")
	w.expect(backup, v1alpha1.ConditionDumped, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "4096 bytes of pgdump")
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSnapshotting)
	if got := backup.Status.Artifact; got.SHA256 != testutil.Artifact().SHA256 || got.SizeBytes != 4096 || got.UncompressedBytes != 16384 {
		t.Errorf("the artifact is %+v", got)
	}
	w.expectLeft("-check", "-dump", "-staging", "-snap-")

	w.step()
	w.mustLook(backup)
	w.expectLeft("-check", "-dump", "-staging", "-snap-") // status tells of the upload before it begins
	w.mustLook(backup)
	w.expectLeft("-check", "-dump", "-staging", "-snap-", "-upload")
	backup = w.backup("orders")
	w.expect(backup, v1alpha1.ConditionSnapshotted, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUploading)
	if backup.Status.URL != "" {
		t.Errorf("the URL %s is given out before its artifact is there", backup.Status.URL)
	}

	w.step()
	w.mustLook(backup)
	backup = w.backup("orders")
	w.expect(backup, v1alpha1.ConditionUploaded, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, backup.Status.URL)
	if flow.Has(backup, v1alpha1.ConditionStalled) || backup.Status.CompletionTime == nil || backup.Status.ObservedGeneration != 1 {
		t.Errorf("status is %+v", backup.Status)
	}
	w.quiet()
	w.expectLeft("-snap-")
	if got, want := w.eventReasons("orders"), []string{"Pending", "Dumping", "Snapshotting", "Uploading", "Succeeded"}; !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
	w.expectNotes("orders", "looking whether bucket backups of https://minio.minio.svc:9000 can be written to", "dumping orders of orders-db.shop.svc", "taking a VolumeSnapshot of each of the claims "+dataClaim,
		"uploading the dump to bucket backups", "the backup can be restored from "+backup.Status.URL)
}

func TestBackupTellsTheAgentsWhatToDo(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build())
	backup := w.backup("orders")
	w.cluster.Answer = hold(contract.VerbUpload)
	w.settle("the upload begins", func() bool {
		return flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady) == v1alpha1.ReasonUploading
	})
	w.round()
	dump, upload := w.task(backup, contract.VerbDump), w.task(backup, contract.VerbUpload)
	for _, task := range []contract.Task{dump, upload} {
		if task.Object.Kind != "DatabaseBackup" || task.Object.Name != "orders" || task.Object.UID != string(backup.UID) {
			t.Errorf("the agent is told of %+v", task.Object)
		}
		if task.StagingSizeBytes != 20<<30 {
			t.Errorf("the claim has %d bytes, want those of the data claim, 20Gi", task.StagingSizeBytes)
		}
	}
	if dump.Store != nil || dump.StoreSecret != nil || upload.Database != nil || upload.DatabaseSecret != nil {
		t.Error("an agent knows of a place that it has nothing to do with")
	}
	if *dump.Compression != (contract.Compression{Algorithm: "Zstd", Level: 1}) {
		t.Errorf("compression is %+v", *dump.Compression)
	}
	status := w.backup("orders").Status
	if upload.Key == "" || upload.Key != status.Artifact.Key {
		t.Errorf("the key is %q, and %q in status", upload.Key, status.Artifact.Key)
	}
	taken := status.VolumeSnapshots
	if len(upload.Snapshots) != 1 || len(taken) != 1 || upload.Snapshots[0].Name != taken[0].Name ||
		upload.Snapshots[0].Claim != dataClaim || upload.Snapshots[0].Handle != testutil.Handle(taken[0].Name) {
		t.Errorf("the manifest would name the snapshots %+v, status has %+v", upload.Snapshots, taken)
	}
	for _, verb := range []contract.Verb{contract.VerbDump, contract.VerbUpload} {
		if seconds := *w.job(backup, verb).Spec.ActiveDeadlineSeconds; seconds <= 0 || seconds > int64(2*time.Hour/time.Second) {
			t.Errorf("Job %s has %d seconds, want what is left of two hours", verb, seconds)
		}
	}
}

func TestBackupSnapshotsTheStagingClaimWhereNoneIsNamed(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Staging("", "3Gi").Build())
	w.settle("Ready", func() bool { return flow.Ended(w.backup("orders")) })
	backup := w.backup("orders")
	w.expect(backup, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if taken := backup.Status.VolumeSnapshots; len(taken) != 1 || taken[0].Claim == dataClaim {
		t.Errorf("snapshots are %+v, want one of the staging claim", taken)
	}
	w.quiet()
	w.expectLeft("-snap-")
}

func TestBackupOfSeveralClaimsTakesAllSnapshotsAtOnce(t *testing.T) {
	const second = "wal-orders-db-0"
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim, second).Build(),
		testutil.Bound(testutil.DataClaim(testutil.Namespace, second)), testutil.Volume(testutil.Namespace, second))
	w.cluster.Snapshot = testutil.SnapshotPending
	w.settle("both snapshots are asked for", func() bool { return len(w.left()) == 5 })
	w.expectLeft("-check", "-dump", "-staging", "-snap-", "-snap-")
	w.cluster.Snapshot = testutil.SnapshotReady
	w.settle("Ready", func() bool { return flow.Ended(w.backup("orders")) })
	if taken := w.backup("orders").Status.VolumeSnapshots; len(taken) != 2 || taken[0].Claim != dataClaim || taken[1].Claim != second {
		t.Errorf("snapshots are %+v, want one of each claim in their order", taken)
	}
}

func TestBackupWithoutSnapshotsNeedsNoSnapshotAPI(t *testing.T) {
	w := newBareWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build(), testutil.StorageClass())
	w.settle("Ready", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionSnapshotted, metav1.ConditionTrue, v1alpha1.ReasonNotWanted)
	w.quiet()
	w.expectLeft()
}

func TestBackupWithTheLongestName(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup(testutil.LongName()).Build())
	w.settle("Ready", func() bool { return flow.Ended(w.backup(testutil.LongName())) })
	w.expect(w.backup(testutil.LongName()), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestBackupIsNotReadyOnASuccessThatShowsNoArtifact(t *testing.T) {
	for name, verb := range map[string]contract.Verb{
		v1alpha1.ReasonDumpFailed: contract.VerbDump, v1alpha1.ReasonUploadFailed: contract.VerbUpload,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), testutil.Backup("orders").Build())
			w.cluster.Answer = func(task contract.Task) *contract.Result {
				result := testutil.Result(task)
				if task.Verb == verb {
					result = contract.Result{Version: contract.Version, Verb: verb}
				}
				return &result
			}
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			w.expectStalled(w.backup("orders"), name, v1alpha1.ReasonJobFailed)
		})
	}
}

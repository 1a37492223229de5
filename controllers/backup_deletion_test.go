package controllers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

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

// deletionCase is a backup that is deleted in some stage.
type deletionCase struct {
	policy v1alpha1.DeletionPolicy
	hold   contract.Verb // the Job that is at work when the backup is deleted
	fate   testutil.SnapshotFate
	fails  contract.Verb // the Job that failed before
	stage  string        // the reason of the Ready condition when the backup is deleted
	left   []string
	delete bool // whether an artifact is to be removed
}

func (c deletionCase) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, testutil.Backup("orders").Claims(dataClaim).Policy(c.policy).Build())
	w.cluster.Snapshot, w.cluster.Answer = c.fate, hold(c.hold)
	if c.fails != "" {
		w.cluster.Answer = fail(c.fails, "SomethingWrong", "it is the moon's fault")
	}
	w.settle(c.stage, func() bool { return flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady) == c.stage })
	w.round()
	return w
}

func TestBackupIsDeletedInAnyStage(t *testing.T) {
	retain, remove := v1alpha1.DeletionRetain, v1alpha1.DeletionDelete
	for name, test := range map[string]deletionCase{
		"Ready, Retain":         {policy: retain, stage: v1alpha1.ReasonSucceeded, left: []string{"-snap-"}},
		"Ready, Delete":         {policy: remove, stage: v1alpha1.ReasonSucceeded, delete: true},
		"checking, Retain":      {policy: retain, hold: contract.VerbCheck, stage: v1alpha1.ReasonPending},
		"checking, Delete":      {policy: remove, hold: contract.VerbCheck, stage: v1alpha1.ReasonPending},
		"check failed, Retain":  {policy: retain, fails: contract.VerbCheck, stage: v1alpha1.ReasonPreflightFailed},
		"dumping, Retain":       {policy: retain, hold: contract.VerbDump, stage: v1alpha1.ReasonDumping},
		"dumping, Delete":       {policy: remove, hold: contract.VerbDump, stage: v1alpha1.ReasonDumping},
		"snapshotting, Retain":  {policy: retain, fate: testutil.SnapshotPending, stage: v1alpha1.ReasonSnapshotting},
		"snapshotting, Delete":  {policy: remove, fate: testutil.SnapshotPending, stage: v1alpha1.ReasonSnapshotting},
		"uploading, Retain":     {policy: retain, hold: contract.VerbUpload, stage: v1alpha1.ReasonUploading, delete: true},
		"uploading, Delete":     {policy: remove, hold: contract.VerbUpload, stage: v1alpha1.ReasonUploading, delete: true},
		"dump failed, Retain":   {policy: retain, fails: contract.VerbDump, stage: v1alpha1.ReasonDumpFailed},
		"upload failed, Retain": {policy: retain, fails: contract.VerbUpload, stage: v1alpha1.ReasonUploadFailed, delete: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.world(parallel(t))
			backup := w.backup("orders")
			var told *contract.Task
			w.cluster.Answer = func(task contract.Task) *contract.Result {
				if task.Verb != contract.VerbDelete {
					return nil
				}
				told = &task
				if test.fails == "" && len(w.list(&snapshotv1.VolumeSnapshotList{})) == 0 {
					t.Error("the snapshots went before the artifact, whose manifest names them")
				}
				result := testutil.Result(task)
				return &result
			}
			w.remove(backup)
			w.settle("it is gone", func() bool { return w.gone(backup) })
			w.round()
			w.round()
			w.expectLeft(test.left...)
			if test.delete != (told != nil) {
				t.Fatalf("the delete Job was told %+v, wanted: %t", told, test.delete)
			}
			if test.delete && (told.Key != backup.Status.Artifact.Key || told.Object.UID != string(backup.UID) ||
				told.Uncommitted != (test.stage != v1alpha1.ReasonSucceeded) || told.Store == nil) {
				t.Errorf("the delete Job was told %+v", told)
			}
			if slices.Contains(w.eventReasons("orders"), v1alpha1.ReasonArtifactLeftBehind) {
				t.Error("people were told of a leftover")
			}
		})
	}
}

func TestBackupIsDeletedWhileItsManagerIsAwayAfterTheUploadBegan(t *testing.T) {
	for name, backup := range map[string]*testutil.BackupBuilder{
		"with snapshots": testutil.Backup("orders").Claims(dataClaim), "without": testutil.Backup("orders").NoSnapshots(),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(parallel(t), backup.UID(fixedUID).Build())
			began := false
			w.deny = func(verb string, object client.Object) error {
				began = began || strings.HasSuffix(object.GetName(), "-upload")
				if began && verb == "patch status" {
					return errKilled
				}
				return nil
			}
			for range 20 {
				if _, err := w.look(backup.Build()); began {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				w.step()
			}
			if !began {
				t.Fatal("the upload did not begin")
			}
			w.deny = nil
			w.remove(w.backup("orders"))
			removed := false
			w.cluster.Answer = func(task contract.Task) *contract.Result {
				removed = removed || task.Verb == contract.VerbDelete
				result := testutil.Result(task)
				return &result
			}
			w.settle("it is gone", func() bool { return w.gone(backup.Build()) })
			if !removed {
				t.Error("what the upload left in the store was not removed")
			}
		})
	}
}

func TestBackupThatNoManagerEverSawGoesAtOnce(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Build())
	backup := w.backup("orders")
	w.remove(backup)
	w.mustLook(backup)
	if !w.gone(backup) || len(w.writes) > 0 {
		t.Errorf("gone: %t, writes %v", w.gone(backup), w.writes)
	}
}

func TestBackupWaitsForItsJobsToEndBeforeItGoes(t *testing.T) {
	w := deletionCase{hold: contract.VerbDump, stage: v1alpha1.ReasonDumping}.world(parallel(t))
	backup := w.backup("orders")
	w.remove(backup)
	for range 3 {
		if result := w.mustLook(backup); result.RequeueAfter <= 0 {
			t.Fatal("nobody comes back to see whether the Jobs have ended")
		}
	}
	if w.gone(backup) {
		t.Error("it went while its dump was at work")
	}
	deletes := slices.DeleteFunc(slices.Clone(w.writes), func(write string) bool {
		return !strings.HasPrefix(write, "delete v1.Job") || !strings.HasSuffix(write, "-dump")
	})
	if len(deletes) != 1 {
		t.Errorf("the Job was deleted by %v, want once", deletes)
	}
}

func TestBackupNamesWhatItCouldNotRemove(t *testing.T) {
	for name, outcome := range map[string]func(*world){
		"the delete Job fails": func(w *world) { w.cluster.Answer = fail(contract.VerbDelete, "StoreAccessDenied", "the store said no") },
		"the delete Job takes too long": func(w *world) {
			w.cluster.Answer = hold(contract.VerbDelete)
			w.round()
			w.round()
			w.timeToDeleteIsOver("orders")
		},
		"the namespace is being deleted": func(w *world) {
			w.deny = func(verb string, object client.Object) error {
				if verb != "create" {
					return nil
				}
				refusal := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, object.GetName(), errors.New("terminating"))
				refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
				return refusal
			}
		},
		"no Job can be made": func(w *world) {
			w.deny = func(verb string, object client.Object) error {
				if _, isJob := object.(*batchv1.Job); isJob && verb == "create" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, object.GetName(), errors.New("a policy"))
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := deletionCase{policy: v1alpha1.DeletionDelete, stage: v1alpha1.ReasonSucceeded}.world(parallel(t))
			backup := w.backup("orders")
			w.remove(backup)
			outcome(w)
			w.settle("it is gone", func() bool { return w.gone(backup) })
			w.round()
			w.round()
			w.expectLeft()
			warned := slices.ContainsFunc(w.events.Events(), func(event testutil.Event) bool {
				return event.Kind == corev1.EventTypeWarning && event.Reason == v1alpha1.ReasonArtifactLeftBehind &&
					strings.Contains(event.Note, backup.Status.URL)
			})
			if !warned {
				t.Errorf("no event warns of %s: %v", backup.Status.URL, w.events.Events())
			}
		})
	}
}

func TestBackupGoesThoughItsSnapshotsCannotBeRemoved(t *testing.T) {
	w := deletionCase{policy: v1alpha1.DeletionDelete, stage: v1alpha1.ReasonSucceeded}.world(parallel(t))
	w.deny = func(verb string, object client.Object) error {
		if _, isSnapshot := object.(*snapshotv1.VolumeSnapshot); isSnapshot && verb == "delete" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "volumesnapshots"}, object.GetName(), errors.New("a policy"))
		}
		return nil
	}
	backup := w.backup("orders")
	w.remove(backup)
	for range 5 {
		_, _ = w.look(backup)
		w.step()
	}
	if w.gone(backup) {
		t.Error("it let go before it had tried for a while")
	}
	w.timeToDeleteIsOver("orders")
	w.mustLook(backup)
	if !w.gone(backup) {
		t.Error("it hangs for ever")
	}
	events := w.events.Events()
	if last := events[len(events)-1]; last.Reason != v1alpha1.ReasonArtifactLeftBehind || !strings.Contains(last.Note, string(backup.UID)) {
		t.Errorf("the last event is %+v, want one that names the snapshots", last)
	}
}

// timeToDeleteIsOver moves the clock to the moment when a deleted backup lets go.
func (w *world) timeToDeleteIsOver(name string) {
	w.t.Helper()
	w.clock.Advance(w.backup(name).DeletionTimestamp.Add(deletionTimeout).Sub(w.clock.Now()))
}

func TestBackupGoesThoughItsJobsDoNotEnd(t *testing.T) {
	w := deletionCase{hold: contract.VerbDump, stage: v1alpha1.ReasonDumping}.world(parallel(t))
	backup := w.backup("orders")
	w.remove(backup)
	w.mustLook(backup)
	w.timeToDeleteIsOver("orders")
	w.mustLook(backup)
	if !w.gone(backup) {
		t.Error("it hangs on a Job that does not end")
	}
}

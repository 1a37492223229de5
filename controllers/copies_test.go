package controllers_test

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// TestBackupDeletesNoCopies shows that what merely bears our labels stays: people copy manifests with all that is in them.
func TestBackupDeletesNoCopies(t *testing.T) {
	for name, fate := range map[string]func(*world){
		"when it is done": func(*world) {},
		"when it failed":  func(w *world) { w.cluster.Answer = fail(contract.VerbUpload, "StoreFailed", "503") },
	} {
		t.Run(name, func(t *testing.T) {
			backup := testutil.Backup("orders").UID(fixedUID).Claims(dataClaim).Policy(v1alpha1.DeletionDelete).Build()
			copied := copies(backup)
			w := newWorld(parallel(t), append(copied, backup)...)
			fate(w)
			w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
			w.quiet()
			w.remove(w.backup("orders"))
			w.settle("it is gone", func() bool { return w.gone(backup) })
			for _, object := range copied {
				if w.gone(object) {
					t.Errorf("%s is gone, and was not made by Holdfast", describe(object))
				}
			}
		})
	}
}

func TestRestoreDeletesNoCopies(t *testing.T) {
	restore := testutil.Restore("again").UID(fixedUID).Build()
	copied := copies(restore)
	w := newWorld(parallel(t), append(copied, restore)...)
	w.restored()
	w.quiet()
	w.remove(w.restore("again"))
	w.settle("it is gone", func() bool { return w.gone(restore) })
	for _, object := range copied {
		if w.gone(object) {
			t.Errorf("%s is gone, and was not made by Holdfast", describe(object))
		}
	}
}

// copies are objects that bear the labels of what an owner has, and names of their own.
func copies(owner client.Object) []client.Object {
	labels := jobs.Labels(owner, contract.VerbDump)
	claim := testutil.Bound(testutil.DataClaim(testutil.Namespace, "copied-claim"))
	claim.Labels = labels
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: testutil.Namespace, Name: name, Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationClaim: dataClaim},
		}
	}
	done := []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	return []client.Object{
		claim,
		&batchv1.Job{ObjectMeta: meta("copied-job"), Status: batchv1.JobStatus{Conditions: done}},
		&snapshotv1.VolumeSnapshot{ObjectMeta: meta("copied-snapshot"), Spec: snapshotv1.VolumeSnapshotSpec{
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: ptr.To(dataClaim)},
		}},
		&v1alpha1.DatabaseBackup{ObjectMeta: meta("copied-backup"), Spec: testutil.Backup("x").NoSnapshots().Build().Spec},
	}
}

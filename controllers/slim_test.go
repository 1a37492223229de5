package controllers

import (
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func slimmed(t *testing.T, object *v1alpha1.DatabaseBackup) *v1alpha1.DatabaseBackup {
	t.Helper()
	result, err := slim(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.(*v1alpha1.DatabaseBackup)
}

// full is a backup with something in every part of it.
func full() *v1alpha1.DatabaseBackup {
	backup := testutil.Backup("orders").Claims("data").Policy(v1alpha1.DeletionDelete).Build()
	backup.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	backup.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.AnnotationSlot: "x"}
	backup.Spec.PodTemplate.ServiceAccountName = "backup"
	backup.Status.URL = "s3://backups/x"
	backup.Status.Artifact = &v1alpha1.ArtifactStatus{Key: "x", SizeBytes: 1}
	backup.Status.VolumeSnapshots = []v1alpha1.VolumeSnapshotStatus{{Name: "a", Claim: "data"}}
	flow.MarkTrue(backup, v1alpha1.ConditionSnapshotted, v1alpha1.ReasonSucceeded, "a")
	return backup
}

func TestSlimLeavesWhatIsReadFromTheCache(t *testing.T) {
	t.Parallel()
	backup := full()
	flow.MarkTrue(backup, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "a long message")
	whole := backup.DeepCopy()
	got := slimmed(t, backup)
	for what, same := range map[string]bool{
		"database":       reflect.DeepEqual(got.Spec.Database, whole.Spec.Database),
		"storage":        reflect.DeepEqual(got.Spec.Storage, whole.Spec.Storage),
		"deletionPolicy": got.Spec.DeletionPolicy == whole.Spec.DeletionPolicy,
		"URL":            got.Status.URL == whole.Status.URL,
		"artifact":       reflect.DeepEqual(got.Status.Artifact, whole.Status.Artifact),
		"slot":           got.Annotations[v1alpha1.AnnotationSlot] == "x",
		"Ready":          flow.Ended(got) && flow.ReasonOf(got, v1alpha1.ConditionReady) == v1alpha1.ReasonSucceeded,
	} {
		if !same {
			t.Errorf("%s is not what it was: %+v", what, got)
		}
	}
	if got.ManagedFields != nil || len(got.Annotations) != 1 || len(got.Status.Conditions) != 1 || got.Status.VolumeSnapshots != nil {
		t.Errorf("what nobody reads is still there: %+v", got)
	}
}

func TestSlimLeavesABackupAtWorkWhole(t *testing.T) {
	t.Parallel()
	backup := full()
	whole := backup.DeepCopy()
	whole.ManagedFields = nil
	delete(whole.Annotations, corev1.LastAppliedConfigAnnotation)
	if got := slimmed(t, backup); !reflect.DeepEqual(got, whole) {
		t.Errorf("it is %+v, was %+v", got, whole)
	}
}

func TestSlimKeepsEachStringOnce(t *testing.T) {
	t.Parallel()
	bytesOf := func(host string) *byte { return unsafe.StringData(host) }
	first, second := full(), full()
	first.Spec.Database.Host, second.Spec.Database.Host = string([]byte("orders-db")), string([]byte("orders-db"))
	if bytesOf(first.Spec.Database.Host) == bytesOf(second.Spec.Database.Host) {
		t.Fatal("the two are one to begin with")
	}
	if bytesOf(slimmed(t, first).Spec.Database.Host) != bytesOf(slimmed(t, second).Spec.Database.Host) {
		t.Error("equal strings do not share their bytes")
	}
}

func TestSlimLeavesWhatKeepsADeletedBackupFromGoing(t *testing.T) {
	t.Parallel()
	backup := full()
	now := metav1.Now()
	backup.DeletionTimestamp = &now
	flow.MarkTrue(backup, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "it "+notRemovedYet+": the store is away")
	going := backup.DeepCopy()
	flow.MarkTrue(going, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "it can be restored from")
	stuck := slimmed(t, backup)
	if removalTrouble(stuck) == "" || removalTrouble(going) != "" {
		t.Errorf("it is kept by %q, and one that goes by %q", removalTrouble(stuck), removalTrouble(going))
	}
	passes := endOrDeletion()
	if !passes.Update(event.UpdateEvent{ObjectOld: going, ObjectNew: stuck}) || passes.Update(event.UpdateEvent{ObjectOld: stuck, ObjectNew: stuck}) {
		t.Error("a schedule is not looked at when, and only when, the deletion of its backup begins to fail")
	}
}

func TestSlimSharesPlaces(t *testing.T) {
	t.Parallel()
	first, second, other := slimmed(t, full()), slimmed(t, full()), full()
	other.Spec.Storage.S3.Bucket = "others"
	other = slimmed(t, other)
	if first.Spec.Storage.S3 != second.Spec.Storage.S3 || other.Spec.Storage.S3.Bucket != "others" || first.Spec.Storage.S3.Bucket != "backups" {
		t.Errorf("the places are %p %v, %p and %v", first.Spec.Storage.S3, first.Spec.Storage.S3, second.Spec.Storage.S3, other.Spec.Storage.S3)
	}
	own := full()
	own.Spec.Storage.S3.ForcePathStyle = ptr.To(true)
	if got := slimmed(t, own).Spec.Storage.S3.ForcePathStyle; got == nil || !*got {
		t.Errorf("forcePathStyle is %v", got)
	}
}

package controllers

import (
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// backup is a DatabaseBackup under test. It is built by its methods, then created.
type backup struct {
	space *space
	*v1alpha1.DatabaseBackup
}

// newBackup is a backup of databases into the space's bucket, without a snapshot of the server's claim.
func (s *space) newBackup(name string, database v1alpha1.DatabaseSpec) *backup {
	return &backup{s, &v1alpha1.DatabaseBackup{ObjectMeta: s.meta(name), Spec: v1alpha1.DatabaseBackupSpec{
		Database:       database,
		Storage:        s.storage(),
		VolumeSnapshot: v1alpha1.VolumeSnapshotSpec{Mode: v1alpha1.VolumeSnapshotDisabled},
		Staging:        stagingOf("512Mi"),
	}}}
}

func stagingOf(size string) v1alpha1.StagingSpec {
	return v1alpha1.StagingSpec{StorageClassName: volumeClass, Size: resource.MustParse(size)}
}

func keyOf(b *backup) client.ObjectKey { return client.ObjectKeyFromObject(b.DatabaseBackup) }

// edit changes the spec.
func (b *backup) edit(change func(*v1alpha1.DatabaseBackupSpec)) *backup {
	change(&b.Spec)
	return b
}

// snapshotting makes VolumeSnapshots of these claims belong to the backup; of none: of the staging claim.
func (b *backup) snapshotting(claims ...string) *backup {
	b.Spec.VolumeSnapshot = v1alpha1.VolumeSnapshotSpec{Mode: v1alpha1.VolumeSnapshotRequired, Claims: claims}
	return b
}

// withClass names the VolumeSnapshotClass.
func (b *backup) withClass(name string) *backup {
	b.Spec.VolumeSnapshot.ClassName = name
	return b
}

// deleting sets deletionPolicy Delete.
func (b *backup) deleting() *backup {
	b.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	return b
}

// attempts says how often each Job tries again.
func (b *backup) attempts(again int32) *backup {
	b.Spec.BackoffLimit = ptr.To(again)
	return b
}

func (b *backup) create() *backup {
	b.space.t.Helper()
	b.space.create(b.DatabaseBackup)
	return b
}

// await follows the backup until look returns true.
func (b *backup) await(what string, look func(*v1alpha1.DatabaseBackup) (bool, error)) *backup {
	b.space.t.Helper()
	what = fmt.Sprintf("DatabaseBackup %s: %s", b.Name, what)
	b.DatabaseBackup = follow(b.space.t, b.DatabaseBackup, what, look)
	return b
}

func (b *backup) awaitReady() *backup {
	b.space.t.Helper()
	b.await("Ready", func(now *v1alpha1.DatabaseBackup) (bool, error) {
		return isReady(now.Status.Conditions)
	})
	b.space.kept.keepBackup(b.DatabaseBackup)
	return b
}

// awaitStage follows the backup until its Ready condition has the reason.
func (b *backup) awaitStage(reason string) *backup {
	b.space.t.Helper()
	return b.await("stage "+reason, func(now *v1alpha1.DatabaseBackup) (bool, error) {
		return isAtStage(now.Status.Conditions, reason)
	})
}

// awaitStalled follows the backup until it failed for good, and returns what it says of it.
func (b *backup) awaitStalled(stage, reason string) metav1.Condition {
	b.space.t.Helper()
	b.await("Stalled for "+reason, func(now *v1alpha1.DatabaseBackup) (bool, error) {
		return isStalled(now.Status.Conditions)
	})
	return checkStalled(b.space.t, b.Status.Conditions, stage, reason)
}

// restore is a DatabaseRestore under test. It is built by its methods, then created.
type restore struct {
	space *space
	*v1alpha1.DatabaseRestore
}

// newRestore is a restore of the artifact at a URL, with a safety backup into the same place.
func (s *space) newRestore(name, url string, database v1alpha1.DatabaseSpec) *restore {
	return &restore{s, &v1alpha1.DatabaseRestore{ObjectMeta: s.meta(name), Spec: v1alpha1.DatabaseRestoreSpec{
		Source:   v1alpha1.RestoreSource{URL: url, S3: &v1alpha1.S3Source{S3Access: s.storeAccess()}},
		Database: database,
		Staging:  stagingOf("512Mi"),
	}}}
}

// edit changes the spec.
func (r *restore) edit(change func(*v1alpha1.DatabaseRestoreSpec)) *restore {
	change(&r.Spec)
	return r
}

// attempts says how often each Job tries again.
func (r *restore) attempts(again int32) *restore {
	r.Spec.BackoffLimit = ptr.To(again)
	return r
}

func (r *restore) create() *restore {
	r.space.t.Helper()
	r.space.create(r.DatabaseRestore)
	return r
}

// await follows the restore until look returns true.
func (r *restore) await(what string, look func(*v1alpha1.DatabaseRestore) (bool, error)) *restore {
	r.space.t.Helper()
	what = fmt.Sprintf("DatabaseRestore %s: %s", r.Name, what)
	r.DatabaseRestore = follow(r.space.t, r.DatabaseRestore, what, look)
	return r
}

func (r *restore) awaitReady() *restore {
	r.space.t.Helper()
	r.await("Ready", func(now *v1alpha1.DatabaseRestore) (bool, error) {
		return isReady(now.Status.Conditions)
	})
	for _, condition := range []string{
		v1alpha1.ConditionSafetyBackupTaken, v1alpha1.ConditionVerified, v1alpha1.ConditionRestored,
	} {
		if !meta.IsStatusConditionTrue(r.Status.Conditions, condition) {
			r.space.t.Errorf("the restore %s is Ready, but its condition %s is not True:\n%s", r.Name, condition, describe(r.DatabaseRestore))
		}
	}
	return r
}

func (r *restore) awaitStage(reason string) *restore {
	r.space.t.Helper()
	return r.await("stage "+reason, func(now *v1alpha1.DatabaseRestore) (bool, error) {
		return isAtStage(now.Status.Conditions, reason)
	})
}

func (r *restore) awaitStalled(stage, reason string) metav1.Condition {
	r.space.t.Helper()
	r.await("Stalled for "+reason, func(now *v1alpha1.DatabaseRestore) (bool, error) {
		return isStalled(now.Status.Conditions)
	})
	return checkStalled(r.space.t, r.Status.Conditions, stage, reason)
}

// safetyBackup is the backup of the target that the restore took.
func (r *restore) safetyBackup() *backup {
	r.space.t.Helper()
	if r.Status.SafetyBackupName == "" {
		r.space.t.Fatalf("the restore %s names no safety backup:\n%s", r.Name, describe(r.DatabaseRestore))
	}
	b := &backup{r.space, &v1alpha1.DatabaseBackup{ObjectMeta: r.space.meta(r.Status.SafetyBackupName)}}
	return b.awaitReady()
}

func isReady(conditions []metav1.Condition) (bool, error) {
	if stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); isTrue(stalled) {
		return false, fmt.Errorf("it is Stalled: %s: %s", stalled.Reason, stalled.Message)
	}
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady), nil
}

func isStalled(conditions []metav1.Condition) (bool, error) {
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return false, fmt.Errorf("it is Ready, and it should have failed")
	}
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled), nil
}

func isAtStage(conditions []metav1.Condition, reason string) (bool, error) {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason == reason {
		return true, nil
	}
	if stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); isTrue(stalled) || isTrue(ready) {
		return false, fmt.Errorf("it ended without the stage %s being seen: Ready %v, Stalled %v", reason, ready, stalled)
	}
	return false, nil
}

func isTrue(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue
}

// anyStage leaves to the product in which stage it finds out.
const anyStage = "any stage"

// checkStalled says whether a failure reads as it should: Ready is False and names the stage, Stalled names the cause.
func checkStalled(t *testing.T, conditions []metav1.Condition, stage, reason string) metav1.Condition {
	t.Helper()
	stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	if stalled.Reason != reason {
		t.Errorf("Stalled has the reason %s, want %s; its message: %s", stalled.Reason, reason, stalled.Message)
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || (ready.Reason != stage && stage != anyStage) {
		t.Errorf("Ready is %v, want False with the reason %s", ready, stage)
	}
	return *stalled
}

// within fails the spec when something took longer than it may.
func within(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	if took > most {
		t.Errorf("%s took %s, at most %s is wanted", what, took, most)
	}
}

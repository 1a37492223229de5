package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// reconcileDelete lets a deleted backup go once its running work has ended and what its policy names is removed: the
// artifact and its manifest, then the snapshots. A backup that never became Ready leaves nothing, whatever its policy.
// It never hangs: after DeletionTimeout it lets go, with an event that names what it leaves behind.
func (r *BackupReconciler) reconcileDelete(ctx context.Context, backup *v1alpha1.DatabaseBackup) error {
	if !controllerutil.ContainsFinalizer(backup, v1alpha1.Finalizer) {
		return nil
	}
	left, err := r.removeJobs(ctx, backup, func(stage contract.Verb) bool { return stage != contract.VerbDelete })
	if err == nil && left > 0 {
		err = flow.Waiting(poll, "%d Jobs are ending", left)
	}
	if err != nil && r.timeToDelete(backup) > 0 {
		return err
	}
	if removesArtifact(backup) {
		if err := r.removeArtifact(ctx, backup); err != nil {
			return err
		}
	}
	if removesAll(backup) {
		if err := r.removeSnapshots(ctx, backup); err != nil {
			return err
		}
	}
	// The staging claim has an owner reference: where it cannot be deleted now, the garbage collector does it later.
	if err := r.removeStaging(ctx, backup); err != nil && r.timeToDelete(backup) > 0 {
		return err
	}
	if _, err := r.removeJobs(ctx, backup, everyJob); err != nil && r.timeToDelete(backup) > 0 {
		return err
	}
	return r.letGo(ctx, backup)
}

// removeSnapshots returns nil when the snapshots are gone, or when that cannot be done in time.
func (r *BackupReconciler) removeSnapshots(ctx context.Context, backup *v1alpha1.DatabaseBackup) error {
	left, err := r.Snapshots.Remove(ctx, backup)
	if err == nil && left > 0 {
		err = flow.Waiting(poll, "%d VolumeSnapshots are going", left)
	}
	if err == nil || r.timeToDelete(backup) > 0 {
		return err
	}
	log.FromContext(ctx).Error(err, "left VolumeSnapshots behind")
	r.Writer.Event(backup, corev1.EventTypeWarning, v1alpha1.ReasonArtifactLeftBehind, "Delete", fmt.Sprintf(
		"VolumeSnapshots could not be removed within %s; remove those with the label %s=%s by hand: %v",
		r.DeletionTimeout, v1alpha1.LabelOwnerUID, backup.UID, err))
	return nil
}

// removesAll says whether nothing of a backup shall be left.
func removesAll(backup *v1alpha1.DatabaseBackup) bool {
	return backup.Spec.DeletionPolicy == v1alpha1.DeletionDelete || !flow.IsTrue(backup, v1alpha1.ConditionReady)
}

// removesArtifact says whether a backup may have something in the store that shall go: a whole artifact, or what a
// cancelled upload left.
func removesArtifact(backup *v1alpha1.DatabaseBackup) bool {
	return removesAll(backup) && backup.Status.Artifact != nil && flow.IsTrue(backup, v1alpha1.ConditionSnapshotted)
}

// removeArtifact runs the delete Job. It returns nil when that is done, or when it cannot be done in time.
func (r *BackupReconciler) removeArtifact(ctx context.Context, backup *v1alpha1.DatabaseBackup) error {
	w := &backupWork{BackupReconciler: r, backup: backup}
	blueprint := w.bare(contract.VerbDelete)
	blueprint.Deadline = r.DeletionTimeout
	withStore(&blueprint, *backup.Spec.Storage.S3)
	blueprint.Task.Key = backup.Status.Artifact.Key
	blueprint.Task.Uncommitted = !flow.IsTrue(backup, v1alpha1.ConditionReady)

	_, err := r.Jobs.Run(ctx, blueprint)
	if err == nil {
		return nil
	}
	if _, waiting := flow.AsWait(err); waiting && r.timeToDelete(backup) > 0 {
		return err
	}
	stall, stalled := flow.AsStall(err)
	switch {
	case stalled:
		r.leaveBehind(ctx, backup, stall.Message)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		r.leaveBehind(ctx, backup, "the namespace is being deleted, and no Job can run in it any more")
	case r.timeToDelete(backup) <= 0:
		r.leaveBehind(ctx, backup, fmt.Sprintf("it was not done within %s: %v", r.DeletionTimeout, err))
	default:
		return err
	}
	return nil
}

// leaveBehind tells people what a deleted backup could not remove, so that they can.
func (r *BackupReconciler) leaveBehind(ctx context.Context, backup *v1alpha1.DatabaseBackup, why string) {
	bucket := backup.Spec.Storage.S3.Bucket
	log.FromContext(ctx).Info("left an artifact behind", "bucket", bucket, "key", backup.Status.Artifact.Key, "why", why)
	r.Writer.Event(backup, corev1.EventTypeWarning, v1alpha1.ReasonArtifactLeftBehind, "Delete", fmt.Sprintf(
		"the artifact s3://%s/%s and its manifest could not be removed and may still be there; remove them by hand. %s",
		bucket, backup.Status.Artifact.Key, why))
}

package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// reconcileDelete lets a deleted backup go once its running work has ended and what its policy names is removed: the
// artifact and its manifest, then the snapshots. A backup that never became Ready leaves nothing, whatever its policy.
// It never hangs: when its time is over it lets go, with an event that names what it leaves behind.
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
	behind, err := r.removeStored(ctx, backup)
	if err != nil {
		return err
	}
	// The staging claim has an owner reference: where it cannot be deleted now, the garbage collector does it later.
	if err := r.removeStaging(ctx, backup); err != nil && r.timeToDelete(backup) > 0 {
		return err
	}
	if _, err := r.removeJobs(ctx, backup, everyJob); err != nil && r.timeToDelete(backup) > 0 {
		return err
	}
	for _, what := range behind {
		log.FromContext(ctx).Info("left something behind", "what", what)
		r.Writer.Event(backup, corev1.EventTypeWarning, v1alpha1.ReasonArtifactLeftBehind, "Delete", what)
	}
	return r.letGo(ctx, backup)
}

// removeStored removes the artifact, and then the snapshots that its manifest names. It returns what people have to remove
// by hand, which they are told once, when the backup goes.
func (r *BackupReconciler) removeStored(ctx context.Context, backup *v1alpha1.DatabaseBackup) ([]string, error) {
	var behind []string
	if removesArtifact(backup) {
		left, err := r.removeArtifact(ctx, backup)
		if err != nil {
			return nil, err
		}
		behind = append(behind, left...)
	}
	if removesAll(backup) {
		left, err := r.removeSnapshots(ctx, backup)
		if err != nil {
			return nil, err
		}
		behind = append(behind, left...)
	}
	return behind, nil
}

// expired says that retention deleted a backup. Nobody waits for it, so it has more time than one that a person deleted.
func expired(backup *v1alpha1.DatabaseBackup) bool {
	return has(backup, v1alpha1.AnnotationExpired)
}

func has(object client.Object, annotation string) bool {
	_, is := object.GetAnnotations()[annotation]
	return is
}

// patience is how long a deleted backup tries to remove what its policy names.
func (r *BackupReconciler) patience(backup *v1alpha1.DatabaseBackup) time.Duration {
	if expired(backup) {
		return max(r.ExpiryTimeout, r.DeletionTimeout)
	}
	return r.DeletionTimeout
}

// timeLeft is how much of its patience a deleted backup has left.
func (r *BackupReconciler) timeLeft(backup *v1alpha1.DatabaseBackup) time.Duration {
	return backup.DeletionTimestamp.Add(r.patience(backup)).Sub(r.Now())
}

// removeSnapshots returns no error when the snapshots are gone, or when that cannot be done in time: then it says so.
func (r *BackupReconciler) removeSnapshots(ctx context.Context, backup *v1alpha1.DatabaseBackup) ([]string, error) {
	timeLeft := r.timeLeft(backup)
	left, err := r.Snapshots.Remove(ctx, backup)
	if err == nil && left > 0 {
		// The artifact may have taken all of the time. Snapshots that are going need only a moment more.
		timeLeft += time.Minute
		wait := pause(r.Now().Sub(backup.DeletionTimestamp.Time)/30, poll, 10*time.Minute)
		err = flow.Waiting(max(poll, min(wait, timeLeft)), "%d VolumeSnapshots are going", left)
	}
	if err == nil || timeLeft > 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("VolumeSnapshots could not be removed within %s; remove those with the label %s=%s by hand: %v",
		r.patience(backup), v1alpha1.LabelOwnerUID, backup.UID, err)}, nil
}

// removesAll says whether nothing of a backup shall be left.
func removesAll(backup *v1alpha1.DatabaseBackup) bool {
	if !flow.IsTrue(backup, v1alpha1.ConditionReady) {
		return true
	}
	return backup.Spec.DeletionPolicy == v1alpha1.DeletionDelete && !has(backup, v1alpha1.AnnotationForget)
}

// removesArtifact says whether a backup may have something in the store that shall go: a whole artifact, or what a
// cancelled upload left.
func removesArtifact(backup *v1alpha1.DatabaseBackup) bool {
	return removesAll(backup) && backup.Status.Artifact != nil && flow.IsTrue(backup, v1alpha1.ConditionSnapshotted)
}

// removeArtifact runs the delete Job, and another when it failed for what may pass. It returns no error when that is done,
// or when it cannot be done, or not in time: then it says so.
func (r *BackupReconciler) removeArtifact(ctx context.Context, backup *v1alpha1.DatabaseBackup) ([]string, error) {
	w := &backupWork{BackupReconciler: r, backup: backup}
	blueprint := w.bare(contract.VerbDelete)
	blueprint.Deadline = min(r.DeletionTimeout, r.timeLeft(backup))
	withStore(&blueprint, *backup.Spec.Storage.S3)
	blueprint.Task.Key = backup.Status.Artifact.Key
	blueprint.Task.Uncommitted = !flow.IsTrue(backup, v1alpha1.ConditionReady)

	_, err := r.Jobs.Run(ctx, blueprint)
	stall, failed := flow.AsStall(err)
	switch {
	case err == nil:
		return nil, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return leftBehind(backup, "the namespace is being deleted, and no Job can run in it any more"), nil
	case failed && !mayPass(stall.Reason, expired(backup)):
		return leftBehind(backup, stall.Message), nil
	case r.timeLeft(backup) <= 0:
		return leftBehind(backup, fmt.Sprintf("it was not done within %s: %v", r.patience(backup), err)), nil
	case failed:
		return nil, r.removeAgain(ctx, backup, stall)
	}
	return nil, err
}

// leftBehind tells people what a deleted backup could not remove, so that they can.
func leftBehind(backup *v1alpha1.DatabaseBackup, why string) []string {
	return []string{fmt.Sprintf("the artifact s3://%s/%s and its manifest could not be removed and may still be there; "+
		"remove them by hand. %s", backup.Spec.Storage.S3.Bucket, backup.Status.Artifact.Key, why)}
}

// mayPass says whether what made a removal fail may pass: by itself while a person waits, or because a person mends it
// while nobody does.
func mayPass(reason string, expired bool) bool {
	switch reason {
	case contract.ReasonNotOurs, contract.ReasonManifestInvalid:
		return false
	case contract.ReasonSecretMissing, contract.ReasonStoreCredentials, contract.ReasonStoreDenied, contract.ReasonStoreCertificate, contract.ReasonBucketNotFound,
		contract.ReasonInvalidTask, v1alpha1.ReasonRefused, v1alpha1.ReasonNameConflict:
		return expired
	}
	return true
}

// removeAgain runs a new delete Job once the failed one has been there for a while: the longer ago the deletion was, the
// longer. All that it goes by is in the cluster, so that a restart changes nothing.
func (r *BackupReconciler) removeAgain(ctx context.Context, backup *v1alpha1.DatabaseBackup, cause *flow.Stall) error {
	job, err := r.failedRemoval(ctx, backup)
	if err != nil {
		return err
	}
	failed := r.Now() // there is no Job where the API server refuses it
	if job != nil {
		failed = endOf(job)
	}
	wait := pause(failed.Sub(backup.DeletionTimestamp.Time)/2, 30*time.Second, time.Hour)
	next := failed.Add(wait)
	if err := r.tellFailure(ctx, backup, cause, job != nil, next); err != nil {
		return err
	}
	if job == nil || next.After(r.Now()) {
		return flow.Waiting(min(next.Sub(r.Now()), r.timeLeft(backup)), "%s", cause.Message)
	}
	if err := r.Jobs.Delete(ctx, job); err != nil {
		return err
	}
	return flow.Waiting(poll, "Job %s is being deleted and will be made anew", job.Name)
}

// failedRemoval is the delete Job of a backup, or nil.
func (r *BackupReconciler) failedRemoval(ctx context.Context, backup *v1alpha1.DatabaseBackup) (*batchv1.Job, error) {
	list, err := r.Jobs.Of(ctx, backup)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Labels[v1alpha1.LabelStage] == string(contract.VerbDelete) {
			return &list[i], nil
		}
	}
	return nil, nil
}

// endOf is when a Job ended, or was made where it has no pod that could.
func endOf(job *batchv1.Job) time.Time {
	for _, condition := range job.Status.Conditions {
		ends := condition.Type == batchv1.JobFailed || condition.Type == batchv1.JobComplete
		if ends && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return job.CreationTimestamp.Time
}

// pause returns wait, or the nearest that lies between shortest and longest.
func pause(wait, shortest, longest time.Duration) time.Duration {
	return max(shortest, min(wait, longest))
}

// notRemovedYet is how the message of Ready says that a removal has failed and is tried again.
const notRemovedYet = "could not be removed yet"

// removalTrouble is what has kept a deleted backup from going so far, or nothing.
func removalTrouble(backup *v1alpha1.DatabaseBackup) string {
	message := messageOf(backup, v1alpha1.ConditionReady)
	if stays(backup) || !strings.Contains(message, notRemovedYet) {
		return ""
	}
	return message
}

// tellFailure tells people once of each try that failed: in an event, and in the message of Ready, which remembers that
// they were told. What else Ready says stays: it decides about what is removed.
func (r *BackupReconciler) tellFailure(ctx context.Context, backup *v1alpha1.DatabaseBackup, cause *flow.Stall, dated bool, next time.Time) error {
	end := backup.DeletionTimestamp.Add(r.patience(backup))
	again := ""
	switch {
	case !dated:
		again = "It is tried again with growing delays. "
	case next.Before(end):
		again = "It is tried again at " + next.UTC().Format(time.RFC3339) + ". "
	}
	text := fmt.Sprintf("The artifact s3://%s/%s "+notRemovedYet+": %s. %sAt %s it is left behind.",
		backup.Spec.Storage.S3.Bucket, backup.Status.Artifact.Key, strings.TrimSuffix(cause.Message, "."), again,
		end.UTC().Format(time.RFC3339))
	ready := meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Message == text {
		return nil
	}
	before := backup.DeepCopy()
	ready.Message = text
	landed, err := r.Writer.Write(ctx, before, backup)
	if err != nil {
		return err
	}
	if !landed {
		return flow.Waiting(poll, "%s", text)
	}
	r.Writer.Event(backup, corev1.EventTypeWarning, cause.Reason, "Delete", text)
	return nil
}

package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/snapshots"
	"github.com/holdfast-dev/holdfast/storage"
)

const (
	kindBackup = "DatabaseBackup"
	// defaultStaging is the size of a staging claim where nothing tells a better one.
	defaultStaging = "10Gi"
)

// backupWork is one look at one backup.
type backupWork struct {
	*BackupReconciler
	backup *v1alpha1.DatabaseBackup
	// mayUpload says that status, as it was read, tells what a deletion would have to remove from the store.
	mayUpload bool
	// leftover is what the check could not remove from the store again.
	leftover string
}

// preflight finds out what cannot work before anything is touched. Once the dump began it has nothing more to say.
func (w *backupWork) preflight(ctx context.Context) error {
	if flow.Has(w.backup, v1alpha1.ConditionDumped) {
		return nil
	}
	spec := w.backup.Spec
	if _, err := w.imageFor(spec.Database); err != nil {
		return err
	}
	staging, err := w.Cluster.StorageClass(ctx, spec.Staging.StorageClassName)
	if err != nil || !w.snapshotsWanted() {
		return err
	}
	if len(spec.VolumeSnapshot.Claims) == 0 {
		_, err := w.Cluster.SnapshotClass(ctx, spec.VolumeSnapshot.ClassName, staging.Provisioner)
		return err
	}
	for _, name := range spec.VolumeSnapshot.Claims {
		if _, err := w.classFor(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *backupWork) snapshotsWanted() bool {
	return w.backup.Spec.VolumeSnapshot.Mode != v1alpha1.VolumeSnapshotDisabled
}

func (w *backupWork) classFor(ctx context.Context, claimName string) (string, error) {
	claim, err := w.Cluster.BoundClaim(ctx, w.backup.Namespace, claimName)
	if err != nil {
		return "", err
	}
	driver, err := w.Cluster.DriverOfClaim(ctx, claim)
	if err != nil {
		return "", err
	}
	return w.Cluster.SnapshotClass(ctx, w.backup.Spec.VolumeSnapshot.ClassName, driver)
}

// checkStore runs the check Job: a bucket, a key or a CA that is wrong would else be found only after the dump. It waits
// for a store that is away as every Job does, but for half of the backup's time at most: such a store may well be back
// when the dump is done, so the dump then begins all the same.
func (w *backupWork) checkStore(ctx context.Context) error {
	if flow.Has(w.backup, v1alpha1.ConditionDumped) {
		return nil
	}
	blueprint := w.bare(contract.VerbCheck)
	blueprint.Deadline = min(blueprint.Deadline, backupTimeout(w.backup)/2)
	withStore(&blueprint, *w.backup.Spec.Storage.S3)
	blueprint.Task.Key = artifactKey(w.backup, "")
	result, err := w.Jobs.Run(ctx, blueprint)
	if stall, stalled := flow.AsStall(err); stalled && stall.Reason == v1alpha1.ReasonDeadlineExceeded {
		if flow.Remaining(w.backup, w.Now(), backupTimeout(w.backup)) > 0 {
			return nil
		}
	}
	w.leftover = result.Note
	return err
}

// dump runs the dump Job on the staging claim.
func (w *backupWork) dump(ctx context.Context) error {
	image, err := w.imageFor(w.backup.Spec.Database)
	if err != nil {
		return err
	}
	size, err := w.stagingSize(ctx)
	if err != nil {
		return err
	}
	blueprint, err := w.blueprint(ctx, contract.VerbDump, size)
	if err != nil {
		return err
	}
	withDatabase(&blueprint, w.backup.Spec.Database, image)
	blueprint.Task.Compression = compressionTask(w.backup.Spec.Compression)
	result, err := w.Jobs.Run(ctx, blueprint)
	if err != nil {
		return err
	}
	return w.dumped(result)
}

func (w *backupWork) dumped(result contract.Result) error {
	artifact := result.Artifact
	if artifact == nil {
		return flow.Stalled(v1alpha1.ReasonJobFailed, "the dump Job reported success without an artifact")
	}
	w.backup.Status.Artifact = &v1alpha1.ArtifactStatus{
		Key:       artifactKey(w.backup, artifact.Extension),
		SizeBytes: artifact.SizeBytes, UncompressedBytes: artifact.UncompressedBytes, SHA256: artifact.SHA256,
		Format: artifact.Format, Compression: v1alpha1.CompressionAlgorithm(artifact.Compression),
		ServerVersion: artifact.ServerVersion, ToolVersion: artifact.ToolVersion,
	}
	flow.MarkTrue(w.backup, v1alpha1.ConditionDumped, v1alpha1.ReasonSucceeded, strings.TrimSpace(fmt.Sprintf(
		"%d bytes of %s, compressed from %d. %s", artifact.SizeBytes, artifact.Format, artifact.UncompressedBytes, result.Note)))
	return nil
}

// stagingSize is what the user says, else the capacity of the first data claim, else a default.
func (w *backupWork) stagingSize(ctx context.Context) (resource.Quantity, error) {
	spec := w.backup.Spec
	if !spec.Staging.Size.IsZero() {
		return spec.Staging.Size, nil
	}
	if w.snapshotsWanted() && len(spec.VolumeSnapshot.Claims) > 0 {
		claim, err := w.Cluster.BoundClaim(ctx, w.backup.Namespace, spec.VolumeSnapshot.Claims[0])
		if err != nil {
			return resource.Quantity{}, err
		}
		return claim.Status.Capacity[corev1.ResourceStorage], nil
	}
	return resource.MustParse(defaultStaging), nil
}

// blueprint of a Job that works on the staging claim, which is made if it is not there.
func (w *backupWork) blueprint(ctx context.Context, verb contract.Verb, size resource.Quantity) (jobs.Blueprint, error) {
	return w.onStaging(ctx, w.bare(verb), w.backup.Spec.Staging, size)
}

// bare is a blueprint without a staging claim.
func (w *backupWork) bare(verb contract.Verb) jobs.Blueprint {
	spec := w.backup.Spec
	return w.blueprintFor(w.backup, kindBackup, verb, backupTimeout(w.backup), spec.BackoffLimit, spec.PodTemplate)
}

// snapshot takes a VolumeSnapshot of each data claim, or of the staging claim where none is named, all at once.
func (w *backupWork) snapshot(ctx context.Context) error {
	if !w.snapshotsWanted() {
		flow.MarkTrue(w.backup, v1alpha1.ConditionSnapshotted, v1alpha1.ReasonNotWanted, "spec.volumeSnapshot.mode is Disabled")
		return nil
	}
	claims := w.backup.Spec.VolumeSnapshot.Claims
	if len(claims) == 0 {
		claims = []string{stagingName(w.backup)}
	}
	var taken []v1alpha1.VolumeSnapshotStatus
	var pending error
	for _, claim := range claims {
		status, err := w.take(ctx, claim)
		if _, waiting := flow.AsWait(err); err != nil && !waiting {
			return err
		}
		if err != nil {
			pending = err
			continue
		}
		taken = append(taken, status)
	}
	if pending != nil {
		return pending
	}
	w.backup.Status.VolumeSnapshots = taken
	flow.MarkTrue(w.backup, v1alpha1.ConditionSnapshotted, v1alpha1.ReasonSucceeded,
		fmt.Sprintf("%d VolumeSnapshots are ready to use", len(taken)))
	return nil
}

func (w *backupWork) take(ctx context.Context, claim string) (v1alpha1.VolumeSnapshotStatus, error) {
	class, err := w.classFor(ctx, claim)
	if err != nil {
		return v1alpha1.VolumeSnapshotStatus{}, err
	}
	return w.Snapshots.Take(ctx, snapshots.Wanted{
		Owner: w.backup, Claim: claim, Class: class,
		ReadyTimeout: durationOr(w.backup.Spec.VolumeSnapshot.ReadyTimeout, 10*time.Minute),
	})
}

// upload runs the upload Job, which writes the manifest last.
func (w *backupWork) upload(ctx context.Context) error {
	if !w.mayUpload {
		// Status is written first: a backup that is deleted while no manager runs must know of its upload.
		return flow.Waiting(time.Millisecond, "the upload is about to begin")
	}
	size, err := w.stagingSize(ctx)
	if err != nil {
		return err
	}
	blueprint, err := w.blueprint(ctx, contract.VerbUpload, size)
	if err != nil {
		return err
	}
	bucket := *w.backup.Spec.Storage.S3
	withStore(&blueprint, bucket)
	blueprint.Task.Key = w.backup.Status.Artifact.Key
	for _, taken := range w.backup.Status.VolumeSnapshots {
		blueprint.Task.Snapshots = append(blueprint.Task.Snapshots,
			storage.Snapshot{Name: taken.Name, Claim: taken.Claim, Handle: taken.SnapshotHandle})
	}
	result, err := w.Jobs.Run(ctx, blueprint)
	if err != nil {
		return err
	}
	if want := storage.URL(bucket.Bucket, blueprint.Task.Key); result.URL != want {
		return flow.Stalled(v1alpha1.ReasonJobFailed, "the upload Job reported success, but for %q and not for %s", result.URL, want)
	}
	w.backup.Status.URL = result.URL
	flow.MarkTrue(w.backup, v1alpha1.ConditionUploaded, v1alpha1.ReasonSucceeded, "the store holds the artifact and its manifest")
	return nil
}

// artifactKey is where a backup's artifact lies. It follows from the object and what was dumped alone, so that a run
// after a restart comes to the same.
func artifactKey(backup *v1alpha1.DatabaseBackup, extension string) string {
	return storage.ArtifactKey(backup.Spec.Storage.S3.Prefix, backup.Namespace, backup.Name,
		backup.CreationTimestamp.Time, string(backup.UID), extension)
}

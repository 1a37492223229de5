package controllers

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
)

// takeSafetyBackup makes a DatabaseBackup of what the restore will replace, and waits for it.
func (w *restoreWork) takeSafetyBackup(ctx context.Context) error {
	if w.restore.Spec.SafetyBackup.Mode == v1alpha1.SafetyBackupDisabled {
		flow.MarkTrue(w.restore, v1alpha1.ConditionSafetyBackupTaken, v1alpha1.ReasonNotWanted, "spec.safetyBackup.mode is Disabled")
		return nil
	}
	if w.restore.Status.SafetyBackupName == "" && len(w.target.Existing) == 0 {
		flow.MarkTrue(w.restore, v1alpha1.ConditionSafetyBackupTaken, v1alpha1.ReasonNothingToBackUp, fmt.Sprintf(
			"the server has no database %s yet, so there is nothing to save", strings.Join(w.target.Databases, ", ")))
		return nil
	}
	backup, err := w.ensureSafetyBackup(ctx)
	if err != nil {
		return err
	}
	w.restore.Status.SafetyBackupName = backup.Name
	return w.judgeSafetyBackup(backup)
}

func (w *restoreWork) judgeSafetyBackup(backup *v1alpha1.DatabaseBackup) error {
	switch {
	case flow.IsTrue(backup, v1alpha1.ConditionStalled):
		return flow.Stalled(v1alpha1.ReasonSafetyBackupNotTaken, "the safety backup %s failed (%s), so nothing was touched: %s",
			backup.Name, flow.ReasonOf(backup, v1alpha1.ConditionStalled), inRestoreTerms(messageOf(backup, v1alpha1.ConditionStalled)))
	case !flow.IsTrue(backup, v1alpha1.ConditionReady):
		return flow.Waiting(poll, "safety backup %s: %s", backup.Name, messageOf(backup, v1alpha1.ConditionReady))
	}
	w.restore.Status.URL = backup.Status.URL
	flow.MarkTrue(w.restore, v1alpha1.ConditionSafetyBackupTaken, v1alpha1.ReasonSucceeded,
		"what the restore replaces can be had back from "+backup.Status.URL)
	return nil
}

// inRestoreTerms lets a backup's advice name the field that a restore has for it.
func inRestoreTerms(message string) string {
	return strings.ReplaceAll(message, "spec.volumeSnapshot", "spec.safetyBackup.volumeSnapshot")
}

func messageOf(subject flow.Subject, conditionType string) string {
	for _, condition := range *subject.Progress().Conditions {
		if condition.Type == conditionType {
			return condition.Message
		}
	}
	return "it has not begun"
}

func (w *restoreWork) ensureSafetyBackup(ctx context.Context) (*v1alpha1.DatabaseBackup, error) {
	name := jobs.ChildName(w.restore, "safety")
	backup, err := w.readBackup(ctx, name)
	switch {
	case err == nil:
		return backup, jobs.CheckOwner(backup, w.restore)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading the safety backup %s: %w", name, err)
	case w.target == nil:
		return nil, flow.Stalled(v1alpha1.ReasonSafetyBackupNotTaken, "the safety backup %s was deleted before it was Ready, "+
			"so nothing was touched: create a new DatabaseRestore", name)
	}
	if flow.Remaining(w.restore, w.Now(), restoreTimeout(w.restore)) <= 0 {
		return nil, flow.Waiting(poll, "no time is left to take the safety backup %s", name)
	}
	backup = w.safetyBackup(name)
	return backup, jobs.CreateOnce(ctx, w.Common.Client, w.Live, w.restore, backup)
}

// safetyBackup is a backup of those databases of the target that exist.
func (w *restoreWork) safetyBackup(name string) *v1alpha1.DatabaseBackup {
	spec := w.restore.Spec
	database := *spec.Database.DeepCopy()
	database.Names = nil
	if existing := w.target.Existing; len(existing) <= maxNames {
		for _, one := range existing {
			database.Names = append(database.Names, v1alpha1.DatabaseName(one))
		}
	}
	backup := &v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.restore.Namespace,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwnerUID: string(w.restore.UID),
			},
			Annotations: jobs.OwnerAnnotations(w.restore),
		},
		Spec: v1alpha1.DatabaseBackupSpec{
			Database: database, Storage: v1alpha1.StorageSpec{S3: &w.bucket},
			Staging:        v1alpha1.StagingSpec{StorageClassName: spec.Staging.StorageClassName, Size: spec.Staging.Size},
			DeletionPolicy: v1alpha1.DeletionRetain,
			Timeout:        &metav1.Duration{Duration: flow.Remaining(w.restore, w.Now(), restoreTimeout(w.restore))},
			BackoffLimit:   spec.BackoffLimit, PodTemplate: *spec.PodTemplate.DeepCopy(),
		},
	}
	if storage := spec.SafetyBackup.Storage; storage != nil {
		backup.Spec.Storage = *storage.DeepCopy()
	}
	if snapshot := spec.SafetyBackup.VolumeSnapshot; snapshot != nil {
		backup.Spec.VolumeSnapshot = *snapshot.DeepCopy()
	}
	return backup
}

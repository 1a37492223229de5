// Package controllers is the control plane: one reconciler a kind. Each reads what is there, creates what is missing,
// and writes status; it keeps no state of its own and reads no Secret.
package controllers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// +kubebuilder:rbac:groups=holdfast.dev,resources=databasebackups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=holdfast.dev,resources=databasebackups/status,verbs=patch
// +kubebuilder:rbac:groups=holdfast.dev,resources=databasebackups/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshots,verbs=get;list;create;delete

// BackupReconciler leads DatabaseBackups to Ready or Stalled.
type BackupReconciler struct {
	Common
}

// SetupWithManager registers the reconciler.
func (r *BackupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.DatabaseBackup{}, builder.WithPredicates(specOrDeletion())).
		Owns(&batchv1.Job{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(deletedBackup)).
		Watches(&v1alpha1.DatabaseBackup{}, r.Queue.Leaving()).
		WatchesRawSource(source.Func(r.Queue.Start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// deletedBackup is whose artifact a delete Job removes: that Job has no owner reference.
func deletedBackup(_ context.Context, job client.Object) []reconcile.Request {
	owner := job.GetAnnotations()[v1alpha1.AnnotationOwnerName]
	if job.GetLabels()[v1alpha1.LabelStage] != string(contract.VerbDelete) || owner == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: job.GetNamespace(), Name: owner}}}
}

// specOrDeletion ignores what we ourselves write into status.
func specOrDeletion() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// Reconcile looks at one backup. One that waits to begin costs no request: it is read from the cache alone, and has no
// finalizer yet, so that it can be deleted at once.
func (r *BackupReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	backup := &v1alpha1.DatabaseBackup{}
	if err := r.Client.Get(ctx, request.NamespacedName, backup); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if waits, err := r.gate(ctx, backup); err != nil || waits > 0 {
		return ctrl.Result{RequeueAfter: waits}, err
	}
	return lead(ctx, r.Common, request, &v1alpha1.DatabaseBackup{}, r)
}

// advance leads a backup through its stages as far as they are done.
func (r *BackupReconciler) advance(ctx context.Context, backup *v1alpha1.DatabaseBackup) error {
	w := &backupWork{BackupReconciler: r, backup: backup, mayUpload: flow.IsTrue(backup, v1alpha1.ConditionSnapshotted)}
	err := flow.Run(ctx, backup, r.Now(), backupTimeout(backup), []flow.Step{
		{Stage: v1alpha1.ReasonPending, Failed: v1alpha1.ReasonPreflightFailed, Do: w.preflight},
		{Stage: v1alpha1.ReasonPending, Begins: beginsCheck(backup), Failed: v1alpha1.ReasonPreflightFailed, Do: w.checkStore},
		{Stage: v1alpha1.ReasonDumping, Begins: beginsDump(backup), Failed: v1alpha1.ReasonDumpFailed, Condition: v1alpha1.ConditionDumped, Do: w.dump},
		{Stage: v1alpha1.ReasonSnapshotting, Begins: beginsSnapshots(backup), Failed: v1alpha1.ReasonSnapshotFailed, Condition: v1alpha1.ConditionSnapshotted, Do: w.snapshot},
		{Stage: v1alpha1.ReasonUploading, Begins: beginsUpload(backup), Failed: v1alpha1.ReasonUploadFailed, Condition: v1alpha1.ConditionUploaded, Do: w.upload},
	})
	switch {
	case err == nil:
		flow.Complete(backup, r.Now(), "the backup can be restored from "+backup.Status.URL)
	case w.leftover != "" && flow.Has(backup, v1alpha1.ConditionDumped):
		// The check is not asked again, so this is the one time to tell.
		err = flow.Noted(err, v1alpha1.ReasonArtifactLeftBehind, w.leftover)
	}
	return err
}

// tidy removes what an ended backup needs no more. A Ready one keeps its snapshots, a failed one nothing. Its failed Job
// goes too, as a pod that is there keeps the staging claim from going, even when it has ended; what the Job had to say
// stands in status.
func (r *BackupReconciler) tidy(ctx context.Context, backup *v1alpha1.DatabaseBackup) error {
	if flow.IsTrue(backup, v1alpha1.ConditionStalled) && flow.Has(backup, v1alpha1.ConditionSnapshotted) {
		if _, err := r.Snapshots.Remove(ctx, backup); err != nil {
			return err
		}
	}
	if _, err := r.removeJobs(ctx, backup, everyJob); err != nil {
		return err
	}
	return r.removeStaging(ctx, backup)
}

func backupTimeout(backup *v1alpha1.DatabaseBackup) time.Duration {
	return durationOr(backup.Spec.Timeout, 2*time.Hour)
}

func durationOr(duration *metav1.Duration, fallback time.Duration) time.Duration {
	if duration == nil {
		return fallback
	}
	return duration.Duration
}

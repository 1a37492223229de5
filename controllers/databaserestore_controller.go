package controllers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// +kubebuilder:rbac:groups=holdfast.dev,resources=databaserestores,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=holdfast.dev,resources=databaserestores/status,verbs=patch
// +kubebuilder:rbac:groups=holdfast.dev,resources=databaserestores/finalizers,verbs=update
// +kubebuilder:rbac:groups=holdfast.dev,resources=databasebackups,verbs=get;list;watch;create;delete

// RestoreReconciler leads DatabaseRestores to Ready or Stalled.
type RestoreReconciler struct {
	Common
}

// SetupWithManager registers the reconciler.
func (r *RestoreReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.DatabaseRestore{}, builder.WithPredicates(specOrDeletion())).
		Owns(&batchv1.Job{}).
		Owns(&v1alpha1.DatabaseBackup{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// Reconcile looks at one restore.
func (r *RestoreReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return lead(ctx, r.Common, request, &v1alpha1.DatabaseRestore{}, r)
}

// advance leads a restore through its stages as far as they are done.
func (r *RestoreReconciler) advance(ctx context.Context, restore *v1alpha1.DatabaseRestore) error {
	w := &restoreWork{RestoreReconciler: r, restore: restore}
	err := flow.Run(ctx, restore, r.Now(), restoreTimeout(restore), []flow.Step{
		{Stage: v1alpha1.ReasonPending, Failed: v1alpha1.ReasonPreflightFailed, Do: w.findSource},
		{Stage: v1alpha1.ReasonPending, Failed: v1alpha1.ReasonPreflightFailed, Do: w.findTurn},
		{Stage: v1alpha1.ReasonPending, Failed: v1alpha1.ReasonInspectionFailed, Do: w.lookAhead},
		{Stage: v1alpha1.ReasonPending, Failed: v1alpha1.ReasonPreflightFailed, Do: w.awaitTurn},
		{Stage: v1alpha1.ReasonInspecting, Begins: beginsInspection(restore), Failed: v1alpha1.ReasonInspectionFailed, Do: w.inspect},
		{Stage: v1alpha1.ReasonTakingSafety, Begins: beginsSafetyBackup(restore), Failed: v1alpha1.ReasonSafetyFailed, Condition: v1alpha1.ConditionSafetyBackupTaken, Do: w.takeSafetyBackup},
		{Stage: v1alpha1.ReasonFetching, Begins: beginsFetch(restore), Failed: v1alpha1.ReasonFetchFailed, Condition: v1alpha1.ConditionVerified, Do: w.fetch},
		{Stage: v1alpha1.ReasonRestoring, Begins: beginsLoad(restore), Failed: v1alpha1.ReasonRestoreFailed, Condition: v1alpha1.ConditionRestored, Do: w.load},
	})
	if err == nil {
		flow.Complete(restore, r.Now(), w.success())
	}
	return err
}

// tidy removes what an ended restore needs no more.
func (r *RestoreReconciler) tidy(ctx context.Context, restore *v1alpha1.DatabaseRestore) error {
	if _, err := r.removeJobs(ctx, restore, everyJob); err != nil {
		return err
	}
	return r.removeStaging(ctx, restore)
}

// reconcileDelete lets a deleted restore go once its running work has ended: an agent that is at work puts the
// server back as it was. The safety backup's object goes with the restore, its artifact stays.
func (r *RestoreReconciler) reconcileDelete(ctx context.Context, restore *v1alpha1.DatabaseRestore) error {
	if !controllerutil.ContainsFinalizer(restore, v1alpha1.Finalizer) {
		return nil
	}
	left, err := r.removeJobs(ctx, restore, everyJob)
	if err == nil && left > 0 {
		err = flow.Waiting(poll, "%d Jobs are ending", left)
	}
	if err == nil {
		err = r.removeStaging(ctx, restore)
	}
	// What has an owner reference and could not be deleted in time is left to the garbage collector.
	if err != nil && r.timeToDelete(restore) > 0 {
		return err
	}
	return r.letGo(ctx, restore)
}

func restoreTimeout(restore *v1alpha1.DatabaseRestore) time.Duration {
	return durationOr(restore.Spec.Timeout, 4*time.Hour)
}

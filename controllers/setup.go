package controllers

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
)

// CacheOptions are those of the manager's cache. Of the kinds that others use too it holds only what carries our label:
// the operator's memory does not grow with the cluster.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})}
	return cache.Options{
		DefaultTransform: slim,
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}: ours, &corev1.Pod{}: ours, &corev1.PersistentVolumeClaim{}: ours,
		},
	}
}

// Register wires the reconcilers of all kinds and registers them.
func Register(mgr ctrl.Manager, o Options) error {
	for _, each := range index.All() {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), each.Object, each.Field, each.Of); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", each.Object, each.Field, err)
		}
	}
	common, err := NewCommon(mgr, o)
	if err != nil {
		return err
	}
	for _, each := range []struct {
		kind  string
		setup func(ctrl.Manager) error
	}{
		{"DatabaseBackups", (&BackupReconciler{Common: common}).SetupWithManager},
		{"DatabaseRestores", (&RestoreReconciler{Common: common}).SetupWithManager},
		{"BackupSchedules", (&ScheduleReconciler{Common: common}).SetupWithManager},
	} {
		if err := each.setup(mgr); err != nil {
			return fmt.Errorf("registering the controller of %s: %w", each.kind, err)
		}
	}
	return nil
}

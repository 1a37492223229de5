package controllers_test

import (
	"context"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// An object that was deleted and created anew inherits nothing of what the cache still has of its forerunner.
func TestServerRecreatedBackupInheritsNothingFromTheCache(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	backup := testutil.Backup("orders").In(s.namespace).Build()
	s.create(backup)
	forerunner := backup.DeepCopy()
	forerunner.UID = fixedUID
	forerunner.Status.Artifact = &v1alpha1.ArtifactStatus{Key: "the forerunner's", SizeBytes: 1}
	flow.MarkTrue(forerunner, v1alpha1.ConditionDumped, v1alpha1.ReasonSucceeded, "")
	flow.MarkTrue(forerunner, v1alpha1.ConditionSnapshotted, v1alpha1.ReasonSucceeded, "")

	live, err := client.NewWithWatch(s.config, client.Options{Scheme: testutil.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	cached := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if stale, isBackup := object.(*v1alpha1.DatabaseBackup); isBackup {
				forerunner.DeepCopyInto(stale)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	reconciler := &controllers.BackupReconciler{Common: controllers.Wire(cached, live, &testutil.Recorder{}, controllers.Options{
		AgentImage: "holdfast:test", Images: map[v1alpha1.Engine]string{v1alpha1.EnginePostgreSQL: "postgres:17"},
		PodStartTimeout: startTimeout, DeletionTimeout: deletionTimeout, Now: time.Now,
	})}
	if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(backup)}); err != nil {
		t.Fatal(err)
	}
	if !s.hasReason(backup, v1alpha1.ReasonPending) || backup.Status.Artifact != nil {
		t.Errorf("it goes on where its forerunner stood: %v, artifact %+v", backup.Status.Conditions, backup.Status.Artifact)
	}
}

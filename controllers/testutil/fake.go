package testutil

import (
	"context"
	"errors"
	"slices"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
)

// Scheme knows every kind that the control plane works with, and no other: a fake client maps all that it is given.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, batchv1.AddToScheme, storagev1.AddToScheme, snapshotv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// NewFake returns a fake API server that gives UIDs and times as a real one does, and holds a Job that is deleted in
// the foreground until its pods are collected.
func NewFake(t testing.TB, clock *Clock, objects ...client.Object) client.WithWatch {
	t.Helper()
	var prepared []client.Object
	for _, object := range objects {
		object = object.DeepCopyObject().(client.Object)
		prepare(clock, object)
		prepared = append(prepared, object)
	}
	// Nothing is applied here, so the type converter of the built-in kinds, which takes long to make, is left out.
	builder := fake.NewClientBuilder().WithScheme(Scheme(t)).WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithObjects(prepared...).
		WithStatusSubresource(&v1alpha1.DatabaseBackup{}, &v1alpha1.DatabaseRestore{}, &v1alpha1.BackupSchedule{},
			&snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{})
	for _, each := range index.All() {
		builder = builder.WithIndex(each.Object, each.Field, each.Of)
	}
	base := builder.Build()
	return interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			prepare(clock, object)
			return c.Create(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			if err := holdForeground(ctx, c, object, opts); err != nil {
				return err
			}
			return c.Delete(ctx, object, opts...)
		},
	})
}

func prepare(clock *Clock, object client.Object) {
	if object.GetUID() == "" {
		object.SetUID(uuid.NewUUID())
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(clock.Now()))
	}
	if object.GetGeneration() == 0 {
		object.SetGeneration(1)
	}
}

func holdForeground(ctx context.Context, c client.Client, object client.Object, opts []client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	fresh := object.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), fresh); err != nil {
		return err
	}
	if wanted := options.Preconditions; wanted != nil && wanted.UID != nil && *wanted.UID != fresh.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the UID in the precondition differs"))
	}
	if options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationForeground {
		return nil
	}
	if slices.Contains(fresh.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return nil
	}
	fresh.SetFinalizers(append(fresh.GetFinalizers(), metav1.FinalizerDeleteDependents))
	return c.Update(ctx, fresh)
}

// Cached returns a client that reads as the manager's cache does: of Jobs, pods and claims it sees only what carries
// our label, and of nothing does it see what hidden says is not there yet.
func Cached(server client.WithWatch, hidden func(client.Object) bool) client.WithWatch {
	return interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, object, opts...); err != nil {
				return err
			}
			if selected(object) && !hidden(object) {
				return nil
			}
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			switch list := list.(type) {
			case *batchv1.JobList:
				list.Items = slices.DeleteFunc(list.Items, func(o batchv1.Job) bool { return !selected(&o) || hidden(&o) })
			case *corev1.PodList:
				list.Items = slices.DeleteFunc(list.Items, func(o corev1.Pod) bool { return !selected(&o) || hidden(&o) })
			case *v1alpha1.DatabaseBackupList:
				list.Items = slices.DeleteFunc(list.Items, func(o v1alpha1.DatabaseBackup) bool { return hidden(&o) })
			}
			return nil
		},
	})
}

func selected(object client.Object) bool {
	switch object.(type) {
	case *batchv1.Job, *corev1.Pod, *corev1.PersistentVolumeClaim:
		return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
	}
	return true
}

package testutil

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Collect plays the garbage collector: what waits to be deleted goes, pods go with their Jobs, and children whose
// owner is gone are deleted.
func (c *Cluster) Collect(ctx context.Context, namespace string) error {
	there, err := c.uids(ctx, namespace)
	if err != nil {
		return err
	}
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}, &v1alpha1.DatabaseBackupList{},
	} {
		err := c.each(ctx, namespace, list, func(object client.Object) error { return c.collect(ctx, object, there) })
		if err != nil {
			return fmt.Errorf("playing the garbage collector: %w", err)
		}
	}
	return nil
}

// collect deletes an orphan, and frees what the cluster's own finalizers hold. A Job that is deleted in the
// foreground counts as gone for its pods.
func (c *Cluster) collect(ctx context.Context, object client.Object, there map[types.UID]bool) error {
	owner := metav1.GetControllerOf(object)
	if owner != nil && !there[owner.UID] && object.GetDeletionTimestamp().IsZero() {
		return c.collectOrphan(ctx, object, owner.UID)
	}
	if object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	var kept []string
	for _, finalizer := range object.GetFinalizers() {
		if finalizer == v1alpha1.Finalizer {
			kept = append(kept, finalizer)
		}
	}
	if len(kept) == len(object.GetFinalizers()) {
		return nil
	}
	object.SetFinalizers(kept)
	return client.IgnoreNotFound(c.Client.Update(ctx, object))
}

// collectOrphan looks once more whether the owner is there: one that was made a moment ago is not among the UIDs that
// were read before its children.
func (c *Cluster) collectOrphan(ctx context.Context, object client.Object, owner types.UID) error {
	there, err := c.uids(ctx, object.GetNamespace())
	if err != nil || there[owner] {
		return err
	}
	return client.IgnoreNotFound(c.Client.Delete(ctx, object, client.GracePeriodSeconds(0)))
}

// uids of all that may own something, apart from Jobs that are going.
func (c *Cluster) uids(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	there := map[types.UID]bool{}
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &v1alpha1.DatabaseBackupList{}, &v1alpha1.DatabaseRestoreList{},
	} {
		err := c.each(ctx, namespace, list, func(object client.Object) error {
			_, isJob := object.(*batchv1.Job)
			there[object.GetUID()] = !isJob || object.GetDeletionTimestamp().IsZero()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

func (c *Cluster) each(ctx context.Context, namespace string, list client.ObjectList, do func(client.Object) error) error {
	if err := c.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := do(item.(client.Object)); err != nil {
			return err
		}
	}
	return nil
}

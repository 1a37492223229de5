package testutil

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SnapshotFate is what becomes of a VolumeSnapshot.
type SnapshotFate int

// Fates of VolumeSnapshots.
const (
	SnapshotReady SnapshotFate = iota
	SnapshotPending
	SnapshotTroubled
)

// SnapshotTrouble is what a troubled snapshot's driver says.
const SnapshotTrouble = "the pool is full"

// Handle of a VolumeSnapshot at the storage system.
func Handle(snapshot string) string { return "handle-of-" + snapshot }

func (c *Cluster) takeSnapshots(ctx context.Context, namespace string) error {
	var list snapshotv1.VolumeSnapshotList
	if c.Snapshot == SnapshotPending {
		return nil
	}
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace), ours); err != nil {
		return fmt.Errorf("playing the snapshot controller: %w", err)
	}
	for i := range list.Items {
		if err := c.takeSnapshot(ctx, &list.Items[i]); err != nil {
			return fmt.Errorf("playing the snapshot controller: %w", err)
		}
	}
	return nil
}

func (c *Cluster) takeSnapshot(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) error {
	if snapshot.Status != nil && ptr.Deref(snapshot.Status.ReadyToUse, false) {
		return nil
	}
	if c.Snapshot == SnapshotTroubled {
		snapshot.Status = &snapshotv1.VolumeSnapshotStatus{
			ReadyToUse: ptr.To(false), Error: &snapshotv1.VolumeSnapshotError{Message: ptr.To(SnapshotTrouble)},
		}
		return c.Client.Status().Update(ctx, snapshot)
	}
	content, err := c.takeContent(ctx, snapshot)
	if err != nil {
		return err
	}
	size := resource.MustParse("10Gi")
	snapshot.Status = &snapshotv1.VolumeSnapshotStatus{
		BoundVolumeSnapshotContentName: &content.Name, ReadyToUse: ptr.To(true), RestoreSize: &size,
		CreationTime: ptr.To(metav1.NewTime(c.Now())),
	}
	return c.Client.Status().Update(ctx, snapshot)
}

func (c *Cluster) takeContent(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) (*snapshotv1.VolumeSnapshotContent, error) {
	volume := VolumeName(snapshot.Namespace, *snapshot.Spec.Source.PersistentVolumeClaimName)
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content-" + string(snapshot.UID)},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: snapshot.Namespace, Name: snapshot.Name, UID: snapshot.UID},
			Driver:            Driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &volume},
		},
	}
	if err := c.Client.Create(ctx, content); client.IgnoreAlreadyExists(err) != nil {
		return nil, err
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(content), content); err != nil {
		return nil, err
	}
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{
		SnapshotHandle: ptr.To(Handle(snapshot.Name)), ReadyToUse: ptr.To(true),
	}
	return content, c.Client.Status().Update(ctx, content)
}

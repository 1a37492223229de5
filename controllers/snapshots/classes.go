// Package snapshots finds the class for a claim's VolumeSnapshot, takes it, watches it, and removes it.
package snapshots

import (
	"context"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

const (
	// defaultSnapshotClass marks a driver's default VolumeSnapshotClass (external-snapshotter).
	defaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"
	// defaultStorageClass marks a cluster's default StorageClass (Kubernetes).
	defaultStorageClass = "storageclass.kubernetes.io/is-default-class"
)

// Cluster reads what snapshots depend on. It reads live: these objects change seldom and are needed seldom.
type Cluster struct {
	Live client.Reader
}

// BoundClaim returns a claim that exists and is bound, or says by a Stall why it is not.
func (c Cluster) BoundClaim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil, flow.Stalled(v1alpha1.ReasonClaimNotFound, "PersistentVolumeClaim %s/%s, named in "+
			"spec.volumeSnapshot.claims, does not exist: `kubectl -n %s get pvc` lists those that do", namespace, name, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s/%s: %w", namespace, name, err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil, flow.Stalled(v1alpha1.ReasonClaimNotBound, "PersistentVolumeClaim %s/%s is %s and not Bound: "+
			"there is no volume to snapshot", namespace, name, claim.Status.Phase)
	}
	return claim, nil
}

// DriverOfClaim returns the CSI driver of a bound claim's volume.
func (c Cluster) DriverOfClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	volume := &corev1.PersistentVolume{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return "", fmt.Errorf("reading PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	if volume.Spec.CSI == nil {
		return "", flow.Stalled(v1alpha1.ReasonSnapshotClassMissing, "PersistentVolumeClaim %s/%s lies on a volume "+
			"without a CSI driver, which cannot be snapshotted: set spec.volumeSnapshot.mode to Disabled",
			claim.Namespace, claim.Name)
	}
	return volume.Spec.CSI.Driver, nil
}

// StorageClass returns the class that a staging claim will get: the named one, or the cluster's default.
func (c Cluster) StorageClass(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	if name == "" {
		return c.defaultStorageClass(ctx)
	}
	class := &storagev1.StorageClass{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, flow.Stalled(v1alpha1.ReasonStorageClassMissing, "StorageClass %s, named in "+
			"spec.staging.storageClassName, does not exist", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading StorageClass %s: %w", name, err)
	}
	return class, nil
}

func (c Cluster) defaultStorageClass(ctx context.Context) (*storagev1.StorageClass, error) {
	var list storagev1.StorageClassList
	if err := c.Live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing StorageClasses: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[defaultStorageClass] == "true" {
			return &list.Items[i], nil
		}
	}
	return nil, flow.Stalled(v1alpha1.ReasonStorageClassMissing, "the cluster has no default StorageClass for the "+
		"staging claim: set spec.staging.storageClassName")
}

// SnapshotClass returns the name of the class for a driver: the named one if it is the driver's, else the driver's
// default, else the only one it has.
func (c Cluster) SnapshotClass(ctx context.Context, name, driver string) (string, error) {
	var list snapshotv1.VolumeSnapshotClassList
	if err := c.Live.List(ctx, &list); err != nil {
		return "", listError(err)
	}
	classes := slices.DeleteFunc(slices.Clone(list.Items), func(class snapshotv1.VolumeSnapshotClass) bool {
		return class.Driver != driver
	})
	if name != "" {
		return named(list.Items, classes, name, driver)
	}
	return choose(classes, driver)
}

// listError tells a cluster without the snapshot API from one that did not answer.
func listError(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return flow.Stalled(v1alpha1.ReasonSnapshotAPIMissing, "this cluster has no VolumeSnapshot API "+
			"(snapshot.storage.k8s.io/v1): install the snapshot controller and its CRDs, or set spec.volumeSnapshot.mode to Disabled")
	}
	return fmt.Errorf("listing VolumeSnapshotClasses: %w", err)
}

func named(all, ofDriver []snapshotv1.VolumeSnapshotClass, name, driver string) (string, error) {
	is := func(class snapshotv1.VolumeSnapshotClass) bool { return class.Name == name }
	if slices.ContainsFunc(ofDriver, is) {
		return name, nil
	}
	if i := slices.IndexFunc(all, is); i >= 0 {
		return "", missing("VolumeSnapshotClass %s is for driver %s, but the claim's driver is %s", name, all[i].Driver, driver)
	}
	return "", missing("VolumeSnapshotClass %s, named in spec.volumeSnapshot.className, does not exist", name)
}

func choose(classes []snapshotv1.VolumeSnapshotClass, driver string) (string, error) {
	for _, class := range classes {
		if class.Annotations[defaultSnapshotClass] == "true" {
			return class.Name, nil
		}
	}
	switch len(classes) {
	case 0:
		return "", missing("there is no VolumeSnapshotClass for the claim's driver %s", driver)
	case 1:
		return classes[0].Name, nil
	}
	names := make([]string, 0, len(classes))
	for _, class := range classes {
		names = append(names, class.Name)
	}
	return "", missing("driver %s has several VolumeSnapshotClasses and no default (%s)", driver, strings.Join(names, ", "))
}

func missing(format string, args ...any) error {
	return flow.Stalled(v1alpha1.ReasonSnapshotClassMissing, "%s: set spec.volumeSnapshot.className to a class of that driver "+
		"(`kubectl get volumesnapshotclass`), or spec.volumeSnapshot.mode to Disabled", fmt.Sprintf(format, args...))
}

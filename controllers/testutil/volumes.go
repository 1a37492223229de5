package testutil

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Driver is the CSI driver of every volume of tests.
const Driver = "csi.holdfast.test"

// Names of the classes of Driver.
const (
	StorageClassName  = "test-storage"
	SnapshotClassName = "test-snapshots"
)

// StorageClass is the cluster's default one.
func StorageClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: StorageClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: Driver,
	}
}

// SnapshotClass is a class of a driver; the default one of it where isDefault says so.
func SnapshotClass(name, driver string, isDefault bool) *snapshotv1.VolumeSnapshotClass {
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	if isDefault {
		class.Annotations = map[string]string{"snapshot.storage.kubernetes.io/is-default-class": "true"}
	}
	return class
}

// DataClaim is a claim that some database uses, and not Holdfast's.
func DataClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeName:  VolumeName(namespace, name),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			},
		},
	}
}

// Bound marks a claim as bound to a volume of its requested size.
func Bound(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
	return claim
}

// VolumeName of the volume that a test's claim is bound to.
func VolumeName(namespace, claim string) string { return "pv-" + namespace + "-" + claim }

// Volume is the CSI volume of a test's claim.
func Volume(namespace, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: VolumeName(namespace, claim)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: "volume-of-" + claim},
			},
		},
	}
}

// Package v1alpha1 holds the kinds that users of Holdfast write: DatabaseBackup, DatabaseRestore and BackupSchedule.
//
// +kubebuilder:object:generate=true
// +groupName=holdfast.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "holdfast.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DatabaseBackup{}, &DatabaseBackupList{},
		&DatabaseRestore{}, &DatabaseRestoreList{},
		&BackupSchedule{}, &BackupScheduleList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
})

// AddToScheme registers the kinds of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

package controllers

import (
	"reflect"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// slim makes what the cache holds as small as it can be, since there may be tens of thousands of backups: it takes away what no
// reconciler reads from the cache, and keeps each string once. Nothing of that is lost on the server: objects are only ever
// patched, from two copies of one reading.
func slim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
		delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	if backup, ok := object.(*v1alpha1.DatabaseBackup); ok && flow.IsTrue(backup, v1alpha1.ConditionReady) {
		slimReady(backup)
	}
	if o, ok := object.(client.Object); ok && ofOurs(reflect.TypeOf(o).Elem()) {
		intern(reflect.ValueOf(object))
	}
	return object, nil
}

// slimReady leaves of a Ready backup what restores, schedules and retention read of it: where it lies, what it holds and how
// it is deleted. A deleted one is read afresh.
func slimReady(backup *v1alpha1.DatabaseBackup) {
	spec := &backup.Spec
	spec.PodTemplate, spec.Staging, spec.VolumeSnapshot = v1alpha1.PodTemplate{}, v1alpha1.StagingSpec{}, v1alpha1.VolumeSnapshotSpec{}
	backup.Status.VolumeSnapshots = nil
	for _, condition := range backup.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			condition.Message = ""
			backup.Status.Conditions = append(backup.Status.Conditions[:0:0], condition)
		}
	}
}

// ofOurs says whether a type is one of the API's or of the metadata that goes with it. Others may hold what must not be
// touched by reflection, such as times.
func ofOurs(t reflect.Type) bool {
	return strings.HasSuffix(t.PkgPath(), "/api/v1alpha1") || strings.HasSuffix(t.PkgPath(), "/apis/meta/v1") && t.Name() != "Time"
}

// intern lets equal strings of all objects share their bytes: hosts, buckets, names of Secrets are the same in thousands.
func intern(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			intern(v.Elem())
		}
	case reflect.Struct:
		if ofOurs(v.Type()) {
			for _, field := range v.Fields() {
				intern(field)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			intern(v.Index(i))
		}
	case reflect.String:
		if v.CanSet() && v.Len() > 0 {
			v.SetString(unique.Make(v.String()).Value())
		}
	default: // nothing that holds strings, or maps, whose values cannot be set in place
	}
}

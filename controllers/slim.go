package controllers

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// slim makes what the cache holds as small as it can be, since there may be tens of thousands of backups: it takes away what no
// reconciler reads from the cache, and lets equal strings share their bytes. Nothing of that is lost on the server: objects are only ever
// patched, from two copies of one reading.
func slim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
		delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	switch o := object.(type) {
	case *v1alpha1.DatabaseBackup:
		// One that is deleted says in its conditions what keeps it from going.
		if flow.IsTrue(o, v1alpha1.ConditionReady) && o.DeletionTimestamp.IsZero() {
			slimReady(o)
		}
		slimStrings(o, &o.Spec.Storage)
	case *v1alpha1.BackupSchedule:
		o.Status.Conditions = slices.Clone(o.Status.Conditions) // which was made with room for more
		slimStrings(o, &o.Spec.Template.Spec.Storage)
	case *v1alpha1.DatabaseRestore:
		intern(reflect.ValueOf(o))
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

// slimStrings lets an object have its strings, and the place that it names, in common with others.
func slimStrings(object client.Object, place *v1alpha1.StorageSpec) {
	store := place.S3
	place.S3 = nil // it may be a common one already, which must not be written into
	intern(reflect.ValueOf(object))
	place.S3 = stores.one(store)
}

// stores are the places that objects of the cache name.
var stores = shared{known: map[v1alpha1.S3Bucket]*v1alpha1.S3Bucket{}}

// maxStores is how many different places are known at a time; with more than that, all are learned anew.
const maxStores = 1000

// shared lets the objects of the cache, which nobody changes, have equal places in common: thousands of backups go to a few.
type shared struct {
	mutex sync.Mutex
	known map[v1alpha1.S3Bucket]*v1alpha1.S3Bucket
}

func (s *shared) one(store *v1alpha1.S3Bucket) *v1alpha1.S3Bucket {
	if store == nil || store.ForcePathStyle != nil { // a pointer, by which equal ones would differ
		return store
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if same := s.known[*store]; same != nil {
		return same
	}
	if len(s.known) >= maxStores {
		clear(s.known)
	}
	own := *store
	intern(reflect.ValueOf(&own))
	s.known[own] = &own
	return &own
}

// intern lets equal strings share their bytes: hosts, buckets, names of Secrets are the same in thousands of objects. It does
// so for what is read in one go, as at a start; what comes after the next garbage collection begins anew.
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

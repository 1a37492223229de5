//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// patience is how long anything may take that takes seconds on an idle machine: specs share two cores.
	patience = 5 * time.Minute
	// pollInterval between looks at what cannot be watched.
	pollInterval = 300 * time.Millisecond
)

// await looks at something again and again until it is as wanted. look returns whether it is, and the state to show
// when it never was.
func await(t *testing.T, what string, deadline time.Duration, look func(ctx context.Context) (bool, string)) {
	t.Helper()
	if state, ok := tryAwait(t.Context(), deadline, look); !ok {
		t.Fatalf("waited %s for %s; the last state: %s", deadline, what, state)
	}
}

func tryAwait(ctx context.Context, deadline time.Duration, look func(ctx context.Context) (bool, string)) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	state := "not looked at"
	for {
		done, now := look(ctx)
		if ctx.Err() == nil || done {
			state = now
		}
		if done {
			return state, true
		}
		select {
		case <-ctx.Done():
			return state, false
		case <-ticker.C:
		}
	}
}

// follow watches one object, so that no state between two looks is missed, and calls look with each state until it
// returns true. An error of look ends the spec.
func follow[T client.Object](t *testing.T, obj T, what string, look func(T) (bool, error)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last T
	seen := func(now T) bool {
		last = now
		done, err := look(now)
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		return done
	}
	for ctx.Err() == nil {
		done, err := followOnce(ctx, obj, seen)
		if done {
			return last
		}
		if err != nil && ctx.Err() == nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
	t.Fatalf("waited %s for %s; the last state:\n%s", patience, what, describe(last))
	return last
}

// followOnce looks at the object and then at its changes, until the watch ends.
func followOnce[T client.Object](ctx context.Context, obj T, seen func(T) bool) (bool, error) {
	key := client.ObjectKeyFromObject(obj)
	if err := env.kube.Get(ctx, key, obj); err != nil {
		return false, err
	}
	if seen(obj.DeepCopyObject().(T)) {
		return true, nil
	}
	list, err := listOf(obj)
	if err != nil {
		return false, err
	}
	changes, err := env.kube.Watch(ctx, list, &client.ListOptions{
		Namespace:     key.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name),
	})
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		now, ok := change.Object.(T)
		if change.Type == watch.Deleted {
			return false, fmt.Errorf("%s was deleted", key)
		}
		if ok && seen(now) {
			return true, nil
		}
	}
	return false, nil
}

func listOf(obj client.Object) (client.ObjectList, error) {
	switch obj.(type) {
	case *v1alpha1.DatabaseBackup:
		return &v1alpha1.DatabaseBackupList{}, nil
	case *v1alpha1.DatabaseRestore:
		return &v1alpha1.DatabaseRestoreList{}, nil
	case *v1alpha1.BackupSchedule:
		return &v1alpha1.BackupScheduleList{}, nil
	}
	return nil, fmt.Errorf("the suite follows no %T", obj)
}

// awaitGone waits until an object is no more.
func awaitGone(t *testing.T, obj client.Object) {
	t.Helper()
	key := client.ObjectKeyFromObject(obj)
	await(t, fmt.Sprintf("%T %s to be gone", obj, key), patience, func(ctx context.Context) (bool, string) {
		err := env.kube.Get(ctx, key, obj)
		if client.IgnoreNotFound(err) == nil && err != nil {
			return true, "gone"
		}
		return false, fmt.Sprintf("deletionTimestamp %v, finalizers %v, error %v",
			obj.GetDeletionTimestamp(), obj.GetFinalizers(), err)
	})
}

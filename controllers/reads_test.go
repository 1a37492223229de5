package controllers_test

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func (w *world) list(list client.ObjectList) []client.Object {
	w.t.Helper()
	if err := w.server.List(w.t.Context(), list, client.InNamespace(testutil.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		w.t.Fatal(err)
	}
	objects := make([]client.Object, 0, len(items))
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects
}

func (w *world) backup(name string) *v1alpha1.DatabaseBackup {
	w.t.Helper()
	backup := &v1alpha1.DatabaseBackup{}
	if err := w.server.Get(w.t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: name}, backup); err != nil {
		w.t.Fatal(err)
	}
	return backup
}

func (w *world) restore(name string) *v1alpha1.DatabaseRestore {
	w.t.Helper()
	restore := &v1alpha1.DatabaseRestore{}
	if err := w.server.Get(w.t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: name}, restore); err != nil {
		w.t.Fatal(err)
	}
	return restore
}

func (w *world) gone(object client.Object) bool {
	w.t.Helper()
	fresh := object.DeepCopyObject().(client.Object)
	err := w.server.Get(w.t.Context(), client.ObjectKeyFromObject(object), fresh)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

func (w *world) remove(object client.Object) {
	w.t.Helper()
	if err := w.server.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// job returns an owner's Job for a task, and fails when it is not there.
func (w *world) job(owner client.Object, verb contract.Verb) *batchv1.Job {
	w.t.Helper()
	job := &batchv1.Job{}
	key := client.ObjectKey{Namespace: testutil.Namespace, Name: jobs.ChildName(owner, string(verb))}
	if err := w.server.Get(w.t.Context(), key, job); err != nil {
		w.t.Fatal(err)
	}
	return job
}

// task returns what the agent of an owner's Job is told.
func (w *world) task(owner client.Object, verb contract.Verb) contract.Task {
	w.t.Helper()
	task, err := testutil.TaskOf(w.job(owner, verb))
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

// expectLeft checks what Holdfast made and has not removed: the suffixes of names.
func (w *world) expectLeft(suffixes ...string) {
	w.t.Helper()
	left := w.left()
	matches := len(left) == len(suffixes)
	for _, suffix := range suffixes {
		matches = matches && slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, suffix) })
	}
	if !matches {
		w.t.Errorf("left are %v, want %v", left, suffixes)
	}
}

// expect checks a condition of an object.
func (w *world) expect(subject flow.Subject, kind string, status metav1.ConditionStatus, reason string, says ...string) {
	w.t.Helper()
	condition := meta.FindStatusCondition(*subject.Progress().Conditions, kind)
	if condition == nil {
		w.t.Fatalf("%s has no condition %s: %v", subject.GetName(), kind, *subject.Progress().Conditions)
	}
	if condition.Status != status || condition.Reason != reason {
		w.t.Errorf("%s of %s is %s for %s (%s), want %s for %s", kind, subject.GetName(), condition.Status, condition.Reason,
			condition.Message, status, reason)
	}
	for _, text := range says {
		if !strings.Contains(condition.Message, text) {
			w.t.Errorf("%s lacks %q: %s", kind, text, condition.Message)
		}
	}
}

// expectStalled checks that an object failed for good in a stage, for a reason.
func (w *world) expectStalled(subject flow.Subject, stage, reason string, says ...string) {
	w.t.Helper()
	w.expect(subject, v1alpha1.ConditionReady, metav1.ConditionFalse, stage)
	w.expect(subject, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, says...)
	if *subject.Progress().CompletionTime == nil {
		w.t.Errorf("%s has no completionTime", subject.GetName())
	}
}

// eventReasons are the reasons of the events about an object, in their order.
func (w *world) eventReasons(about string) []string {
	var reasons []string
	for _, event := range w.events.Events() {
		if event.About == about {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// expectNotes checks that the events about an object begin with these words, in their order.
func (w *world) expectNotes(about string, begin ...string) {
	w.t.Helper()
	var notes []string
	for _, event := range w.events.Events() {
		if event.About == about {
			notes = append(notes, event.Note)
		}
	}
	if !slices.EqualFunc(notes, begin, strings.HasPrefix) {
		w.t.Errorf("the events say %q, want beginnings %q", notes, begin)
	}
}

// hold lets the agents of one task work on, and all others succeed.
func hold(verb contract.Verb) func(contract.Task) *contract.Result {
	return func(task contract.Task) *contract.Result {
		if task.Verb == verb {
			return nil
		}
		result := testutil.Result(task)
		return &result
	}
}

// fail lets the agents of one task fail, and all others succeed.
func fail(verb contract.Verb, reason, message string) func(contract.Task) *contract.Result {
	return func(task contract.Task) *contract.Result {
		result := testutil.Result(task)
		if task.Verb == verb {
			result = testutil.Failure(verb, reason, message)
		}
		return &result
	}
}

func parallel(t *testing.T) *testing.T {
	t.Helper()
	t.Parallel()
	return t
}

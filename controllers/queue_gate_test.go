package controllers_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// bySchedule makes a backup one of a schedule's.
func bySchedule(object client.Object) client.Object {
	object.SetLabels(map[string]string{v1alpha1.LabelSchedule: "a-uid"})
	return object
}

// claims makes a backup look as if it were a restore's own.
func claims(backup *v1alpha1.DatabaseBackup, restore *v1alpha1.DatabaseRestore) *v1alpha1.DatabaseBackup {
	backup.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwnerUID: string(restore.UID)}
	backup.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DatabaseRestore", Name: restore.Name, UID: restore.UID, Controller: ptr.To(true),
	}}
	return backup
}

func TestQueueIsNotJumpedWithAnOwnerReference(t *testing.T) {
	for name, restore := range map[string]*v1alpha1.DatabaseRestore{
		"to nothing": testutil.Restore("again").Build(),
		"to a restore with another safety backup": testutil.Restore("again").With(func(r *v1alpha1.DatabaseRestore) {
			r.Status.SafetyBackupName = "another"
		}).Build(),
		"to a restore that ended": testutil.Restore("again").With(func(r *v1alpha1.DatabaseRestore) {
			r.Status.SafetyBackupName = "pushy"
			flow.Complete(r, testutil.Start, "done")
		}).Build(),
	} {
		t.Run(name, func(t *testing.T) {
			restore.UID = "1"
			pushy := claims(testutil.Backup("pushy").NoSnapshots().Build(), restore)
			objects := append(numbered(testutil.Namespace, "orders", 1), pushy)
			if name != "to nothing" {
				objects = append(objects, restore)
			}
			w := newWorld(parallel(t), objects...)
			w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
			w.mustLook(w.backup("orders-0000"))
			w.mustLook(pushy)
			w.expectAtWork("orders-0000")
			w.expect(w.backup("pushy"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueued)
		})
	}
}

func TestQueueWaitsForARestoreToNameItsSafetyBackup(t *testing.T) {
	restore := testutil.Restore("again").Build()
	restore.UID = "1"
	own := claims(testutil.Backup("again-safety").NoSnapshots().Build(), restore)
	w := newWorld(parallel(t), append(numbered(testutil.Namespace, "orders", 1), own, restore)...)
	w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
	w.mustLook(w.backup("orders-0000"))
	if result := w.mustLook(own); result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("it is looked at again after %s", result.RequeueAfter)
	}
	if flow.Has(w.backup(own.Name), v1alpha1.ConditionReady) {
		t.Error("something was said of it")
	}
	restore = w.restore("again")
	restore.Status.SafetyBackupName = own.Name
	if err := w.server.Status().Update(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	w.mustLook(own)
	w.expectAtWork(own.Name, "orders-0000")
}

func TestQueueLooksForRestoresBeforeASchedulesBackupBegins(t *testing.T) {
	objects := numbered(testutil.Namespace, "orders", 2)
	first, second := bySchedule(objects[0]), objects[1]
	w := newWorld(parallel(t), objects...)
	w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
	w.mustLook(second) // the place goes to the first, which does not know yet
	w.expectAtWork()
	restore := testutil.Restore("again").Build()
	if err := w.server.Create(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	restore.Status.SafetyBackupName = "again-safety"
	if err := w.server.Status().Update(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	if result := w.mustLook(first); result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Second {
		t.Errorf("it is looked at again after %s", result.RequeueAfter)
	}
	held := w.backup(first.GetName())
	w.expect(held, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForRestore, "again", "half restored")
	if got := w.eventReasons(held.Name); !slices.Equal(got, []string{v1alpha1.ReasonWaitingForRestore}) {
		t.Errorf("people were told of %v", got)
	}
	w.mustLook(first)
	w.mustLook(second) // people who ask for a backup by hand now want it now
	w.expectAtWork(second.GetName())

	flow.Complete(restore, w.clock.Now(), "done")
	if err := w.server.Status().Update(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	w.mustLook(first)
	w.expect(w.backup(first.GetName()), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueued)
	w.cluster.Answer = nil
	w.settle("all are Ready", func() bool {
		return !slices.ContainsFunc(w.backups(), func(o client.Object) bool { return !flow.IsTrue(o.(flow.Subject), v1alpha1.ConditionReady) })
	})
}

func TestQueueGivesThePlaceOfAHeldBackupToOthers(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1, 0, numbered("a", "x", 2)...)
	q.expect("at first", "a/x-0000")
	first := q.backups()[0]
	q.show("a/x-0000", func(backup *v1alpha1.DatabaseBackup) {
		flow.MarkFalse(backup, v1alpha1.ConditionReady, v1alpha1.ReasonWaitingForRestore, "a restore is at work")
	})
	q.queue.Release(t.Context(), &first)
	q.expect("when the first does not begin", "a/x-0001")
	if phase := index.PhaseOf(&q.backups()[0]); phase != index.Held {
		t.Errorf("it is %s", phase)
	}
}

func TestQueueSaysNothingForAMomentOfASchedulesBackup(t *testing.T) {
	objects := numbered(testutil.Namespace, "orders", 2)
	waiting := bySchedule(objects[1])
	waiting.SetCreationTimestamp(metav1.NewTime(testutil.Start))
	w := newWorld(parallel(t), objects...)
	w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
	w.mustLook(objects[0])
	result := w.mustLook(waiting)
	if flow.Has(w.backup(waiting.GetName()), v1alpha1.ConditionReady) || result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Second {
		t.Errorf("looked at again after %s, status %+v", result.RequeueAfter, w.backup(waiting.GetName()).Status)
	}
	w.clock.Advance(result.RequeueAfter)
	w.mustLook(waiting)
	w.expect(w.backup(waiting.GetName()), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueued)
}

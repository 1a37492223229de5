package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// numbered are backups that were asked for one after another.
func numbered(namespace, name string, count int) []client.Object {
	var list []client.Object
	for i := range count {
		backup := testutil.Backup(fmt.Sprintf("%s-%04d", name, i)).In(namespace).NoSnapshots().Build()
		backup.CreationTimestamp = metav1.NewTime(testutil.Start.Add(time.Duration(i-count) * time.Second))
		list = append(list, backup)
	}
	return list
}

// atWork are the backups that have begun, have not ended and are not being deleted.
func (w *world) atWork() []string {
	w.t.Helper()
	var names []string
	for _, object := range w.backups() {
		backup := object.(*v1alpha1.DatabaseBackup)
		if backup.Status.StartTime != nil && !flow.Ended(backup) && backup.DeletionTimestamp.IsZero() {
			names = append(names, backup.Name)
		}
	}
	return names
}

func (w *world) expectAtWork(names ...string) {
	w.t.Helper()
	if got := w.atWork(); !slices.Equal(got, names) {
		w.t.Errorf("at work are %v, want %v", got, names)
	}
}

func TestQueueLetsSoManyRunAtOnce(t *testing.T) {
	w := newWorld(parallel(t), numbered(testutil.Namespace, "orders", 7)...)
	w.maxRunning = 2
	most := 0
	w.deny = func(string, client.Object) error {
		most = max(most, len(w.atWork()))
		return nil
	}
	w.settle("all are Ready", func() bool {
		return !slices.ContainsFunc(w.backups(), func(o client.Object) bool { return !flow.IsTrue(o.(flow.Subject), v1alpha1.ConditionReady) })
	})
	if most != 2 {
		t.Errorf("%d ran at once, want 2", most)
	}
	var began []string
	for _, event := range w.events.Events() {
		if event.Reason == v1alpha1.ReasonDumping {
			began = append(began, event.About)
		}
	}
	if len(began) != 7 || !slices.IsSorted(began) {
		t.Errorf("they began as %v, want the oldest first", began)
	}
}

func TestQueueWaitsInSilence(t *testing.T) {
	w := newWorld(parallel(t), numbered(testutil.Namespace, "orders", 2)...)
	w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
	w.round()
	w.round()
	waiting := w.backup("orders-0001")
	w.expect(waiting, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueued, "at most 1 backups run at once", "--max-running-backups")
	if waiting.Status.StartTime != nil || len(waiting.Finalizers) > 0 || waiting.Status.ObservedGeneration != waiting.Generation {
		t.Errorf("started %v, finalizers %v, observed %d", waiting.Status.StartTime, waiting.Finalizers, waiting.Status.ObservedGeneration)
	}
	w.deny = func(verb string, object client.Object) error {
		if object.GetName() == waiting.Name {
			t.Errorf("%s of a backup that waits", verb)
		}
		return nil
	}
	for range 3 {
		w.clock.Advance(time.Hour)
		if result := w.mustLook(waiting); result.RequeueAfter <= 0 {
			t.Error("nobody comes back to see whether there is a place")
		}
	}
	w.deny, w.cluster.Answer = nil, nil
	w.settle("it is Ready, though it waited for longer than its timeout", func() bool {
		return flow.IsTrue(w.backup(waiting.Name), v1alpha1.ConditionReady)
	})
	if reasons := w.eventReasons(waiting.Name); slices.Contains(reasons, v1alpha1.ReasonQueued) {
		t.Errorf("people were told of %v: status says what is waited for, and nothing has happened", reasons)
	}
}

func TestQueueDeletedBackups(t *testing.T) {
	w := newWorld(parallel(t), numbered(testutil.Namespace, "orders", 4)...)
	w.maxRunning, w.cluster.Answer = 1, hold(contract.VerbDump)
	w.round()
	fresh, older := w.backup("orders-0001"), w.backup("orders-0002")
	w.remove(fresh)
	if !w.gone(fresh) {
		t.Error("a backup that waits does not go at once")
	}
	older.Finalizers = []string{v1alpha1.Finalizer} // as one has that was begun by a manager that knew of no limit
	if err := w.server.Update(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	w.remove(older)
	w.mustLook(older)
	if !w.gone(older) {
		t.Error("a backup with a finalizer that waits does not go at the first look")
	}
	w.expectAtWork("orders-0000")
	w.remove(w.backup("orders-0000"))
	w.mustLook(w.backup("orders-0003"))
	w.expectAtWork("orders-0003")
}

func TestQueueAndSafetyBackups(t *testing.T) {
	busy := testutil.Backup("busy").Build()
	w := newWorld(parallel(t), busy, testutil.Restore("again").Build())
	w.maxRunning = 1
	w.cluster.Answer = func(task contract.Task) *contract.Result {
		if task.Object.Name == busy.Name || task.Verb == contract.VerbUpload {
			return nil
		}
		result := testutil.Result(task)
		return &result
	}
	w.settle("the safety backup runs beside", func() bool { return len(w.atWork()) == 2 })
	w.remove(w.backup("busy"))
	w.settle("it is gone", func() bool { return w.gone(busy) })
	late := testutil.Backup("late").Build()
	if err := w.server.Create(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	w.round()
	w.expect(w.backup("late"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQueued)
	w.cluster.Answer = nil
	w.settle("the restore is Ready", func() bool { return flow.IsTrue(w.restore("again"), v1alpha1.ConditionReady) })
	w.settle("so is the backup", func() bool { return flow.IsTrue(w.backup("late"), v1alpha1.ConditionReady) })
}

func TestQueueWhoseManagerIsKilledAtEachWrite(t *testing.T) {
	killedEverywhere(parallel(t), numbered(testutil.Namespace, "orders", 2), func(w *world) any {
		w.maxRunning = 1
		var over []string
		w.settle("both are Ready", func() bool {
			if running := w.atWork(); len(running) > 1 {
				over = running
			}
			return flow.IsTrue(w.backup("orders-0000"), v1alpha1.ConditionReady) && flow.IsTrue(w.backup("orders-0001"), v1alpha1.ConditionReady)
		})
		w.quiet()
		return fmt.Sprintf("over the limit: %v, left: %v", over, w.left())
	})
}

package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
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
	reasons := w.eventReasons(waiting.Name)
	if reasons[0] != v1alpha1.ReasonQueued || slices.Contains(reasons[1:], v1alpha1.ReasonQueued) {
		t.Errorf("people were told of %v, want %s first and once", reasons, v1alpha1.ReasonQueued)
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

// queued is a queue whose cache knows what is written into it, and nothing else.
type queued struct {
	t     *testing.T
	cache client.WithWatch
	queue *controllers.Queue
	mutex sync.Mutex
	read  map[string]int // how many backups were listed, by phase
}

func newQueue(t *testing.T, total, perNamespace int, objects ...client.Object) *queued {
	t.Helper()
	q := &queued{t: t, read: map[string]int{}}
	q.cache = interceptor.NewClient(testutil.NewFake(t, testutil.NewClock(), objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			phase := "all"
			if by := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector; by != nil {
				phase, _ = by.RequiresExactMatch(index.Phase)
			}
			q.mutex.Lock()
			defer q.mutex.Unlock()
			q.read[phase] += len(list.(*v1alpha1.DatabaseBackupList).Items)
			return err
		},
	})
	q.queue = &controllers.Queue{Client: q.cache, Total: total, PerNamespace: perNamespace}
	return q
}

// backups are all that the cache knows.
func (q *queued) backups() []v1alpha1.DatabaseBackup {
	q.t.Helper()
	list := &v1alpha1.DatabaseBackupList{}
	if err := q.cache.List(q.t.Context(), list); err != nil {
		q.t.Fatal(err)
	}
	return list.Items
}

// ask lets four at once ask for each backup, and returns those that may start.
func (q *queued) ask() []string {
	q.t.Helper()
	work, answers := make(chan *v1alpha1.DatabaseBackup), map[string]bool{}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for backup := range work {
				may, err := q.queue.MayStart(q.t.Context(), backup)
				if err != nil {
					q.t.Error(err)
				}
				q.mutex.Lock()
				answers[backup.Namespace+"/"+backup.Name] = may
				q.mutex.Unlock()
			}
		})
	}
	for _, backup := range q.backups() {
		if index.PhaseOf(&backup) == index.Waiting {
			work <- &backup
		}
	}
	close(work)
	workers.Wait()
	maps.DeleteFunc(answers, func(_ string, may bool) bool { return !may })
	return slices.Sorted(maps.Keys(answers))
}

func (q *queued) expect(what string, want ...string) {
	q.t.Helper()
	if got := q.ask(); !slices.Equal(got, want) {
		q.t.Errorf("%s: %v may start, want %v", what, got, want)
	}
}

// show lets the cache know of a change of a backup.
func (q *queued) show(key string, change func(*v1alpha1.DatabaseBackup)) event.UpdateEvent {
	q.t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	backup := &v1alpha1.DatabaseBackup{}
	if err := q.cache.Get(q.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, backup); err != nil {
		q.t.Fatal(err)
	}
	before := backup.DeepCopy()
	change(backup)
	if err := q.cache.Status().Update(q.t.Context(), backup); err != nil {
		q.t.Fatal(err)
	}
	return event.UpdateEvent{ObjectOld: before, ObjectNew: backup}
}

func began(backup *v1alpha1.DatabaseBackup) {
	now := metav1.NewTime(testutil.Start)
	backup.Status.StartTime = &now
}

func ended(backup *v1alpha1.DatabaseBackup) { flow.Complete(backup, testutil.Start, "done") }

func TestQueueWhileTheCacheLags(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 2, 0, numbered("a", "x", 6)...)
	q.expect("at first", "a/x-0000", "a/x-0001")
	q.expect("while the cache does not show that they run", "a/x-0000", "a/x-0001")
	q.show("a/x-0000", began)
	q.expect("when it shows one", "a/x-0001")
	q.show("a/x-0001", began)
	q.expect("when it shows both")
	q.show("a/x-0000", ended)
	q.expect("when one ended", "a/x-0002")
	if err := q.cache.Delete(t.Context(), testutil.Backup("x-0002").In("a").Build()); err != nil {
		t.Fatal(err)
	}
	q.expect("when one went before it began", "a/x-0003")
}

func TestQueueIsFairToNamespaces(t *testing.T) {
	t.Parallel()
	objects := append(numbered("a", "old", 5), numbered("b", "young", 1)...)
	newQueue(t, 2, 0, objects...).expect("one of each", "a/old-0000", "b/young-0000")
	newQueue(t, 0, 1, objects...).expect("one of each, by the limit of a namespace", "a/old-0000", "b/young-0000")
	newQueue(t, 0, 2, objects...).expect("two of one", "a/old-0000", "a/old-0001", "b/young-0000")
	newQueue(t, 3, 1, objects...).expect("both limits", "a/old-0000", "b/young-0000")
	if got := len(newQueue(t, 0, 0, objects...).ask()); got != 6 {
		t.Errorf("without limits %d of 6 may start", got)
	}
}

func TestQueueSaysItsLimits(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]*controllers.Queue{
		"waits for a place: at most 10 backups run at once in this cluster (--max-running-backups)":     {Total: 10},
		"waits for a place: at most 2 run at once in a namespace (--max-running-backups-per-namespace)": {PerNamespace: 2},
		"waits for a place: at most 10 backups run at once in this cluster (--max-running-backups), " +
			"and at most 2 run at once in a namespace (--max-running-backups-per-namespace)": {Total: 10, PerNamespace: 2},
	} {
		if got := q.Message(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestQueueWakesThoseWhoseTurnHasCome(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 2, 0, numbered("a", "x", 6)...)
	work := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer work.ShutDown()
	if err := q.queue.Start(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	woken := func(want ...string) {
		t.Helper()
		var got []string
		for work.Len() > 0 {
			item, _ := work.Get()
			work.Done(item)
			got = append(got, item.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("woken are %v, want %v", got, want)
		}
	}
	last := q.backups()[5]
	if may, err := q.queue.MayStart(t.Context(), &last); may || err != nil {
		t.Fatalf("the last may start: %t, %v", may, err)
	}
	woken("x-0000", "x-0001")
	leaving := q.queue.Leaving()
	leaving.Update(t.Context(), q.show("a/x-0000", began), work)
	leaving.Update(t.Context(), q.show("a/x-0001", began), work)
	woken()
	leaving.Update(t.Context(), q.show("a/x-0001", ended), work)
	woken("x-0002")
	gone := testutil.Backup("x-0002").In("a").Build()
	if err := q.cache.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	leaving.Delete(t.Context(), event.DeleteEvent{Object: gone}, work)
	woken("x-0003")
}

func TestQueueCostsLittleWhileAllPlacesAreTaken(t *testing.T) {
	t.Parallel()
	objects := numbered("a", "x", 300)
	for i := range 2 {
		began(objects[i].(*v1alpha1.DatabaseBackup))
	}
	for i := 2; i < 100; i++ {
		ended(objects[i].(*v1alpha1.DatabaseBackup))
	}
	q := newQueue(t, 2, 0, objects...)
	q.expect("while all places are taken")
	if want := map[string]int{"all": 300, index.Running: 2 * 200}; !maps.Equal(q.read, want) {
		t.Errorf("200 looks read %v, want %v: neither those that wait nor those that ended", q.read, want)
	}
}

package controllers_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

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

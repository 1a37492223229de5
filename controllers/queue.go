package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// queuePoll is how often a backup that waits is looked at, beside the looks that a free place causes.
const queuePoll = 30 * time.Second

// Queue gives places to backups, of which only so many run at once. What waits and what runs it reads from the cache each
// time, so that a restart loses nothing.
type Queue struct {
	// Client reads from the cache.
	Client client.Reader
	// Total is how many backups run at once in the cluster, PerNamespace in each namespace. 0: there is no such limit.
	Total, PerNamespace int

	mutex sync.Mutex
	// places are those of backups of which the cache does not show yet that they run.
	places map[types.UID]client.ObjectKey
	// wake has a backup looked at. It is nil while no controller runs.
	wake func(reconcile.Request)
}

// Message is what a backup that waits says. It stays the same while the backup waits.
func (q *Queue) Message() string {
	var limits []string
	if q.Total > 0 {
		limits = append(limits, fmt.Sprintf("at most %d backups run at once in this cluster (--max-running-backups)", q.Total))
	}
	if q.PerNamespace > 0 {
		limits = append(limits, fmt.Sprintf("at most %d run at once in a namespace (--max-running-backups-per-namespace)", q.PerNamespace))
	}
	return "waits for a place: " + strings.Join(limits, ", and ")
}

// MayStart says whether a backup has a place, and gives it one where it is its turn. The backup may be the cache's own.
func (q *Queue) MayStart(ctx context.Context, backup *v1alpha1.DatabaseBackup) (bool, error) {
	if q.Total <= 0 && q.PerNamespace <= 0 {
		return true, nil
	}
	switch index.PhaseOf(backup) {
	case index.Waiting:
	case index.Held:
		return false, nil // it is to be one of those that wait first
	default:
		return true, nil
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.hasPlace(backup) {
		return true, nil
	}
	running, err := q.running(ctx)
	if err != nil || !q.hasRoom(running, backup.Namespace) {
		return false, err
	}
	err = q.give(ctx, running, backup.UID)
	return q.hasPlace(backup), err
}

func (q *Queue) hasPlace(backup *v1alpha1.DatabaseBackup) bool {
	_, has := q.places[backup.UID]
	return has
}

// hasRoom is the cheap answer for a thousand backups that wait while all places are taken.
func (q *Queue) hasRoom(running map[string]int, namespace string) bool {
	all := 0
	for _, count := range running {
		all += count
	}
	return (q.Total <= 0 || all < q.Total) && (q.PerNamespace <= 0 || running[namespace] < q.PerNamespace)
}

// give gives all places that are free, and wakes who gets one, apart from the backup that is being looked at.
func (q *Queue) give(ctx context.Context, running map[string]int, looking types.UID) error {
	list := &v1alpha1.DatabaseBackupList{}
	if err := q.list(ctx, index.Waiting, list); err != nil {
		return err
	}
	waiting := make([]schedule.Waiting, 0, len(list.Items))
	for i := range list.Items {
		backup := &list.Items[i]
		standing, err := q.standingOf(ctx, backup)
		if err != nil {
			return err
		}
		if standing == ordinary && !q.hasPlace(backup) {
			waiting = append(waiting, schedule.Waiting{
				Namespace: backup.Namespace, Name: backup.Name, UID: string(backup.UID), Created: backup.CreationTimestamp.Time,
			})
		}
	}
	if q.places == nil {
		q.places = map[types.UID]client.ObjectKey{}
	}
	for _, next := range schedule.Admit(running, waiting, q.Total, q.PerNamespace) {
		key := client.ObjectKey{Namespace: next.Namespace, Name: next.Name}
		q.places[types.UID(next.UID)] = key
		if q.wake != nil && types.UID(next.UID) != looking {
			q.wake(reconcile.Request{NamespacedName: key})
		}
	}
	return nil
}

// running counts the backups that run, in each namespace: those of which the cache shows it, and those with a place.
func (q *Queue) running(ctx context.Context) (map[string]int, error) {
	// The places come first. The other way round, a backup that the cache shows as running only in between would be
	// counted as neither.
	if err := q.dropPlaces(ctx); err != nil {
		return nil, err
	}
	list := &v1alpha1.DatabaseBackupList{}
	if err := q.list(ctx, index.Running, list); err != nil {
		return nil, err
	}
	count, shown := map[string]int{}, map[types.UID]bool{}
	for i := range list.Items {
		count[list.Items[i].Namespace]++
		shown[list.Items[i].UID] = true
	}
	for uid, key := range q.places {
		if !shown[uid] {
			count[key.Namespace]++
		}
	}
	return count, nil
}

// dropPlaces forgets the places of backups that the cache shows to run, or to need none any more.
func (q *Queue) dropPlaces(ctx context.Context) error {
	for uid, key := range q.places {
		backup := &v1alpha1.DatabaseBackup{}
		err := q.Client.Get(ctx, key, backup, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading DatabaseBackup %s: %w", key, err)
		}
		if err != nil || backup.UID != uid || index.PhaseOf(backup) != index.Waiting {
			delete(q.places, uid)
		}
	}
	return nil
}

// Release takes back the place of a backup that does not begin after all, for others.
func (q *Queue) Release(ctx context.Context, backup *v1alpha1.DatabaseBackup) {
	q.mutex.Lock()
	_, had := q.places[backup.UID]
	delete(q.places, backup.UID)
	q.mutex.Unlock()
	if had {
		q.handOn(ctx)
	}
}

// list reads backups that are the cache's own: they are not to be changed.
func (q *Queue) list(ctx context.Context, phase string, list *v1alpha1.DatabaseBackupList) error {
	err := q.Client.List(ctx, list, client.MatchingFields{index.Phase: phase}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the DatabaseBackups that are %s: %w", phase, err)
	}
	return nil
}

// Start lets the queue wake backups through a controller's own queue of work. It is a source of that controller.
func (q *Queue) Start(_ context.Context, work workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.wake = func(request reconcile.Request) { work.Add(request) }
	return nil
}

// Leaving hands on the place of each backup that ended, is deleted or is gone.
func (q *Queue) Leaving() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !outside(e.ObjectOld) && outside(e.ObjectNew) {
				q.handOn(ctx)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !outside(e.Object) {
				q.handOn(ctx)
			}
		},
	}
}

// outside says that a backup has no place and does not wait for one.
func outside(object client.Object) bool {
	backup, ok := object.(*v1alpha1.DatabaseBackup)
	return !ok || index.PhaseOf(backup) == ""
}

func (q *Queue) handOn(ctx context.Context) {
	if q.Total <= 0 && q.PerNamespace <= 0 {
		return
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	running, err := q.running(ctx)
	if err == nil && q.hasRoom(running, "") {
		err = q.give(ctx, running, "")
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "giving free places to the backups that wait; they look for themselves within "+queuePoll.String())
	}
}

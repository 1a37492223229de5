package controllers_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// history is what a watch tells of the backups of a namespace: every change, in order.
type history struct {
	watch watch.Interface
	// phases are where each backup stands, most is how many ran at once, queued how often one was said to wait.
	phases       map[string]string
	most, queued int
}

func (s *server) follow() *history {
	s.t.Helper()
	c, err := client.NewWithWatch(s.config, client.Options{Scheme: testutil.Scheme(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := c.Watch(s.t.Context(), &v1alpha1.DatabaseBackupList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	return &history{watch: w, phases: map[string]string{}}
}

// read takes in what happened since the last time.
func (h *history) read(t *testing.T) {
	t.Helper()
	for {
		select {
		case change, open := <-h.watch.ResultChan():
			backup, ok := change.Object.(*v1alpha1.DatabaseBackup)
			if !open || !ok {
				t.Fatalf("the watch ended with %+v", change.Object)
			}
			h.take(change.Type, backup)
		default:
			return
		}
	}
}

func (h *history) take(change watch.EventType, backup *v1alpha1.DatabaseBackup) {
	h.phases[backup.Name] = index.PhaseOf(backup)
	if change == watch.Deleted {
		h.phases[backup.Name] = ""
	}
	// Its finalizer is written when it has a place.
	if change == watch.Modified && readyReason(backup) == v1alpha1.ReasonQueued && len(backup.Finalizers) == 0 {
		h.queued++
	}
	running := 0
	for _, phase := range h.phases {
		if phase == index.Running {
			running++
		}
	}
	h.most = max(h.most, running)
}

func TestServerQueue(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.maxRunning = 2
	h := s.follow()
	objects := numbered(s.namespace, "orders", 16)
	for _, object := range objects {
		object.SetCreationTimestamp(metav1.Time{})
	}
	s.create(objects...)
	s.cluster.Answer = func(contract.Task) *contract.Result { return nil }
	first := s.start()
	remaining := objects[:15]
	ready := func() int {
		h.read(t)
		return len(remaining) - len(slices.DeleteFunc(slices.Clone(remaining), func(o client.Object) bool {
			s.get(o)
			checkKstatus(t, o)
			return flow.IsTrue(o.(flow.Subject), v1alpha1.ConditionReady)
		}))
	}
	s.await("all others wait", func() bool { return ready() == 0 && h.queued >= 14 })
	waiting := objects[15]
	if s.get(waiting); readyReason(waiting) != v1alpha1.ReasonQueued {
		t.Errorf("the last is %s", readyReason(waiting))
	}
	if err := s.client.Delete(t.Context(), waiting); err != nil || !s.isGone(waiting) {
		t.Errorf("a backup that waits does not go at once: %v", err)
	}
	s.cluster.Answer = nil
	s.await("some are Ready", func() bool { return ready() >= 4 })
	first.stop()
	s.start()
	s.await("all are Ready", func() bool { return ready() == len(remaining) })
	if h.most != 2 {
		t.Errorf("%d ran at once, want 2", h.most)
	}
	if h.queued != 14 {
		t.Errorf("it was said %d times that a backup waits, want once for each of 14", h.queued)
	}
}

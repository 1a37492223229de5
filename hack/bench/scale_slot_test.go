//go:build bench

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// slot is how the backups of many schedules came that were due in one minute.
type slot struct {
	first, last time.Duration // from the slot until the first and until the last of them was there
	requests    float64       // that the operator sent until then
	all         float64       // and until it had said of each that it waits for a place
}

const (
	// slotLimit is more than the backups may take.
	slotLimit = 5 * time.Minute
	// afterSlot is more than it may take until each backup that waits says so.
	afterSlot = 30 * time.Second
)

// measureSlot makes schedules that are due in two to three minutes, and follows the backups that the operator makes.
func (w *cluster) measureSlot(t *testing.T, o *operator) slot {
	t.Helper()
	at := time.Now().Truncate(time.Minute).Add(3 * time.Minute)
	looks := int(o.scrape(t).sum("controller_runtime_reconcile_total", `controller="backupschedule"`))
	w.inParallel(w.due, func(ctx context.Context, i int) error { return w.client.Create(ctx, dueSchedule("due", i, at)) })
	ctx, cancel := context.WithDeadline(t.Context(), at)
	before := o.await(ctx, t, func(p page) bool { return p.rests("backupschedule", looks+w.due) })
	cancel()
	first, last := w.followSlot(t, at)
	after := o.scrape(t)
	found := slot{first: first.Sub(at), last: last.Sub(at)}
	sent := func(p page) float64 {
		return p.sum("rest_client_requests_total") - before.sum("rest_client_requests_total")
	}
	found.requests = sent(after)
	sayf("operator: of %d backups due in one slot the first was there after %.2f s, the last after %.2f s; until then it sent %.0f requests",
		w.due, found.first.Seconds(), found.last.Seconds(), found.requests)
	timer := time.NewTimer(afterSlot)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.ended:
		t.Fatal("the operator ended at the slot")
	}
	found.all = sent(o.scrape(t))
	return found
}

// followSlot waits for the backups of a slot, one of each schedule, and returns when the first and the last came.
func (w *cluster) followSlot(t *testing.T, at time.Time) (first, last time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), at.Add(slotLimit))
	defer cancel()
	watch, err := w.client.Watch(ctx, &v1alpha1.DatabaseBackupList{}, client.MatchingLabels{labelDue: "due"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	missing := map[string]bool{}
	for i := range w.due {
		missing[schedule.ChildName(dueName("due", i), at)] = true
	}
	for event := range watch.ResultChan() {
		backup, is := event.Object.(*v1alpha1.DatabaseBackup)
		if !is || !missing[backup.Name] {
			continue // a change of one that is there, or something that is not asked for
		}
		last = time.Now()
		if len(missing) == w.due {
			first = last
		}
		if delete(missing, backup.Name); len(missing) == 0 {
			return first, last
		}
	}
	t.Fatalf("%d of %d backups that were due at %s did not come within %s", len(missing), w.due, at, slotLimit)
	return first, last
}

// reference is what a plain client takes for the least that the operator has to write at such a slot, with its account and
// its rights: each backup, and then the status of its schedule. What it made is gone afterwards.
func (w *cluster) reference(name string) time.Duration {
	w.Helper()
	c := newClient(w, unlimited(&rest.Config{Host: serverOf(w.config), BearerToken: w.token(w), TLSClientConfig: rest.TLSClientConfig{CAData: w.config.CAData}}))
	at := time.Now().Truncate(time.Minute)
	schedules := make([]*v1alpha1.BackupSchedule, w.due)
	w.inParallel(w.due, func(ctx context.Context, i int) error {
		schedules[i] = dueSchedule(name, i, at)
		return w.client.Create(ctx, schedules[i])
	})
	took := w.inParallel(w.due, func(ctx context.Context, i int) error { return runOnce(ctx, c, schedules[i], at) })
	sayf("plain client: %d backups and as many statuses were written in %.2f s", w.due, took.Seconds())
	w.inParallel(namespaces, func(ctx context.Context, i int) error {
		of := []client.DeleteAllOfOption{client.InNamespace(namespaceOf(i)), client.MatchingLabels{labelDue: name}}
		if err := w.client.DeleteAllOf(ctx, &v1alpha1.DatabaseBackup{}, of...); err != nil {
			return err
		}
		return w.client.DeleteAllOf(ctx, &v1alpha1.BackupSchedule{}, of...)
	})
	return took
}

// runOnce writes what a run of a schedule needs.
func runOnce(ctx context.Context, c client.Client, s *v1alpha1.BackupSchedule, at time.Time) error {
	backup := backupOf(s, at)
	if err := c.Create(ctx, backup); err != nil {
		return fmt.Errorf("creating DatabaseBackup %s: %w", backup.Name, err)
	}
	before := s.DeepCopy()
	startedStatus(s, backup, at)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, s, patch); err != nil {
		return fmt.Errorf("writing the status of BackupSchedule %s: %w", s.Name, err)
	}
	return nil
}

//go:build bench

package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/testutil/kubetest"
)

const (
	restarts  = 3
	idleTime  = 2 * time.Minute
	startTime = 10 * time.Minute // more than any start may take
)

// TestScale measures an operator with thousands of schedules and backups and writes the report. It fails only when
// something does not work, never for a time.
func TestScale(t *testing.T) {
	w := newCluster(t, kubetest.Start(t), number(t, "BENCH_SCALE", 10_000, 100))
	r := &scaleReport{load: loadAverage(), objects: w.objects, due: w.due}
	r.writesPerSecond = w.populate()
	r.references = append(r.references, w.reference("before"))
	r.first = w.measureStart(t)
	w.expectObserved(t)
	for range restarts - 1 {
		r.restarts = append(r.restarts, w.measureStart(t))
	}
	w.measureRunning(t, r)
	r.references = append(r.references, w.reference("after"))
	if err := os.WriteFile(os.Getenv("BENCH_REPORT"), []byte(r.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start is how long an operator took until it had looked at all objects, and its memory then.
type start struct {
	took time.Duration
	cpu  time.Duration
	idle
	requests float64
}

// measureStart starts an operator, waits until it has looked at everything, and stops it.
func (w *cluster) measureStart(t *testing.T) start {
	t.Helper()
	o := w.startOperator(t)
	defer o.stop()
	return w.awaitStart(t, o)
}

// awaitStart goes by what the operator says of itself: each object was looked at, and nothing waits or is being looked at.
func (w *cluster) awaitStart(t *testing.T, o *operator) start {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	page := o.await(ctx, t, func(p page) bool {
		return p.rests("databasebackup", w.objects) && p.rests("backupschedule", w.objects)
	})
	found := start{took: page.at.Sub(o.began), cpu: page.cpu, idle: o.memory(), requests: page.sum("rest_client_requests_total")}
	if failed := page.sum("controller_runtime_reconcile_errors_total"); failed > 0 {
		t.Errorf("%.0f reconciliations failed, and none should; the operator's log says why", failed)
	}
	sayf("operator: %d schedules and %d backups looked at in %.1f s, with %.1f s of CPU and %.0f requests; peak %s, now %s", w.objects, w.objects,
		found.took.Seconds(), found.cpu.Seconds(), found.requests, mebibytes(found.peak), mebibytes(found.resident))
	return found
}

// measureRunning lets one operator start, idle, and meet a slot at which many backups are due.
func (w *cluster) measureRunning(t *testing.T, r *scaleReport) {
	t.Helper()
	o := w.startOperator(t)
	defer o.stop()
	r.restarts = append(r.restarts, w.awaitStart(t, o))
	r.requests = o.measureIdle(t)
	r.rested = o.memory()
	r.slot = w.measureSlot(t, o)
	r.busy = o.memory()
}

// measureIdle counts the requests of a minute, by method, while nothing is due.
func (o *operator) measureIdle(t *testing.T) map[string]float64 {
	t.Helper()
	before := o.scrape(t)
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.ended:
		t.Fatal("the operator ended while it had nothing to do")
	}
	after := o.scrape(t)
	minutes := after.at.Sub(before.at).Minutes()
	found := map[string]float64{}
	for _, method := range []string{"", "GET", "PUT", "POST", "PATCH", "DELETE"} {
		count := func(p page) float64 { return p.sum("rest_client_requests_total", `method="`+method) }
		found[method] = (count(after) - count(before)) / minutes
	}
	sayf("operator: %.1f requests a minute while nothing is due: %v", found[""], found)
	return found
}

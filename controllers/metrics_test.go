package controllers_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// figures are the metrics of a world's schedules, by name; each is of the schedule "orders" alone.
func (n nightly) figures() map[string]float64 {
	n.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(controllers.ScheduleMetrics{Reader: n.server})
	families, err := registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			if len(labels) != 2 || labels[0].GetValue() != testutil.Namespace || labels[1].GetValue() != "orders" {
				n.t.Errorf("%s has the labels %v", family.GetName(), labels)
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			found[strings.TrimPrefix(family.GetName(), "holdfast_schedule_")] = value
		}
	}
	return found
}

func (n nightly) expectFigures(want map[string]float64) {
	n.t.Helper()
	got := n.figures()
	for name, value := range want {
		if got[name] != value {
			n.t.Errorf("%s is %v, want %v (of %v)", name, got[name], value, got)
		}
	}
}

func TestMetricsFollowFromTheSchedules(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	n.see()
	if _, known := n.figures()["last_success_timestamp_seconds"]; known {
		t.Error("a schedule without a backup has a last success")
	}
	first := n.runNext()
	n.expectFigures(map[string]float64{"active_backups": 1, "failed_runs_total": 0, "suspended": 0, "ready": 1})
	n.end(first, v1alpha1.ConditionReady)
	n.see()
	success := float64(n.clock.Now().Unix())
	n.end(n.runNext(), v1alpha1.ConditionStalled)
	n.see()
	n.goTo(n.slot(3))
	n.see()
	n.expectFigures(map[string]float64{
		"last_success_timestamp_seconds": success, "last_success_size_bytes": 4096, "last_duration_seconds": 1,
		"next_run_timestamp_seconds": float64(n.slot(1).Unix()), "active_backups": 1, "failed_runs_total": 1, "missed_runs_total": 2,
	})
	n.remove(n.get())
	if left := n.figures(); len(left) > 0 {
		t.Errorf("of a schedule that is gone there are still %v", left)
	}
}

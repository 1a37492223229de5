package controllers_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// figures are the metrics of a world's schedules, by name; each is of the schedule "orders" alone.
func (n nightly) figures() map[string]float64 {
	n.t.Helper()
	var text strings.Builder
	if err := (controllers.ScheduleMetrics{Reader: n.server}).Write(n.t.Context(), &text); err != nil {
		n.t.Fatal(err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(strings.TrimPrefix(series, "holdfast_schedule_"), "{")
		if want := `namespace="` + testutil.Namespace + `",schedule="orders"}`; labels != want {
			n.t.Errorf("%s has the labels %s, want %s", name, labels, want)
		}
		value, err := strconv.ParseFloat(number, 64)
		if _, twice := found[name]; err != nil || twice {
			n.t.Errorf("%q is no sample, or there are two (%v)", line, err)
		}
		found[name] = value
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

// others is a handler of other metrics, as the operator's own.
func others() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "Another metric."}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// asPrometheus asks for metrics with the headers of a Prometheus that prefers another format, and returns the answer and its
// unpacked body.
func (n nightly) asPrometheus(first http.Handler) (*httptest.ResponseRecorder, string) {
	n.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	request.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	controllers.ScheduleMetrics{Reader: n.server}.Behind(first).ServeHTTP(answer, request)
	if got := answer.Header().Get("Content-Encoding"); got != "gzip" {
		n.t.Errorf("the answer is packed as %q", got)
	}
	body, err := gzip.NewReader(answer.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer, string(text)
}

func TestMetricsComeBehindTheOthersInOneFormat(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build(), testutil.Schedule("users", hourly).Build())
	n.see()
	answer, text := n.asPrometheus(others())
	if kind := answer.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("it is %s", kind)
	}
	for _, line := range []string{
		"other 0\n# HELP holdfast_", fmt.Sprintf("holdfast_schedule_ready{namespace=%q,schedule=\"orders\"} 1\n", testutil.Namespace),
		fmt.Sprintf("holdfast_schedule_ready{namespace=%q,schedule=\"users\"} 0\n", testutil.Namespace),
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no %q in\n%s", line, text)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("the format is wrong, or the names are: %v, %v", err, problems)
	}
}

func TestMetricsAreNotPutBehindAnError(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	answer, text := n.asPrometheus(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }))
	if answer.Code != http.StatusInternalServerError || text != "broken\n" {
		t.Errorf("the answer is %d %q", answer.Code, text)
	}
}

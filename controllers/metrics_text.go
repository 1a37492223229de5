package controllers

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
)

// figures are the metrics of one schedule, in the order of scheduleMetrics; NaN is none.
type figures struct {
	namespace, name string
	values          []float64
}

// read computes the figures of all schedules. They are taken out of the list at once: whoever reads them may be slow.
func (m ScheduleMetrics) read(ctx context.Context) ([]figures, error) {
	var all []figures
	for part := range index.Parts {
		list := &v1alpha1.BackupScheduleList{}
		err := m.Reader.List(ctx, list, client.MatchingFields{index.Part: strconv.Itoa(part)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing BackupSchedules for metrics: %w", err)
		}
		for i := range list.Items {
			all = append(all, figuresOf(&list.Items[i]))
		}
	}
	return all, nil
}

func figuresOf(schedule *v1alpha1.BackupSchedule) figures {
	values := make([]float64, len(scheduleMetrics))
	for i, metric := range scheduleMetrics {
		value, known := metric.value(schedule)
		if !known {
			value = math.NaN()
		}
		values[i] = value
	}
	return figures{schedule.Namespace, schedule.Name, values}
}

// Write writes the metrics in Prometheus' text format, one after another, each of all schedules. Where the schedules cannot
// be listed there are none: no figure is better than an old one.
func (m ScheduleMetrics) Write(ctx context.Context, w io.Writer) error {
	all, err := m.read(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 32<<10)
	for i, metric := range scheduleMetrics {
		_, _ = fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric.name, metric.help, metric.name, metric.kind)
		for _, one := range all {
			if !math.IsNaN(one.values[i]) {
				writeSample(out, metric.name, one, one.values[i])
			}
		}
	}
	return out.Flush() // which tells of all errors before
}

// writeSample writes one line. The names of objects hold nothing that would have to be escaped.
func writeSample(out *bufio.Writer, metric string, of figures, value float64) {
	for _, part := range []string{metric, `{namespace="`, of.namespace, `",schedule="`, of.name, `"} `} {
		_, _ = out.WriteString(part)
	}
	_, _ = out.Write(strconv.AppendFloat(out.AvailableBuffer(), value, 'g', -1, 64))
	_ = out.WriteByte('\n')
}

// Behind answers what a handler of metrics answers, with those of the schedules behind it. All of it is in the text format,
// which every Prometheus reads, and packed where that is understood.
func (m ScheduleMetrics) Behind(first http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &metricsAnswer{ResponseWriter: w, body: w}
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails for an unknown level alone
			defer func() { _ = packed.Close() }()
			answer.body = packed
			w.Header().Set("Content-Encoding", "gzip")
		}
		plain := r.Clone(r.Context())
		plain.Header.Del("Accept")
		plain.Header.Set("Accept-Encoding", "identity")
		first.ServeHTTP(answer, plain)
		if answer.failed {
			return
		}
		if err := m.Write(r.Context(), answer); err != nil {
			log.FromContext(r.Context()).Error(err, "writing the metrics of schedules")
		}
	})
}

// metricsAnswer lets what is written go through body, and knows whether it is an error.
type metricsAnswer struct {
	http.ResponseWriter
	body   io.Writer
	failed bool
}

func (a *metricsAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *metricsAnswer) WriteHeader(status int) {
	a.failed = status != http.StatusOK
	a.ResponseWriter.WriteHeader(status)
}

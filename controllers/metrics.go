package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// ScheduleMetrics computes metrics of BackupSchedules whenever they are asked for, from the status of the objects that are
// there: a schedule that is gone has none, and a restart of the operator changes none. Labels are namespace and schedule,
// so that their number is bounded by that of the schedules.
//
// They are written as text right away. As a collector's series, those of 10,000 schedules would fill as much memory as all
// else that the operator holds, at every reading.
type ScheduleMetrics struct {
	// Reader lists the schedules: the manager's cache.
	Reader client.Reader
}

// scheduleMetric is one metric: it has a value for a schedule, or none.
type scheduleMetric struct {
	name, help, kind string
	value            func(*v1alpha1.BackupSchedule) (float64, bool)
}

var scheduleMetrics = []scheduleMetric{
	gauge("last_success_timestamp_seconds", "When the newest Ready backup was completed, in seconds since 1970.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return seconds(s.Status.LastSuccessfulTime) }),
	gauge("last_success_size_bytes", "Size of the artifact of the newest Ready backup.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) {
			return float64(s.Status.LastSuccessfulSizeBytes), s.Status.LastSuccessfulSizeBytes > 0
		}),
	gauge("last_duration_seconds", "How long the newest Ready backup took.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) {
			return float64(s.Status.LastDurationSeconds), s.Status.LastSuccessfulTime != nil
		}),
	gauge("next_run_timestamp_seconds", "When the next run starts, in seconds since 1970; absent while suspended or not ready.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return seconds(s.Status.NextScheduleTime) }),
	gauge("active_backups", "Backups that have not ended.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return float64(len(s.Status.Active)), true }),
	gauge("deleting_backups", "Backups that no rule keeps any more and that are not gone yet.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) {
			return float64(len(s.Status.Retention.Deleting)) + float64(s.Status.Retention.Waiting), true
		}),
	counter("failed_runs_total", "Backups that failed since the schedule was made.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return float64(s.Status.FailedRuns), true }),
	counter("missed_runs_total", "Runs that were not started since the schedule was made.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return float64(s.Status.MissedRuns), true }),
	gauge("created_timestamp_seconds", "When the schedule was made, in seconds since 1970.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) { return seconds(&s.CreationTimestamp) }),
	gauge("ready", "1 while the calendar is followed, 0 while something keeps the schedule from it (condition Ready).",
		func(s *v1alpha1.BackupSchedule) (float64, bool) {
			return truth(flow.IsTrue(s, v1alpha1.ConditionReady)), true
		}),
	gauge("suspended", "1 while spec.suspend is true, else 0.",
		func(s *v1alpha1.BackupSchedule) (float64, bool) {
			return truth(ptr.Deref(s.Spec.Suspend, false)), true
		}),
}

func gauge(name, help string, value func(*v1alpha1.BackupSchedule) (float64, bool)) scheduleMetric {
	return scheduleMetric{"holdfast_schedule_" + name, help, "gauge", value}
}

func counter(name, help string, value func(*v1alpha1.BackupSchedule) (float64, bool)) scheduleMetric {
	return scheduleMetric{"holdfast_schedule_" + name, help, "counter", value}
}

func seconds(t *metav1.Time) (float64, bool) {
	if t == nil {
		return 0, false
	}
	return float64(t.Unix()), true
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

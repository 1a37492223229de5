package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestScheduleSuspended(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).With(func(s *v1alpha1.BackupSchedule) { s.Spec.Suspend = ptr.To(true) }).Build())
	n.see()
	n.clock.Advance(3 * time.Hour)
	if wait := n.see().RequeueAfter; wait != 0 {
		t.Errorf("it looks again in %s, though nothing is to come", wait)
	}
	n.expectRuns()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	if n.get().Status.NextScheduleTime != nil {
		t.Errorf("the next run is said to start at %s", n.get().Status.NextScheduleTime)
	}
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Spec.Suspend = nil })
	n.see()
	n.expectRuns()
	n.expectRuns(n.runNext())
	if got := n.get().Status.MissedRuns; got != 0 {
		t.Errorf("%d runs count as missed", got)
	}
}

func TestScheduleThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*v1alpha1.BackupSchedule)
		reason string
		says   string
	}{
		"field out of range": {func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = "61 * * * *" }, v1alpha1.ReasonInvalidSchedule, "spec.schedule"},
		"TZ= prefix":         {func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = "TZ=UTC * * * * *" }, v1alpha1.ReasonInvalidSchedule, "timeZone"},
		"never":              {func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = "0 0 30 2 *" }, v1alpha1.ReasonInvalidSchedule, "spec.schedule"},
		"no such zone":       {func(s *v1alpha1.BackupSchedule) { s.Spec.TimeZone = "Europe/Atlantis" }, v1alpha1.ReasonInvalidTimeZone, "Europe/Atlantis"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNightly(t, testutil.Schedule("orders", hourly).With(test.spoil).Build())
			if wait := n.see().RequeueAfter; wait != 0 {
				t.Errorf("it looks again in %s, though only an edit can help", wait)
			}
			n.see()
			n.stands(metav1.ConditionFalse, test.reason, test.says)
			if got := n.eventReasons("orders"); !slices.Contains(got, test.reason) {
				t.Errorf("events are %v", got)
			}
			n.edit(func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule, s.Spec.TimeZone = hourly, "UTC" })
			n.see()
			n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
			n.expectRuns(n.runNext())
		})
	}
}

func TestScheduleShowsWhatTheAPIServerRefuses(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	n.deny = func(verb string, object client.Object) error {
		if _, backup := object.(*v1alpha1.DatabaseBackup); backup && verb == "create" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "databasebackups"}, object.GetName(), nil)
		}
		return nil
	}
	slot := n.slot(1)
	n.goTo(slot)
	if wait := n.see().RequeueAfter; wait <= 0 || wait > time.Minute {
		t.Errorf("it is tried again in %s", wait)
	}
	n.stands(metav1.ConditionFalse, v1alpha1.ReasonRefused, "forbidden")
	slot = n.slot(1)
	n.goTo(slot)
	n.see()
	n.deny = nil
	n.see()
	n.expectRuns(schedule.ChildName("orders", slot))
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	n.told("runs that were not started between")
	if notes := n.events.Events(); !strings.Contains(fmt.Sprint(notes), "The API server refused to create them") {
		t.Errorf("the events are %v", notes)
	}
}

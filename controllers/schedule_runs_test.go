package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestScheduleMakesABackupWhenItIsDue(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).With(func(s *v1alpha1.BackupSchedule) {
		s.Spec.Template.Metadata.Labels = map[string]string{"team": "shop", v1alpha1.LabelManagedBy: "somebody"}
		s.Spec.Template.Metadata.Annotations = map[string]string{"why": "nightly", v1alpha1.AnnotationForget: "yes"}
	}).Build())
	slot := n.slot(1)
	n.goTo(slot.Add(-time.Second))
	if wait := n.see().RequeueAfter; wait <= 0 || wait > time.Second {
		t.Errorf("a second before the run it looks again in %s", wait)
	}
	n.expectRuns()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled, slot.UTC().Format(time.RFC3339))

	n.goTo(slot)
	n.see()
	name := schedule.ChildName("orders", slot)
	n.expectRuns(name)
	backup := n.backup(name)
	if backup.Labels["team"] != "shop" || backup.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || backup.Annotations["why"] != "nightly" {
		t.Errorf("labels %v, annotations %v", backup.Labels, backup.Annotations)
	}
	if _, forget := backup.Annotations[v1alpha1.AnnotationForget]; forget || len(backup.OwnerReferences) > 0 {
		t.Errorf("annotations %v, owners %v", backup.Annotations, backup.OwnerReferences)
	}
	status := n.get().Status
	if !status.LastScheduleTime.Time.Equal(slot) || !status.NextScheduleTime.Time.Equal(slot.Add(time.Hour)) || status.Active[0].Name != name {
		t.Errorf("status is %+v", status)
	}
	n.see()
	n.expectRuns(name)
	if told := n.eventReasons("orders"); len(told) > 0 {
		t.Errorf("people were told of %v: status says it, and a thousand may be due at once", told)
	}
}

func TestScheduleShowsHowItsBackupsEnd(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	first := n.runNext()
	n.end(first, v1alpha1.ConditionReady)
	n.see()
	status := n.get().Status
	if status.LastSuccessfulURL != "s3://backups/prod/shop/"+first || status.LastSuccessfulSizeBytes != 4096 ||
		status.LastDurationSeconds != 1 || len(status.Active) != 0 {
		t.Errorf("status is %+v", status)
	}
	n.expect(n.get(), v1alpha1.ConditionLastBackupSucceeded, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, first)

	second := n.runNext()
	n.end(second, v1alpha1.ConditionStalled)
	n.see()
	n.see()
	n.expect(n.get(), v1alpha1.ConditionLastBackupSucceeded, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, second, "of the moon")
	if status := n.get().Status; status.FailedRuns != 1 || status.LastSuccessfulURL != "s3://backups/prod/shop/"+first {
		t.Errorf("status is %+v", status)
	}
	n.remove(n.backup(second))
	n.see()
	n.expect(n.get(), v1alpha1.ConditionLastBackupSucceeded, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed, second)
	n.remove(n.backup(first))
	n.see()
	if status := n.get().Status; status.LastSuccessfulTime != nil || status.LastSuccessfulURL != "" {
		t.Errorf("there is nothing to restore from, and status says %+v", status)
	}
}

func TestScheduleMakesUpForTheNewestMissedRun(t *testing.T) {
	for name, test := range map[string]struct {
		deadline, late, made, missed int64
	}{
		"without a deadline":  {late: 50 * 60, made: 1, missed: 4},
		"within the deadline": {deadline: 1800, late: 1800, made: 1, missed: 4},
		"after the deadline":  {deadline: 1800, late: 1801, made: 0, missed: 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := testutil.Schedule("orders", hourly)
			if test.deadline > 0 {
				s.Deadline(test.deadline)
			}
			n := newNightly(t, s.Build())
			n.see()
			slot := n.slot(5)
			n.goTo(slot.Add(time.Duration(test.late) * time.Second))
			n.see()
			n.see()
			if test.made == 1 {
				n.expectRuns(schedule.ChildName("orders", slot))
			} else {
				n.expectRuns()
			}
			if got := n.get().Status.MissedRuns; got != test.missed {
				t.Errorf("%d runs count as missed, want %d", got, test.missed)
			}
			if !slices.Contains(n.eventReasons("orders"), v1alpha1.ReasonMissedRuns) {
				t.Errorf("nobody is told: %v", n.eventReasons("orders"))
			}
			n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
		})
	}
}

func TestScheduleForbidWaitsAndMergesWhatBecomesDue(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	first := n.runNext()
	n.runNext()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForBackup, first)
	last := n.runNext()
	n.expectRuns(first)
	n.end(first, v1alpha1.ConditionReady)
	n.see()
	n.expectRuns(first, last)
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	if got := n.get().Status.MissedRuns; got != 1 {
		t.Errorf("%d runs count as missed, want 1", got)
	}
}

func TestScheduleAllowStartsBesideAnother(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Concurrency(v1alpha1.ConcurrencyAllow).Build())
	n.expectRuns(n.runNext(), n.runNext())
	if active := n.get().Status.Active; len(active) != 2 {
		t.Errorf("active are %v", active)
	}
}

func TestScheduleReplaceCancelsFirst(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Concurrency(v1alpha1.ConcurrencyReplace).Build())
	first := n.runNext()
	n.mustLook(n.backup(first)) // it has a finalizer now, and a Job
	second := n.runNext()
	n.expectRuns(first)
	if n.backup(first).DeletionTimestamp.IsZero() {
		t.Error("the first is not being cancelled")
	}
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForBackup, "cancelled")
	for range 4 {
		n.step()
		if len(n.backups()) > 0 {
			n.mustLook(n.backup(first))
		}
	}
	n.expectRuns()
	n.see()
	n.expectRuns(second)
}

func TestScheduleReplaceWaitsForARunByHand(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Concurrency(v1alpha1.ConcurrencyReplace).Build())
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Annotations = map[string]string{v1alpha1.AnnotationRunNow: "1"} })
	n.see()
	byHand := schedule.RunNowName("orders", "1")
	next := n.runNext()
	n.expectRuns(byHand)
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForBackup, "by hand")
	n.end(byHand, v1alpha1.ConditionReady)
	n.see()
	n.expectRuns(byHand, next)
}

func TestScheduleLeavesAForeignBackupAlone(t *testing.T) {
	s := testutil.Schedule("orders", hourly).Build()
	calendar, err := schedule.Parse(hourly, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	name := schedule.ChildName("orders", calendar.Next(testutil.Start))
	n := newNightly(t, s, testutil.Backup(name).Build())
	if got := n.runNext(); got != name {
		t.Fatalf("the run is %s, want %s", got, name)
	}
	n.stands(metav1.ConditionFalse, v1alpha1.ReasonNameConflict, name)
	n.see()
	n.stands(metav1.ConditionFalse, v1alpha1.ReasonNameConflict, name)
	if n.backup(name).Labels[v1alpha1.LabelSchedule] != "" || n.get().Status.MissedRuns != 1 {
		t.Errorf("labels %v, missed %d", n.backup(name).Labels, n.get().Status.MissedRuns)
	}
	n.expectRuns(name, n.runNext())
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func TestScheduleIsReadyAgainWhenANameIsFree(t *testing.T) {
	s := testutil.Schedule("orders", hourly).Build()
	calendar, err := schedule.Parse(hourly, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	n := newNightly(t, s, testutil.Backup(schedule.ChildName("orders", calendar.Next(testutil.Start))).Build())
	name := n.runNext()
	n.stands(metav1.ConditionFalse, v1alpha1.ReasonNameConflict, name)
	n.remove(n.backup(name))
	if wait := n.see().RequeueAfter; wait <= 0 {
		t.Error("nobody looks again")
	}
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

// TestScheduleAdoptsWhatAKilledManagerMade shows that a run which is at work already does not wait for itself, and is not
// cancelled for itself either.
func TestScheduleAdoptsWhatAKilledManagerMade(t *testing.T) {
	for _, policy := range []v1alpha1.ConcurrencyPolicy{v1alpha1.ConcurrencyForbid, v1alpha1.ConcurrencyAllow, v1alpha1.ConcurrencyReplace} {
		for _, heard := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the cache heard of it: %t", policy, heard), func(t *testing.T) { adopts(t, policy, heard) })
		}
	}
}

func adopts(t *testing.T, policy v1alpha1.ConcurrencyPolicy, heard bool) {
	t.Helper()
	n := newNightly(t, testutil.Schedule("orders", hourly).Concurrency(policy).Build())
	n.see()
	slot := n.slot(1)
	n.goTo(slot)
	n.killAt = len(n.writes) + 1
	if _, err := n.tryLook(); err == nil {
		t.Fatal("the manager was not killed")
	}
	n.dead, n.killAt = false, 0
	n.hidden = func(o client.Object) bool { return !heard && strings.HasPrefix(o.GetName(), "orders-") }
	n.see()
	n.expectRuns(schedule.ChildName("orders", slot))
	if n.created["v1alpha1.DatabaseBackup "+schedule.ChildName("orders", slot)] != 1 {
		t.Errorf("created were %v", n.created)
	}
	if status := n.get().Status; !status.LastScheduleTime.Time.Equal(slot) || status.MissedRuns != 0 || len(status.Active) != 1 {
		t.Errorf("status is %+v", status)
	}
}

func TestScheduleTakesAnEditAtOnce(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", "0 0 1 1 *").Build())
	n.see()
	n.clock.Advance(3 * time.Hour)
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = hourly })
	n.see()
	n.expectRuns() // what the new calendar has in those three hours is not made up for
	n.expectRuns(n.runNext())
	if got := n.get().Status.MissedRuns; got != 0 {
		t.Errorf("%d runs count as missed", got)
	}
}

func TestScheduleWhoseClockStepsBack(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	first := n.runNext()
	second := n.slot(1)
	n.end(first, v1alpha1.ConditionReady)
	n.clock.Advance(-2 * time.Hour)
	n.see()
	n.expectRuns(first)
	if got := n.eventReasons("orders"); !slices.Contains(got, v1alpha1.ReasonClockStepped) {
		t.Errorf("events are %v", got)
	}
	between := n.runNext()
	n.end(between, v1alpha1.ConditionReady)
	if again := n.runNext(); again != first {
		t.Fatalf("the run is %s, want %s again", again, first)
	}
	n.expectRuns(first, between)
	n.goTo(second)
	n.see()
	n.expectRuns(first, between, schedule.ChildName("orders", second))
}

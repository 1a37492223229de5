package controllers_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestScheduleRunByHand(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", "0 0 1 1 *").With(func(s *v1alpha1.BackupSchedule) { s.Spec.Suspend = ptr.To(true) }).Build())
	ask := func(id string) {
		n.edit(func(s *v1alpha1.BackupSchedule) { s.Annotations = map[string]string{v1alpha1.AnnotationRunNow: id} })
		n.see()
		n.see()
	}
	ask("before the migration")
	first, second := schedule.RunNowName("orders", "before the migration"), schedule.RunNowName("orders", "2")
	n.expectRuns(first)
	ask("2")
	n.expectRuns(first)
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForBackup, "by hand", first)
	n.end(first, v1alpha1.ConditionReady)
	n.see()
	n.expectRuns(first, second)
	n.end(second, v1alpha1.ConditionReady)
	n.see()
	n.expectRuns(first, second)
	if got := n.get().Status; got.LastRunNow != "2" || got.LastSuccessfulURL != "s3://backups/prod/shop/"+second {
		t.Errorf("status is %+v", got)
	}
}

// TestScheduleRunByHandWithAnyID shows that what people write into the annotation neither stops the calendar nor makes a
// backup that its schedule does not know.
func TestScheduleRunByHandWithAnyID(t *testing.T) {
	for name, id := range map[string]string{
		"long": strings.Repeat("x", 4096), "a rune where it would be cut": "a" + strings.Repeat("é", 200), "a newline": "1\n2", "a shell's words": "$(id) '1'",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNightly(t, testutil.Schedule("orders", hourly).Build())
			n.edit(func(s *v1alpha1.BackupSchedule) { s.Annotations = map[string]string{v1alpha1.AnnotationRunNow: id} })
			n.see()
			n.see()
			status := n.get().Status
			if len(n.runs()) != 1 || len(status.Active) != 1 || status.LastRunNow == "" || len(status.LastRunNow) > 256 {
				t.Fatalf("the backups are %v, status is %+v", n.runs(), status)
			}
			n.end(status.Active[0].Name, v1alpha1.ConditionReady)
			n.expectRuns(status.Active[0].Name, n.runNext())
		})
	}
}

func TestScheduleWhoseRunByHandHasAForeignName(t *testing.T) {
	name := schedule.RunNowName("orders", "1")
	n := newNightly(t, testutil.Schedule("orders", hourly).Build(), testutil.Backup(name).Build())
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Annotations = map[string]string{v1alpha1.AnnotationRunNow: "1"} })
	n.see()
	n.told("DatabaseBackup shop/" + name + " is there")
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	n.expectRuns(name, n.runNext())
}

func TestScheduleWaitsForARestoreIntoItsDatabase(t *testing.T) {
	into := inspected(testutil.Restore("again").Build())
	into.Spec.Database.Host = "orders-db"          // the same Service
	waiting := testutil.Restore("waiting").Build() // it has not shown that it may write there
	elsewhere := inspected(testutil.Restore("elsewhere").Build())
	elsewhere.Spec.Database.Host = "other-db"
	n := newNightly(t, testutil.Schedule("orders", hourly).Build(), into, waiting, elsewhere)
	n.runNext()
	n.expectRuns()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForRestore, "shop/again")
	n.remove(n.restore("again"))
	if result := n.see(); result.RequeueAfter <= 0 {
		t.Error("nobody looks again")
	}
	if len(n.runs()) != 1 {
		t.Errorf("the backups are %v, want one", n.runs())
	}
}

// inspected is a restore that has taken its safety backup.
func inspected(restore *v1alpha1.DatabaseRestore) *v1alpha1.DatabaseRestore {
	flow.MarkTrue(restore, v1alpha1.ConditionSafetyBackupTaken, v1alpha1.ReasonSucceeded, "")
	return restore
}

// TestScheduleIsNotHeldUpByAnObjectAlone shows that a restore of any namespace counts from its inspection on.
func TestScheduleIsNotHeldUpByAnObjectAlone(t *testing.T) {
	stranger := testutil.Restore("again").In("elsewhere").Build()
	stranger.Spec.Database.Host = "orders-db.shop.svc.cluster.local"
	n := newNightly(t, testutil.Schedule("orders", hourly).Build(), stranger)
	first := n.runNext()
	n.expectRuns(first)
	n.end(first, v1alpha1.ConditionReady)

	if err := n.server.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger); err != nil {
		t.Fatal(err)
	}
	if err := n.server.Status().Update(t.Context(), inspected(stranger)); err != nil {
		t.Fatal(err)
	}
	n.runNext()
	n.expectRuns(first)
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonWaitingForRestore, "elsewhere/again")
}

// TestScheduleTemplateSaysNothingOfHoldfast shows that what is copied along from a backup that is shown means nothing.
func TestScheduleTemplateSaysNothingOfHoldfast(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).With(func(s *v1alpha1.BackupSchedule) {
		s.Spec.Template.Metadata.Labels = map[string]string{v1alpha1.LabelOwnerUID: "x", v1alpha1.LabelSchedule: "x"}
		s.Spec.Template.Metadata.Annotations = map[string]string{
			v1alpha1.AnnotationSlot: "1999-01-01T00:00:00Z", v1alpha1.AnnotationRunNow: "z", v1alpha1.AnnotationForget: "", "kept": "yes",
		}
	}).Build())
	first := n.runNext()
	n.end(first, v1alpha1.ConditionReady)
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Annotations = map[string]string{v1alpha1.AnnotationRunNow: "1"} })
	n.see()
	byHand := n.backup(schedule.RunNowName("orders", "1"))
	if _, slot := byHand.Annotations[v1alpha1.AnnotationSlot]; slot || len(byHand.Labels) != 2 || byHand.Annotations["kept"] != "yes" {
		t.Errorf("labels %v, annotations %v", byHand.Labels, byHand.Annotations)
	}
	if status := n.get().Status; status.LastSuccessfulURL == "" || len(status.Active) != 1 {
		t.Errorf("the schedule does not know its own: %+v", status)
	}
}

// TestScheduleDoesNotMakeUpForATimeOutOfForce shows it where something else is told of than the suspension, and where the
// calendar comes back as it was.
func TestScheduleDoesNotMakeUpForATimeOutOfForce(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	first := n.runNext()
	for name, change := range map[string][2]func(*v1alpha1.BackupSchedule){
		"suspended while a run by hand waits": {
			func(s *v1alpha1.BackupSchedule) {
				s.Spec.Suspend, s.Annotations = ptr.To(true), map[string]string{v1alpha1.AnnotationRunNow: "1"}
			},
			func(s *v1alpha1.BackupSchedule) { s.Spec.Suspend, s.Annotations = nil, nil },
		},
		"invalid": {
			func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = "61 * * * *" },
			func(s *v1alpha1.BackupSchedule) { s.Spec.Schedule = hourly },
		},
	} {
		n.edit(change[0])
		n.see()
		n.clock.Advance(3 * time.Hour)
		n.see()
		n.edit(change[1])
		n.see()
		if n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled); n.get().Status.MissedRuns != 0 {
			t.Errorf("%s: %d runs count as missed", name, n.get().Status.MissedRuns)
		}
		n.expectRuns(first)
	}
}

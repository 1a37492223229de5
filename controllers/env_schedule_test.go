package controllers_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// calendarServer is a real API server with a schedule, for whose reconciler time goes as the test says. Backups live in the
// time of the API server, which dates what they make.
type calendarServer struct {
	*server
	object *v1alpha1.BackupSchedule

	mutex sync.Mutex
	ahead time.Duration
}

func newCalendarServer(t *testing.T, object *v1alpha1.BackupSchedule) *calendarServer {
	t.Helper()
	s := &calendarServer{server: newServer(t), object: object}
	object.Namespace = s.namespace
	s.create(object)
	return s
}

func (s *calendarServer) now() time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return time.Now().Add(s.ahead)
}

// start starts a manager whose schedules live in the test's time.
func (s *calendarServer) start() *manager {
	s.t.Helper()
	return s.startWith(func(mgr ctrl.Manager) {
		for _, each := range index.All() {
			if err := mgr.GetFieldIndexer().IndexField(context.Background(), each.Object, each.Field, each.Of); err != nil {
				s.t.Fatal(err)
			}
		}
		common := func(now func() time.Time) controllers.Common {
			c, err := controllers.NewCommon(mgr, s.options(now))
			if err != nil {
				s.t.Fatal(err)
			}
			return c
		}
		for _, setup := range []func(ctrl.Manager) error{
			(&controllers.ScheduleReconciler{Common: common(s.now)}).SetupWithManager,
			(&controllers.BackupReconciler{Common: common(time.Now)}).SetupWithManager,
		} {
			if err := setup(mgr); err != nil {
				s.t.Fatal(err)
			}
		}
	})
}

// slot is the calendar's n-th slot from now on.
func (s *calendarServer) slot(count int) time.Time {
	s.t.Helper()
	calendar, err := schedule.Parse(s.object.Spec.Schedule, s.object.Spec.TimeZone)
	if err != nil {
		s.t.Fatal(err)
	}
	at := s.now()
	for range count {
		at = calendar.Next(at)
	}
	return at
}

// goTo moves the time to a moment after a slot, and has the schedule looked at, as its own timer would.
func (s *calendarServer) goTo(slot time.Time) {
	s.t.Helper()
	s.mutex.Lock()
	s.ahead = time.Until(slot.Add(time.Millisecond))
	s.mutex.Unlock()
	s.edit(func(object *v1alpha1.BackupSchedule) {
		object.Annotations = map[string]string{"test.holdfast.dev/look": s.now().Format(time.RFC3339Nano)}
	})
}

func (s *calendarServer) edit(change func(*v1alpha1.BackupSchedule)) {
	s.t.Helper()
	s.get(s.object)
	before := s.object.DeepCopy()
	change(s.object)
	if err := s.client.Patch(s.t.Context(), s.object, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

// runs are the schedule's backups by name, and whether each is Ready.
func (s *calendarServer) runs() map[string]bool {
	s.t.Helper()
	var list v1alpha1.DatabaseBackupList
	if err := s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	found := map[string]bool{}
	for i := range list.Items {
		found[list.Items[i].Name] = flow.IsTrue(&list.Items[i], v1alpha1.ConditionReady)
	}
	return found
}

// awaitRuns waits until exactly these backups are there and Ready.
func (s *calendarServer) awaitRuns(names ...string) {
	s.t.Helper()
	s.await("the backups "+strings.Join(names, ", ")+" are Ready", func() bool {
		found := s.runs()
		for _, name := range names {
			if !found[name] {
				return false
			}
		}
		return len(found) == len(names)
	})
}

// run goes to the next slot and waits until its backup is Ready.
func (s *calendarServer) run() string {
	s.t.Helper()
	slot := s.slot(1)
	name := schedule.ChildName(s.object.Name, slot)
	s.goTo(slot)
	s.await(name+" is Ready", func() bool { return s.runs()[name] })
	return name
}

// awaitStatus waits until the status of the schedule is as wanted.
func (s *calendarServer) awaitStatus(what string, is func(v1alpha1.BackupScheduleStatus) bool) {
	s.t.Helper()
	s.await(what, func() bool {
		s.get(s.object)
		return is(s.object.Status)
	})
}

func (s *calendarServer) awaitReason(reason string) {
	s.t.Helper()
	s.awaitStatus("the schedule stands as "+reason, func(v1alpha1.BackupScheduleStatus) bool {
		return flow.ReasonOf(s.object, v1alpha1.ConditionReady) == reason
	})
}

func TestServerScheduleBacksUpAndPrunes(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", hourly).Retention(keepLast(2)).Build())
	var mutex sync.Mutex
	var deleted []string
	s.cluster.Answer = func(task contract.Task) *contract.Result {
		if task.Verb == contract.VerbDelete {
			mutex.Lock()
			deleted = append(deleted, task.Object.Name)
			mutex.Unlock()
		}
		result := testutil.Result(task)
		return &result
	}
	s.start()
	var names []string
	for range 4 {
		names = append(names, s.run())
	}
	s.awaitRuns(names[2:]...)
	slices.Sort(deleted)
	if !slices.Equal(slices.Compact(deleted), names[:2]) {
		t.Errorf("artifacts were deleted of %v, want of %v", deleted, names[:2])
	}
	s.awaitStatus("status tells of the newest", func(status v1alpha1.BackupScheduleStatus) bool {
		return strings.Contains(status.LastSuccessfulURL, "/"+names[3]+"/") && status.Retention.Kept == 2 &&
			len(status.Retention.Deleting) == 0 && len(status.Retention.Next) == 1 && status.Retention.Next[0].Name == names[2]
	})
}

func TestServerScheduleAfterDowntime(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", hourly).Deadline(1800).Build())
	m := s.start()
	first := s.run()
	m.stop()

	newest := s.slot(4)
	s.goTo(newest.Add(20 * time.Minute))
	m = s.start()
	second := schedule.ChildName("orders", newest)
	s.awaitRuns(first, second)
	s.awaitStatus("three runs are missed", func(status v1alpha1.BackupScheduleStatus) bool {
		return status.MissedRuns == 3 && status.LastScheduleTime.Time.Equal(newest)
	})
	m.stop()

	s.goTo(s.slot(2).Add(31 * time.Minute)) // after the deadline
	s.start()
	s.awaitStatus("five runs are missed", func(status v1alpha1.BackupScheduleStatus) bool { return status.MissedRuns == 5 })
	s.awaitRuns(first, second)
}

func TestServerScheduleWhileAnEarlierRunIsAtWork(t *testing.T) {
	for _, policy := range []v1alpha1.ConcurrencyPolicy{v1alpha1.ConcurrencyForbid, v1alpha1.ConcurrencyAllow, v1alpha1.ConcurrencyReplace} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newCalendarServer(t, testutil.Schedule("orders", hourly).Concurrency(policy).Build())
			s.cluster.Answer = hold(contract.VerbDump)
			s.start()
			slot := s.slot(1)
			first := schedule.ChildName("orders", slot)
			s.goTo(slot)
			s.await("the first is at work", func() bool { _, there := s.runs()[first]; return there })
			slot = s.slot(1)
			second := schedule.ChildName("orders", slot)
			s.goTo(slot)
			if policy == v1alpha1.ConcurrencyForbid {
				s.awaitReason(v1alpha1.ReasonWaitingForBackup)
			} else {
				s.await("the second is at work", func() bool { _, there := s.runs()[second]; return there })
			}
			s.cluster.Answer = nil
			if policy == v1alpha1.ConcurrencyReplace {
				s.awaitRuns(second)
			} else {
				s.awaitRuns(first, second)
			}
		})
	}
}

func TestServerScheduleAdoptsItsOwnAndNoOther(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", hourly).Build())
	foreign, own := schedule.ChildName("orders", s.slot(1)), schedule.ChildName("orders", s.slot(2))
	s.create(testutil.Backup(foreign).In(s.namespace).Build())
	// As a manager left it that was killed before it wrote status.
	s.create(testutil.Backup(own).In(s.namespace).With(func(b *v1alpha1.DatabaseBackup) {
		b.Labels = map[string]string{v1alpha1.LabelSchedule: string(s.object.UID)}
		b.Annotations = map[string]string{
			v1alpha1.AnnotationSchedule: "orders", v1alpha1.AnnotationSlot: s.slot(2).UTC().Format(time.RFC3339),
		}
	}).Build())
	s.start()
	s.goTo(s.slot(1))
	s.awaitReason(v1alpha1.ReasonNameConflict)
	slot := s.slot(1)
	s.goTo(slot)
	s.awaitStatus("the run is taken for made", func(status v1alpha1.BackupScheduleStatus) bool {
		return status.LastScheduleTime != nil && status.LastScheduleTime.Time.Equal(slot) && status.MissedRuns == 1
	})
	s.awaitRuns(foreign, own)
	s.awaitReason(v1alpha1.ReasonScheduled)
}

func TestServerScheduleEditedSuspendedAndRunByHand(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", "0 0 1 1 *").Build())
	s.start()
	s.awaitReason(v1alpha1.ReasonScheduled)
	s.edit(func(object *v1alpha1.BackupSchedule) {
		object.Spec.Schedule, object.Spec.TimeZone = hourly, "Asia/Kathmandu"
	})
	next := s.slot(1)
	s.awaitStatus("the new calendar holds", func(status v1alpha1.BackupScheduleStatus) bool { return status.NextScheduleTime.Time.Equal(next) })
	first := s.run()

	yes, no := true, false
	s.edit(func(object *v1alpha1.BackupSchedule) { object.Spec.Suspend = &yes })
	s.awaitReason(v1alpha1.ReasonSuspended)
	s.goTo(s.slot(3))
	s.edit(func(object *v1alpha1.BackupSchedule) {
		object.Annotations = map[string]string{v1alpha1.AnnotationRunNow: "1"}
	})
	byHand := schedule.RunNowName("orders", "1")
	s.awaitRuns(first, byHand)
	s.awaitStatus("the run by hand is noted", func(status v1alpha1.BackupScheduleStatus) bool { return status.LastRunNow == "1" })

	s.edit(func(object *v1alpha1.BackupSchedule) { object.Spec.Suspend = &no })
	s.awaitReason(v1alpha1.ReasonScheduled)
	s.awaitRuns(first, byHand)
	if missed := s.object.Status.MissedRuns; missed != 0 {
		t.Errorf("%d runs count as missed", missed)
	}
}

func TestServerScheduleWaitsForARestore(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", hourly).Build())
	restore := testutil.Restore("again").In(s.namespace).Build() // nobody leads it: it is at work until it is deleted
	s.create(restore)
	if err := s.client.Status().Update(t.Context(), inspected(restore)); err != nil {
		t.Fatal(err)
	}
	s.start()
	slot := s.slot(1)
	s.goTo(slot)
	s.awaitReason(v1alpha1.ReasonWaitingForRestore)
	if err := s.client.Delete(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	s.awaitRuns(schedule.ChildName("orders", slot))
}

func TestServerScheduleThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newCalendarServer(t, testutil.Schedule("orders", "0 0 31 4,6 *").Build())
	s.start()
	s.awaitReason(v1alpha1.ReasonInvalidSchedule)
	s.edit(func(object *v1alpha1.BackupSchedule) {
		object.Spec.Schedule, object.Spec.TimeZone = hourly, "Europe/Atlantis"
	})
	s.awaitReason(v1alpha1.ReasonInvalidTimeZone)
	s.edit(func(object *v1alpha1.BackupSchedule) { object.Spec.TimeZone = "Australia/Lord_Howe" })
	s.awaitReason(v1alpha1.ReasonScheduled)
	if ready := metav1.ConditionTrue; !flow.IsTrue(s.object, v1alpha1.ConditionReady) {
		t.Errorf("Ready is not %s: %v", ready, s.object.Status.Conditions)
	}
}

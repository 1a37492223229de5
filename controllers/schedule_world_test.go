package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// hourly is the calendar of most tests: what is due in them follows from the time at which they run.
const hourly = "0 * * * *"

// nightly is a world with one schedule, at which nobody has looked yet.
type nightly struct {
	*world
	name string
}

func newNightly(t *testing.T, s *v1alpha1.BackupSchedule, objects ...client.Object) nightly {
	t.Helper()
	w := newWorld(parallel(t), append(objects, s)...)
	return nightly{w, s.Name}
}

// get reads the schedule.
func (n nightly) get() *v1alpha1.BackupSchedule {
	n.t.Helper()
	s := &v1alpha1.BackupSchedule{}
	if err := n.server.Get(n.t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: n.name}, s); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// edit changes the schedule as a person does.
func (n nightly) edit(change func(*v1alpha1.BackupSchedule)) {
	n.t.Helper()
	s := n.get()
	change(s)
	s.Generation++
	if err := n.server.Update(n.t.Context(), s); err != nil {
		n.t.Fatal(err)
	}
}

// tryLook lets a manager that has just started look at the schedule.
func (n nightly) tryLook() (ctrl.Result, error) {
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testutil.Namespace, Name: n.name}}
	return (&controllers.ScheduleReconciler{Common: n.common()}).Reconcile(n.t.Context(), request)
}

// see lets it look and expects no error.
func (n nightly) see() ctrl.Result {
	n.t.Helper()
	result, err := n.tryLook()
	if err != nil {
		n.t.Fatal(err)
	}
	return result
}

// slot is the calendar's n-th slot after now.
func (n nightly) slot(count int) time.Time {
	n.t.Helper()
	spec := n.get().Spec
	calendar, err := schedule.Parse(spec.Schedule, spec.TimeZone)
	if err != nil {
		n.t.Fatal(err)
	}
	at := n.clock.Now()
	for range count {
		at = calendar.Next(at)
	}
	return at
}

// goTo moves the clock to a time.
func (n nightly) goTo(at time.Time) { n.clock.Advance(at.Sub(n.clock.Now())) }

// runNext goes to the next slot, lets it be seen, and returns the name of its backup.
func (n nightly) runNext() string {
	n.t.Helper()
	slot := n.slot(1)
	n.goTo(slot)
	n.see()
	return schedule.ChildName(n.name, slot)
}

// end makes a backup Ready, or Stalled.
func (n nightly) end(name string, condition string) {
	n.t.Helper()
	n.clock.Advance(time.Second)
	backup := n.backup(name)
	started, ended := backup.CreationTimestamp, metav1.NewTime(n.clock.Now())
	backup.Status.StartTime, backup.Status.CompletionTime = &started, &ended
	backup.Status.Conditions = []metav1.Condition{{
		Type: condition, Status: metav1.ConditionTrue, Reason: "Because", Message: "of the moon", LastTransitionTime: ended,
	}}
	if condition == v1alpha1.ConditionReady {
		backup.Status.URL = "s3://backups/prod/shop/" + name
		backup.Status.Artifact = &v1alpha1.ArtifactStatus{SizeBytes: 4096}
	}
	if err := n.server.Status().Update(n.t.Context(), backup); err != nil {
		n.t.Fatal(err)
	}
}

// runs are the names of the backups that are there, those that are being deleted included, without the schedule's name.
func (n nightly) runs() []string {
	n.t.Helper()
	var names []string
	for _, backup := range n.backups() {
		names = append(names, strings.TrimPrefix(backup.GetName(), n.name+"-"))
	}
	slices.Sort(names)
	return names
}

// expectRuns checks which backups are there.
func (n nightly) expectRuns(names ...string) {
	n.t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, strings.TrimPrefix(name, n.name+"-"))
	}
	slices.Sort(want)
	if got := n.runs(); !slices.Equal(got, want) {
		n.t.Errorf("the backups are %v, want %v", got, want)
	}
}

// stands checks the Ready condition.
func (n nightly) stands(status metav1.ConditionStatus, reason string, says ...string) {
	n.t.Helper()
	n.expect(n.get(), v1alpha1.ConditionReady, status, reason, says...)
}

// told checks that an event about the schedule begins so.
func (n nightly) told(begin string) {
	n.t.Helper()
	var notes []string
	for _, event := range n.events.Events() {
		if event.About == n.name {
			notes = append(notes, event.Note)
		}
	}
	if !slices.ContainsFunc(notes, func(note string) bool { return strings.HasPrefix(note, begin) }) {
		n.t.Errorf("no event begins with %q: %q", begin, notes)
	}
}

package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// waitPoll is how often a run that waits is tried again, beside the looks that the end of a backup causes.
const waitPoll = 10 * time.Second

// maxRunNow is how long a value of the annotation that asks for a run by hand may be to stand in status as it is.
const maxRunNow = 256

// start makes the backups that are asked for by hand or due by the calendar, as far as nothing is in their way.
func (w *scheduleWork) start(ctx context.Context) error {
	w.startCounting()
	byHand := w.startByHand(ctx)
	if ptr.Deref(w.object.Spec.Suspend, false) {
		w.outOfForce(w.calendar.String())
		w.idlef(v1alpha1.ReasonSuspended, "spec.suspend is true: no run is started, and none that falls into this time is made up for")
		return w.refused(byHand)
	}
	return w.refused(errors.Join(byHand, w.startDue(ctx)))
}

// startCounting says from when on slots are counted: since the schedule was made, or since its calendar was changed or came
// back into force, so that a slot that lies before that is not taken for a missed one.
func (w *scheduleWork) startCounting() {
	status := &w.object.Status
	if calendar := w.calendar.String(); status.ObservedCalendar == "" {
		status.DecidedUntil = timeOrNil(w.object.CreationTimestamp.Add(-w.spread()))
		status.ObservedCalendar = calendar
	} else if status.ObservedCalendar != calendar {
		w.outOfForce(calendar)
	}
}

// outOfForce has slots counted from the moment at which a calendar is followed (again).
func (w *scheduleWork) outOfForce(calendar string) {
	w.object.Status.ObservedCalendar = calendar
	w.object.Status.DecidedUntil = nil
	w.object.Status.NextScheduleTime = nil
}

// startByHand makes the run that the annotation asks for, if it is a new one and nothing is in its way.
func (w *scheduleWork) startByHand(ctx context.Context) error {
	id := runNowID(w.object)
	if id == "" || id == w.object.Status.LastRunNow {
		return nil
	}
	name := schedule.RunNowName(w.object.Name, id)
	var err error
	if w.byHand, err = w.obstacle(ctx, name); err != nil {
		return err
	}
	if w.byHand != nil {
		w.wakeIn(waitPoll)
		return nil
	}
	err = w.create(ctx, name, map[string]string{v1alpha1.AnnotationRunNow: id})
	if conflict, ok := flow.AsStall(err); ok {
		w.object.Status.LastRunNow = id // the next value has another name
		w.warnf(conflict.Reason, "%s", conflict.Message)
		return nil
	}
	if err != nil {
		return err
	}
	w.object.Status.LastRunNow = id
	w.tellf(v1alpha1.ReasonBackupCreated, "DatabaseBackup %s was created: the annotation %s asks for it", name, v1alpha1.AnnotationRunNow)
	return nil
}

// runNowID tells one run by hand from another: the value of the annotation, or, where that is long, what follows from it.
func runNowID(object client.Object) string {
	id := object.GetAnnotations()[v1alpha1.AnnotationRunNow]
	if len(id) <= maxRunNow {
		return id
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
}

// startDue makes the run that is due by the calendar, if nothing is in its way.
func (w *scheduleWork) startDue(ctx context.Context) error {
	decision := w.decide()
	if decision.Due.IsZero() {
		return w.onTime(ctx)
	}
	name := schedule.ChildName(w.object.Name, decision.Due)
	obstacle, err := w.obstacle(ctx, name)
	if err != nil {
		return err
	}
	if obstacle != nil {
		w.readyf(obstacle.reason, "the run of %s waits: %s", w.local(decision.Due), obstacle.text)
		w.wakeIn(waitPoll)
		if !decision.Expires.IsZero() {
			w.wakeIn(decision.Expires.Sub(w.now) + time.Second)
		}
		return nil
	}
	slot := map[string]string{v1alpha1.AnnotationSlot: decision.Due.UTC().Format(time.RFC3339)}
	if err := w.create(ctx, name, slot); err != nil {
		return w.taken(decision, err)
	}
	w.decided(decision)
	// No event: status says when, and active names the backup, which has events of its own. A thousand may be due at once.
	w.object.Status.LastScheduleTime = timeOrNil(decision.Due)
	w.scheduled()
	return nil
}

// decide asks the calendar what is due, and settles what can be settled without starting anything.
func (w *scheduleWork) decide() schedule.Decision {
	status := &w.object.Status
	plan := schedule.Plan{Spread: w.spread()}
	if status.DecidedUntil != nil {
		plan.DecidedUntil = status.DecidedUntil.Time
	}
	if seconds := w.object.Spec.StartingDeadlineSeconds; seconds > 0 {
		plan.Deadline = ptr.To(time.Duration(seconds) * time.Second)
	}
	decision := schedule.Decide(w.calendar, plan, w.now)
	if decision.SteppedBack {
		w.warnf(v1alpha1.ReasonClockStepped, "the clock was ahead: runs up to %s were decided already. What has its backup is not made "+
			"again, the others are", w.local(plan.DecidedUntil))
	}
	if decision.Due.IsZero() && !decision.DecidedUntil.Equal(plan.DecidedUntil) {
		w.decided(decision)
	}
	status.NextScheduleTime = timeOrNil(decision.Next)
	w.wakeIn(decision.Next.Sub(w.now))
	return decision
}

func (w *scheduleWork) spread() time.Duration {
	return schedule.Spread(w.object.Namespace, w.object.Name, w.object.Spec.SpreadSeconds)
}

// decided settles all slots up to a time, and tells of those that were missed.
func (w *scheduleWork) decided(decision schedule.Decision) {
	status := &w.object.Status
	if missed := decision.Missed; missed > 0 {
		status.MissedRuns += int64(missed)
		end := "None of them is made up for"
		if !decision.Due.IsZero() {
			end = "Of missed runs the newest alone is made up for, that of " + w.local(decision.Due)
		}
		w.warnf(v1alpha1.ReasonMissedRuns, "runs that were not started between %s and %s: %d. %s. %s",
			w.local(status.DecidedUntil.Time), w.local(w.now), missed, w.whyMissed(decision), end)
	}
	status.DecidedUntil = timeOrNil(decision.DecidedUntil)
}

// whyMissed tells by what the schedule waited for until now why runs were missed.
func (w *scheduleWork) whyMissed(decision schedule.Decision) string {
	switch reason := flow.ReasonOf(w.object, v1alpha1.ConditionReady); {
	case reason == v1alpha1.ReasonWaitingForBackup:
		return "An earlier backup had not ended"
	case reason == v1alpha1.ReasonWaitingForRestore:
		return "A restore was at work"
	case reason == v1alpha1.ReasonRefused:
		return "The API server refused to create them"
	case decision.Due.IsZero():
		return "No operator ran, or none could start them, until spec.startingDeadlineSeconds had passed"
	}
	return "No operator ran, or none could start them"
}

// onTime says that nothing is due. A conflict of names is told as long as what has the name of the last run is there.
func (w *scheduleWork) onTime(ctx context.Context) error {
	if flow.ReasonOf(w.object, v1alpha1.ConditionReady) == v1alpha1.ReasonNameConflict && w.object.Status.DecidedUntil != nil {
		name := schedule.ChildName(w.object.Name, w.object.Status.DecidedUntil.Time)
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.object.Namespace, Name: name}, &v1alpha1.DatabaseBackup{})
		if !apierrors.IsNotFound(err) {
			w.wakeIn(time.Minute)
			return err
		}
	}
	w.scheduled()
	return nil
}

func (w *scheduleWork) scheduled() {
	w.idlef(v1alpha1.ReasonScheduled, "the next run starts at %s", w.local(w.object.Status.NextScheduleTime.Time))
}

// idlef says that the calendar asks for nothing now, and what else does not go on: a run by hand that waits, or retention.
func (w *scheduleWork) idlef(reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	switch {
	case w.byHand != nil:
		reason, message = w.byHand.reason, "the run that is asked for by hand waits: "+w.byHand.text+". Else "+message
	case w.stuck != nil:
		reason, message = w.stuck.reason, w.stuck.text+" Else "+message
	}
	w.readyf(reason, "%s", message)
}

// taken settles a slot whose name somebody else's object has. The next one has another name.
func (w *scheduleWork) taken(decision schedule.Decision, err error) error {
	stall, conflict := flow.AsStall(err)
	if !conflict {
		return err
	}
	w.decided(decision)
	w.object.Status.MissedRuns++ // this one too, and why is told otherwise
	w.notReadyf(stall.Reason, "%s", stall.Message)
	return nil
}

// refused shows an error of the API server in status; it is tried again. In a namespace that is going away nothing is made
// any more, and the schedule goes with it.
func (w *scheduleWork) refused(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil && !apierrors.IsConflict(err) {
		w.notReadyf(v1alpha1.ReasonRefused, "%v. It is tried again", err)
	}
	return err
}

func (w *scheduleWork) local(t time.Time) string { return t.In(w.calendar.Zone()).Format(time.RFC3339) }

// create makes a backup from the template, or adopts the one that an earlier look made.
func (w *scheduleWork) create(ctx context.Context, name string, annotations map[string]string) error {
	backup := w.fromTemplate(name, annotations)
	err := w.Client.Create(ctx, backup)
	if apierrors.IsAlreadyExists(err) {
		backup = &v1alpha1.DatabaseBackup{}
		err = w.Live.Get(ctx, client.ObjectKey{Namespace: w.object.Namespace, Name: name}, backup)
		if err == nil && !w.made(backup) {
			return flow.Stalled(v1alpha1.ReasonNameConflict, "DatabaseBackup %s/%s is there, and this schedule did not make it, so "+
				"the run of that name is left out. Delete it, or make a schedule of another name", w.object.Namespace, name)
		}
	}
	if err != nil {
		return fmt.Errorf("creating DatabaseBackup %s/%s: %w", w.object.Namespace, name, err)
	}
	if !flow.Ended(backup) && !w.has(name) {
		w.backups = append(w.backups, backup)
		w.object.Status.Active = references(w.active(), maxActive)
	}
	return nil
}

// fromTemplate is a backup of this schedule. It has no owner reference: backups outlive the schedule that made them.
func (w *scheduleWork) fromTemplate(name string, annotations map[string]string) *v1alpha1.DatabaseBackup {
	template := w.object.Spec.Template.DeepCopy()
	backup := &v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.object.Namespace,
			Labels: merged(foreign(template.Metadata.Labels), map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelSchedule: string(w.object.UID),
			}),
			Annotations: merged(foreign(template.Metadata.Annotations), annotations, map[string]string{
				v1alpha1.AnnotationSchedule: w.object.Name,
			}),
		},
		Spec: template.Spec,
	}
	if backup.Spec.DeletionPolicy == "" && !rulesOf(w.object.Spec.Retention).Empty() {
		backup.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	}
	return backup
}

// foreign is what a person may say of a backup's metadata. What bears our prefix says which run a backup is and how it is
// deleted, and is copied along easily from a backup that is shown.
func foreign(metadata map[string]string) map[string]string {
	return maps.Collect(func(yield func(string, string) bool) {
		for key, value := range metadata {
			if !strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") && !yield(key, value) {
				return
			}
		}
	})
}

// merged is all maps in one; a later one wins.
func merged(all ...map[string]string) map[string]string {
	result := map[string]string{}
	for _, one := range all {
		maps.Copy(result, one)
	}
	return result
}

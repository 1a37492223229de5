package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// +kubebuilder:rbac:groups=holdfast.dev,resources=backupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=holdfast.dev,resources=backupschedules/status,verbs=patch

// errorPoll is how often a schedule that the API server refuses something is looked at again.
const errorPoll = 30 * time.Second

// ScheduleReconciler makes the backups of BackupSchedules, and deletes those that retention does not keep.
type ScheduleReconciler struct {
	Common
}

// SetupWithManager registers the reconciler.
func (r *ScheduleReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BackupSchedule{}, builder.WithPredicates(specOrDeletion())).
		Watches(&v1alpha1.DatabaseBackup{}, handler.EnqueueRequestsFromMapFunc(scheduleOf), builder.WithPredicates(endOrDeletion())).
		// Many schedules may be due in one second, and each then waits for the API server alone.
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(r)
}

// scheduleOf is the schedule that made a backup.
func scheduleOf(_ context.Context, backup client.Object) []reconcile.Request {
	name := backup.GetAnnotations()[v1alpha1.AnnotationSchedule]
	if name == "" || backup.GetLabels()[v1alpha1.LabelSchedule] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: backup.GetNamespace(), Name: name}}}
}

// endOrDeletion passes what a schedule wants to know of its backups: that they are there, ended, deleted or gone, and what
// keeps them from going.
func endOrDeletion() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.DatabaseBackup), e.ObjectNew.(*v1alpha1.DatabaseBackup)
		return flow.Ended(before) != flow.Ended(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			removalTrouble(before) != removalTrouble(after)
	}}
}

// Reconcile looks at one schedule.
func (r *ScheduleReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.BackupSchedule{}
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its backups stay
	}
	w := &scheduleWork{ScheduleReconciler: r, object: object, now: r.Now()}
	if err := w.read(ctx); err != nil {
		return ctrl.Result{}, err
	}
	before := object.DeepCopy()
	cause := w.advance(ctx)
	landed, err := r.Writer.Write(ctx, before, object)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !landed:
		return ctrl.Result{RequeueAfter: poll}, nil
	}
	for _, note := range w.notes {
		r.Writer.Event(object, note.kind, note.reason, "Reconcile", note.text)
	}
	if cause != nil {
		// Not with growing delays: a calendar goes on, and slots would pass unseen.
		log.FromContext(ctx).Error(cause, "tried again")
		w.wakeIn(errorPoll)
	}
	return ctrl.Result{RequeueAfter: w.lookAgain}, nil
}

// scheduleWork is one look at one schedule.
type scheduleWork struct {
	*ScheduleReconciler
	object *v1alpha1.BackupSchedule
	now    time.Time
	// backups of this schedule. They are the cache's own: not to be changed.
	backups  []*v1alpha1.DatabaseBackup
	calendar schedule.Calendar
	// byHand is what a run by hand waits for.
	byHand *obstacle
	// stuck is what keeps retention from deleting.
	stuck *obstacle
	// notes become events once status is written.
	notes []note
	// lookAgain is when there is something to do again, if nothing happens before; 0 is never.
	lookAgain time.Duration
}

type note struct{ kind, reason, text string }

func (w *scheduleWork) tellf(reason, format string, args ...any) {
	w.notes = append(w.notes, note{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

func (w *scheduleWork) warnf(reason, format string, args ...any) {
	w.notes = append(w.notes, note{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)})
}

// wakeIn lets the schedule be looked at after a while at the latest.
func (w *scheduleWork) wakeIn(after time.Duration) {
	after = max(after, time.Millisecond)
	if w.lookAgain == 0 || after < w.lookAgain {
		w.lookAgain = after
	}
}

// read lists the schedule's backups, and leaves out those of others in its lane. A copy of one, made by hand with all its labels, is not one of them.
func (w *scheduleWork) read(ctx context.Context) error {
	list := &v1alpha1.DatabaseBackupList{}
	err := w.Client.List(ctx, list, client.InNamespace(w.object.Namespace),
		client.MatchingFields{index.Lane: index.LaneOf(w.object.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the backups of BackupSchedule %s/%s: %w", w.object.Namespace, w.object.Name, err)
	}
	for i := range list.Items {
		if backup := &list.Items[i]; w.made(backup) {
			w.backups = append(w.backups, backup)
		}
	}
	return nil
}

// made says whether this schedule made a backup: its labels say so, and so does its name.
func (w *scheduleWork) made(backup *v1alpha1.DatabaseBackup) bool {
	if backup.Labels[v1alpha1.LabelSchedule] != string(w.object.UID) {
		return false
	}
	if id, byHand := backup.Annotations[v1alpha1.AnnotationRunNow]; byHand {
		return backup.Name == schedule.RunNowName(w.object.Name, id)
	}
	slot, err := time.Parse(time.RFC3339, backup.Annotations[v1alpha1.AnnotationSlot])
	return err == nil && backup.Name == schedule.ChildName(w.object.Name, slot)
}

// advance brings status up to date, starts what is due, and deletes what retention does not keep. A run that cannot be
// started holds up no retention, nor the other way round.
func (w *scheduleWork) advance(ctx context.Context) error {
	w.observe()
	if !w.readCalendar() {
		return nil // until the spec changes
	}
	return errors.Join(w.start(ctx), w.retain(ctx))
}

// readCalendar returns false when the spec has none that can be followed.
func (w *scheduleWork) readCalendar() bool {
	spec := &w.object.Spec
	calendar, err := schedule.Parse(spec.Schedule, spec.TimeZone)
	if err == nil {
		w.calendar = calendar
		return true
	}
	reason, field := v1alpha1.ReasonInvalidSchedule, "schedule"
	if errors.Is(err, schedule.ErrInvalidTimeZone) {
		reason, field = v1alpha1.ReasonInvalidTimeZone, "timeZone"
	}
	w.outOfForce(spec.Schedule + " " + spec.TimeZone)
	w.notReadyf(reason, "spec.%s: %v. No backup is made, and none is deleted, until it is mended", field, err)
	return false
}

func (w *scheduleWork) readyf(reason, format string, args ...any) {
	flow.MarkTrue(w.object, v1alpha1.ConditionReady, reason, fmt.Sprintf(format, args...))
}

// notReadyf says what keeps the schedule from its work; where that is new, an event says so too.
func (w *scheduleWork) notReadyf(reason, format string, args ...any) {
	flow.MarkFalse(w.object, v1alpha1.ConditionReady, reason, fmt.Sprintf(format, args...))
}

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	stamp := metav1.NewTime(t)
	return &stamp
}

package flow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// desk is a Writer, with what it wrote and said in the order in which it did.
type desk struct {
	flow.Writer
	server   client.Client
	recorder *testutil.Recorder
	writes   int
	before   []int // how many events had been sent at each write
	refuse   error
}

func newDesk(t *testing.T, backup *v1alpha1.DatabaseBackup) *desk {
	t.Helper()
	d := &desk{recorder: &testutil.Recorder{}}
	server := testutil.NewFake(t, testutil.NewClock(), backup)
	d.server = server
	counting := interceptor.NewClient(server, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			d.writes++
			d.before = append(d.before, len(d.recorder.Events()))
			if d.refuse != nil {
				return d.refuse
			}
			return c.SubResource(name).Patch(ctx, object, patch, opts...)
		},
	})
	d.Writer = flow.Writer{Client: counting, Recorder: d.recorder}
	return d
}

// read returns the backup as the API server has it.
func (d *desk) read(t *testing.T) *v1alpha1.DatabaseBackup {
	t.Helper()
	backup := &v1alpha1.DatabaseBackup{}
	if err := d.server.Get(t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: "orders"}, backup); err != nil {
		t.Fatal(err)
	}
	return backup
}

// finish changes the backup and finishes.
func (d *desk) finish(t *testing.T, cause error, change func(*v1alpha1.DatabaseBackup)) (ctrl.Result, error) {
	t.Helper()
	before := d.read(t)
	after := before.DeepCopy()
	change(after)
	return d.Finish(t.Context(), before, after, cause)
}

func dumping(b *v1alpha1.DatabaseBackup) {
	flow.MarkFalse(b, v1alpha1.ConditionReady, v1alpha1.ReasonDumping, "Job a is at work")
}

func stalled(b *v1alpha1.DatabaseBackup) {
	flow.MarkFalse(b, v1alpha1.ConditionReady, v1alpha1.ReasonDumpFailed, "the disk is full")
	flow.MarkTrue(b, v1alpha1.ConditionStalled, "StagingFull", "the disk is full")
}

func TestFinishWritesStatusOnceAndThenTells(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	result, err := d.finish(t, flow.Waiting(7*time.Second, "at work"), dumping)
	if err != nil || result.RequeueAfter != 7*time.Second {
		t.Errorf("the queue is told %v, %v, want to come back after 7s", result, err)
	}
	if d.writes != 1 || d.before[0] != 0 {
		t.Errorf("%d writes, of which the first came after %v events", d.writes, d.before)
	}
	got := d.read(t)
	if flow.ReasonOf(got, v1alpha1.ConditionReady) != v1alpha1.ReasonDumping || got.Status.ObservedGeneration != got.Generation {
		t.Errorf("status is %+v", got.Status)
	}
	want := testutil.Event{About: "orders", Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonDumping, Note: "Job a is at work"}
	if events := d.recorder.Events(); len(events) != 1 || events[0] != want {
		t.Errorf("events are %v, want %v", events, want)
	}
}

func TestFinishWritesNothingWhenNothingChanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	for range 3 {
		if _, err := d.finish(t, flow.Waiting(time.Second, "at work"), dumping); err != nil {
			t.Fatal(err)
		}
	}
	if d.writes != 1 || len(d.recorder.Events()) != 1 {
		t.Errorf("%d writes and %d events for one change", d.writes, len(d.recorder.Events()))
	}
}

func TestFinishSendsOneEventAStage(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	for _, message := range []string{"pod a cannot start yet", "Job a is at work"} {
		_, err := d.finish(t, nil, func(b *v1alpha1.DatabaseBackup) {
			flow.MarkFalse(b, v1alpha1.ConditionReady, v1alpha1.ReasonDumping, message)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if d.writes != 2 || len(d.recorder.Events()) != 1 {
		t.Errorf("%d writes and events %v, want two writes and one event", d.writes, d.recorder.Events())
	}
}

// finishStep runs a step that dumps and ends as given, and finishes.
func (d *desk) finishStep(t *testing.T, ends error) {
	t.Helper()
	before := d.read(t)
	after := before.DeepCopy()
	cause := flow.Run(t.Context(), after, testutil.Start, timeout, []flow.Step{{
		Stage: v1alpha1.ReasonDumping, Failed: v1alpha1.ReasonDumpFailed, Begins: "dumping orders of orders-db.shop.svc",
		Do: func(context.Context) error { return ends },
	}})
	if cause == nil {
		flow.Complete(after, testutil.Start, "it can be restored from")
	}
	if _, err := d.Finish(t.Context(), before, after, cause); err != nil && !errors.Is(err, ends) {
		t.Fatal(err)
	}
}

func TestFinishTellsWhatAStageBeginsAndHowItEnds(t *testing.T) {
	t.Parallel()
	begins := testutil.Event{About: "orders", Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonDumping, Note: "dumping orders of orders-db.shop.svc"}
	for name, test := range map[string]struct {
		looks []error
		ends  string
	}{
		"it waits, and is done":  {[]error{flow.Waiting(time.Second, "no pod yet"), flow.Waiting(time.Second, "at work"), nil}, "it can be restored from"},
		"it waits, and fails":    {[]error{flow.Waiting(time.Second, "no pod yet"), flow.Stalled("StagingFull", "the disk is full")}, "the disk is full"},
		"trouble, then it works": {[]error{errors.New("etcd is away"), nil}, "it can be restored from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, testutil.Backup("orders").Build())
			for _, look := range test.looks {
				d.finishStep(t, look)
			}
			events := d.recorder.Events()
			if len(events) != 2 || events[0] != begins || !strings.Contains(events[1].Note, test.ends) {
				t.Errorf("events are %v, want %v and an end that says %q", events, begins, test.ends)
			}
		})
	}
}

func TestFinishWarnsOfAStall(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	result, err := d.finish(t, flow.Stalled("StagingFull", "the disk is full"), stalled)
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("the queue is told %v, %v, want to leave it", result, err)
	}
	want := testutil.Event{About: "orders", Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonDumpFailed, Note: "the disk is full"}
	if events := d.recorder.Events(); len(events) != 1 || events[0] != want {
		t.Errorf("events are %v, want %v", events, want)
	}
}

func TestFinishIsQuietAboutConflictsAndComesBack(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"changed meanwhile": apierrors.NewConflict(resource, "orders", errors.New("changed")),
		"gone meanwhile":    apierrors.NewNotFound(resource, "orders"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, testutil.Backup("orders").Build())
			d.refuse = refusal
			result, err := d.finish(t, nil, dumping)
			if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
				t.Errorf("the queue is told %v, %v, want to come back soon and no error", result, err)
			}
			if events := d.recorder.Events(); len(events) != 0 {
				t.Errorf("people were told of what was not written: %v", events)
			}
		})
	}
}

func TestFinishLosesToANewerVersionOfTheObject(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	stale := d.read(t)
	if _, err := d.finish(t, nil, stalled); err != nil {
		t.Fatal(err)
	}
	after := stale.DeepCopy()
	dumping(after)
	if _, err := d.Finish(t.Context(), stale, after, nil); err != nil {
		t.Fatal(err)
	}
	if !flow.IsTrue(d.read(t), v1alpha1.ConditionStalled) {
		t.Error("a look at a stale copy overwrote the end")
	}
}

func TestFinishReportsWhatElseFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t, testutil.Backup("orders").Build())
	d.refuse = errors.New("etcd is away")
	if _, err := d.finish(t, nil, dumping); !errors.Is(err, d.refuse) {
		t.Errorf("the error is %v, want %v", err, d.refuse)
	}
	d.refuse = nil
	cause := errors.New("connection refused")
	if _, err := d.finish(t, cause, dumping); !errors.Is(err, cause) {
		t.Errorf("the error of the step is %v, want %v", err, cause)
	}
	if d.writes != 2 {
		t.Errorf("%d writes, want 2: what changed before an error is kept", d.writes)
	}
}

func TestEventsFitTheAPI(t *testing.T) {
	t.Parallel()
	backup := testutil.Backup("orders").Build()
	d := newDesk(t, backup)
	d.Event(backup, corev1.EventTypeWarning, "Why", "Delete", "100% of "+strings.Repeat("it ", 1000))
	if note := d.recorder.Events()[0].Note; len(note) > 1024 || !strings.HasPrefix(note, "100% of it") {
		t.Errorf("the note has %d bytes and begins with %q", len(note), note[:20])
	}
}

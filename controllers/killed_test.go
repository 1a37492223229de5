package controllers_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

const fixedUID = "3f2a91c0-1111-4222-8333-444455556666"

// killedEverywhere runs a story once for each write that a manager does in it, and kills the manager just after that
// write (which is as if it were killed just before the next). The story runs to its end and returns what it came to,
// which must be the same as when nobody is killed.
func killedEverywhere(t *testing.T, objects []client.Object, story func(*world) any) {
	t.Helper()
	undisturbed := newWorld(t, objects...)
	want := story(undisturbed)
	if len(undisturbed.writes) < 5 {
		t.Fatalf("the story has the writes %v alone", undisturbed.writes)
	}
	for number, what := range undisturbed.writes {
		t.Run(fmt.Sprintf("%02d %s", number+1, what), func(t *testing.T) {
			w := newWorld(parallel(t), objects...)
			w.killAt = number + 1
			if got := story(w); !reflect.DeepEqual(got, want) {
				t.Errorf("it came to\n%+v, and undisturbed to\n%+v", got, want)
			}
			for what, times := range w.created {
				// A deletion may be done twice: the last that tells of it is the finalizer, and then the object.
				if times != 1 && !strings.HasSuffix(what, "-delete") {
					t.Errorf("%s was made %d times", what, times)
				}
			}
		})
	}
}

// end is what a backup came to, without its times.
type end struct {
	Conditions []string
	Status     v1alpha1.DatabaseBackupStatus
	Left       []string
}

func (w *world) endOf(name string) end {
	w.t.Helper()
	w.quiet()
	backup := w.backup(name)
	e := end{Conditions: conditions(backup), Status: *backup.Status.DeepCopy(), Left: w.left()}
	e.Status.Conditions, e.Status.StartTime, e.Status.CompletionTime = nil, nil, nil
	for i := range e.Status.VolumeSnapshots {
		e.Status.VolumeSnapshots[i].CreationTime = nil
		e.Status.VolumeSnapshots[i].RestoreSize = nil
	}
	if e.Status.Artifact != nil {
		e.Status.Artifact.Key, e.Status.URL = "", "" // they hold the time of the object's creation
	}
	return e
}

func conditions(subject flow.Subject) []string {
	var list []string
	for _, condition := range *subject.Progress().Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
	}
	slices.Sort(list)
	return list
}

func TestBackupWhoseManagerIsKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	backup := testutil.Backup("orders").UID(fixedUID).Claims(dataClaim).Build()
	killedEverywhere(t, []client.Object{backup}, func(w *world) any {
		w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
		w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		return w.endOf("orders")
	})
}

func TestBackupThatIsDeletedWhoseManagerIsKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	backup := testutil.Backup("orders").UID(fixedUID).Claims(dataClaim).Policy(v1alpha1.DeletionDelete).Build()
	killedEverywhere(t, []client.Object{backup}, func(w *world) any {
		var deletes int
		w.cluster.Answer = func(task contract.Task) *contract.Result {
			if task.Verb == contract.VerbDelete {
				deletes++
			}
			result := testutil.Result(task)
			return &result
		}
		w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
		w.remove(backup)
		w.settle("it is gone", func() bool { return w.gone(backup) })
		w.round()
		w.round()
		return []any{w.left(), deletes > 0}
	})
}

func TestRestoreWhoseManagerIsKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	restore := testutil.Restore("again").UID(fixedUID).Build()
	killedEverywhere(t, []client.Object{restore}, func(w *world) any {
		w.settle("an end", func() bool { return flow.Ended(w.restore("again")) })
		got := w.restore("again")
		w.expect(got, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		if got.Status.URL == "" || got.Status.URL != w.backup(got.Status.SafetyBackupName).Status.URL {
			w.t.Errorf("the safety URL is %q", got.Status.URL)
		}
		w.quiet()
		return []any{conditions(got), got.Status.SafetyBackupName, got.Status.Source, len(w.left())}
	})
}

// conflicting refuses every other write of status, as when somebody else changed the object in between.
func conflicting(w *world) {
	attempts := 0
	w.deny = func(verb string, object client.Object) error {
		if verb != "patch status" {
			return nil
		}
		attempts++
		if attempts%2 == 0 {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "databasebackups"}, object.GetName(), errors.New("changed meanwhile"))
	}
}

func TestBackupAndRestoreWhoseStatusOthersChangeMeanwhile(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").Claims(dataClaim).Build(), testutil.Restore("again").FromBackup("orders").Build())
	conflicting(w)
	w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	for what, times := range w.created {
		if times != 1 {
			t.Errorf("%s was made %d times", what, times)
		}
	}
}

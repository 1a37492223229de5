package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// older begins a restore that was made a minute before all others.
func older(name string) *testutil.RestoreBuilder {
	return testutil.Restore(name).With(func(r *v1alpha1.DatabaseRestore) {
		r.CreationTimestamp = metav1.NewTime(testutil.Start.Add(-time.Minute))
	})
}

// into changes what a restore restores into.
func into(change func(*v1alpha1.DatabaseSpec)) func(*v1alpha1.DatabaseRestore) {
	return func(r *v1alpha1.DatabaseRestore) { change(&r.Spec.Database) }
}

func TestRestoreWaitsForOlderOnesIntoTheSameDatabases(t *testing.T) {
	named := func(names ...v1alpha1.DatabaseName) func(*v1alpha1.DatabaseRestore) {
		return into(func(db *v1alpha1.DatabaseSpec) { db.Names = names })
	}
	host := func(name string) func(*v1alpha1.DatabaseRestore) {
		return into(func(db *v1alpha1.DatabaseSpec) { db.Host = name })
	}
	port := func(number int32) func(*v1alpha1.DatabaseRestore) {
		return into(func(db *v1alpha1.DatabaseSpec) { db.Port = number })
	}
	failed := func(r *v1alpha1.DatabaseRestore) {
		flow.MarkTrue(r, v1alpha1.ConditionStalled, "StagingFull", "full")
	}
	began := func(r *v1alpha1.DatabaseRestore) { r.Status.SafetyBackupName = "theirs-safety" }
	first := func() *testutil.RestoreBuilder { return older("other") }
	for name, test := range map[string]struct {
		other *testutil.RestoreBuilder
		ours  func(*v1alpha1.DatabaseRestore)
		waits bool
	}{
		"the same database":              {other: first(), waits: true},
		"one of several":                 {other: first().With(named("stock", "orders")), waits: true},
		"another database":               {other: first().With(named("stock"))},
		"theirs are all of the artifact": {other: first().With(named()), waits: true},
		"ours are all of the artifact":   {other: first().With(named("stock")), ours: named(), waits: true},
		"the default port":               {other: first().With(port(5432)), waits: true},
		"another port":                   {other: first().With(port(5433))},
		"another server":                 {other: first().With(host("stock-db.shop.svc"))},
		"another form of the name":       {other: first().With(host("orders-db")), waits: true},
		"in another namespace":           {other: first().In("elsewhere")},
		"it failed":                      {other: first().With(failed)},
		"it is younger": {other: first(), ours: func(r *v1alpha1.DatabaseRestore) {
			r.CreationTimestamp = metav1.NewTime(testutil.Start.Add(-time.Hour))
		}},
		"it is younger, and long at work": {other: testutil.Restore("other").With(began), ours: func(r *v1alpha1.DatabaseRestore) {
			r.CreationTimestamp = metav1.NewTime(testutil.Start.Add(-time.Hour))
		}, waits: true},
		"of the same second and a first name":  {other: testutil.Restore("aaa"), waits: true},
		"of the same second and a second name": {other: testutil.Restore("zzz")},
		"ours is at work already":              {other: first(), ours: began},
	} {
		t.Run(name, func(t *testing.T) {
			ours := testutil.Restore("again")
			if test.ours != nil {
				ours.With(test.ours)
			}
			other := test.other.Build()
			w := newWorld(parallel(t), other, ours.Build())
			w.mustLook(w.restore("again"))
			if !test.waits {
				if got := flow.ReasonOf(w.restore("again"), v1alpha1.ConditionReady); got == v1alpha1.ReasonPending {
					t.Errorf("it waits for one that is not in its way: %v", w.restore("again").Status.Conditions)
				}
				return
			}
			w.expect(w.restore("again"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending,
				"DatabaseRestore "+other.Name, "orders-db.shop.svc", "has ended, or is deleted")
			w.expectMade("-preview")
		})
	}
}

func TestRestoresIntoOneDatabaseWorkOneAfterAnother(t *testing.T) {
	w := newWorld(parallel(t), older("first").Build(), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbLoad)
	w.settle("the first restores", func() bool {
		return flow.ReasonOf(w.restore("first"), v1alpha1.ConditionReady) == v1alpha1.ReasonRestoring
	})
	w.expect(w.restore("again"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "DatabaseRestore first")
	w.cluster.Answer = nil
	restore := w.restored()
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expectAfter(restore, w.restore("first"))
	w.expectNotes("again", "waiting for DatabaseRestore first", "looking at ", "backing up ", "downloading ", "restoring ", "restored ")
}

// expectAfter checks that the safety backup of a restore holds what another one restored.
func (w *world) expectAfter(second, first *v1alpha1.DatabaseRestore) {
	w.t.Helper()
	safety := w.backup(second.Status.SafetyBackupName)
	if first.Status.CompletionTime == nil || safety.CreationTimestamp.Before(first.Status.CompletionTime) {
		w.t.Errorf("%s saved the databases at %v, %s ended at %v", second.Name, safety.CreationTimestamp, first.Name, first.Status.CompletionTime)
	}
}

func TestRestoreThatIsSeenLateStillComesFirst(t *testing.T) {
	w := newWorld(parallel(t), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbInspect)
	restore := w.stage(v1alpha1.ReasonInspecting)
	first := testutil.Restore("aaa").Build() // of the same second, and of a name that goes before
	first.CreationTimestamp = restore.CreationTimestamp
	if err := w.server.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.cluster.Answer = nil
	restore = w.restored()
	w.expect(restore, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expect(w.restore("aaa"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.expectAfter(restore, w.restore("aaa"))
}

func TestRestoreGoesOnWhenTheOneBeforeItIsDeleted(t *testing.T) {
	w := newWorld(parallel(t), older("first").Build(), testutil.Restore("again").Build())
	w.cluster.Answer = hold(contract.VerbLoad)
	w.settle("the first restores", func() bool {
		return flow.ReasonOf(w.restore("first"), v1alpha1.ConditionReady) == v1alpha1.ReasonRestoring
	})
	first := w.restore("first")
	w.remove(first)
	w.mustLook(w.restore("again"))
	w.expect(w.restore("again"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "DatabaseRestore first")
	w.cluster.Answer = nil
	w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if !w.gone(first) {
		t.Error("it went on though the agent of the first was still ending")
	}
}

func TestRestoreDoesNotWaitForEver(t *testing.T) {
	w := newWorld(parallel(t), older("first").Timeout(10*time.Hour).Build(), testutil.Restore("again").Timeout(time.Hour).Build())
	w.cluster.Answer = hold(contract.VerbInspect)
	w.round()
	w.running()
	w.clock.Advance(time.Hour)
	restore := w.restored()
	w.expectStalled(restore, v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonDeadlineExceeded, "DatabaseRestore first", "spec.timeout of 1h0m0s")
	w.expectMade("-preview", "-inspect") // the latter by the first
}

// expectMade checks which children were made, by the ends of their names.
func (w *world) expectMade(suffixes ...string) {
	w.t.Helper()
	for what := range w.created {
		if !slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(what, suffix) }) {
			w.t.Errorf("made while it waits, or though its turn never came: %s", what)
		}
	}
}

func TestRestoreThatWaitsTellsAtOnceWhatRightItLacks(t *testing.T) {
	for reason, ends := range map[string]bool{
		contract.ReasonPermissionDenied: true, contract.ReasonStoreDenied: true, contract.ReasonSecretMissing: true,
		contract.ReasonServerUnreachable: false, contract.ReasonDatabaseNotFound: false,
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(parallel(t), older("first").Build(), testutil.Restore("again").Build())
			refused := fail(contract.VerbInspect, reason, "something is lacking")
			w.cluster.Answer = func(task contract.Task) *contract.Result {
				if task.Object.Name == "again" {
					return refused(task)
				}
				return hold(contract.VerbLoad)(task)
			}
			w.settle("the first restores", func() bool {
				return flow.ReasonOf(w.restore("first"), v1alpha1.ConditionReady) == v1alpha1.ReasonRestoring
			})
			if ends {
				w.expectStalled(w.restore("again"), v1alpha1.ReasonInspectionFailed, reason, "something is lacking")
				return
			}
			w.expect(w.restore("again"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "DatabaseRestore first")
			w.cluster.Answer = nil // what was wrong has passed
			w.expect(w.restored(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		})
	}
}

package controllers_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// several runs as many backups as there are letters: r is one that becomes Ready, s one that stalls.
func (n nightly) several(ends string) []string {
	n.t.Helper()
	var names []string
	for _, end := range ends {
		name := n.runNext()
		condition := v1alpha1.ConditionReady
		if end == 's' {
			condition = v1alpha1.ConditionStalled
		}
		n.end(name, condition)
		names = append(names, name)
	}
	return names
}

// holdBack gives a backup the finalizer that it would have got while it was at work: deleted, it is still to be seen.
func (n nightly) holdBack(name string) {
	n.t.Helper()
	backup := n.backup(name)
	backup.Finalizers = []string{v1alpha1.Finalizer}
	if err := n.server.Update(n.t.Context(), backup); err != nil {
		n.t.Fatal(err)
	}
}

func keepLast(count int32) v1alpha1.RetentionSpec { return v1alpha1.RetentionSpec{KeepLast: count} }

// A store that is away must not be found out by a bill.
func TestScheduleSaysThatRetentionIsStuck(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(1)).Build())
	names := n.several("rr")
	n.holdBack(names[0])
	n.see()
	n.see()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled) // it is going
	gone := n.backup(names[0])
	flow.MarkTrue(gone, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded,
		"The artifact s3://backups/x could not be removed yet: the store is away. It is tried again at noon.")
	if err := n.server.Status().Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	n.see()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonRetentionStuck, "1 could not be deleted so far", names[0], "the store is away",
		"Else the next run starts at")
	n.told("of the backups that no rule of spec.retention keeps, 1 ")
	third := n.runNext() // it holds nothing else up
	if n.backup(third).UID == "" {
		t.Error("no backup was made")
	}
	gone = n.backup(names[0])
	gone.Finalizers = nil
	if err := n.server.Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	n.see()
	n.stands(metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func TestScheduleDeletesWhatNoRuleKeeps(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(2)).Build())
	names := n.several("rr")
	n.see()
	n.expectRuns(names...)
	if got := n.get().Status.Retention; got.Kept != 2 || len(got.Next) != 1 || got.Next[0].Name != names[0] {
		t.Errorf("status.retention is %+v", got)
	}
	// Nothing is gone before its follower is Ready.
	third := n.runNext()
	n.expectRuns(append(names, third)...)
	n.end(third, v1alpha1.ConditionReady)
	n.holdBack(names[0])
	n.see()
	gone := n.backup(names[0])
	if gone.DeletionTimestamp.IsZero() || gone.Annotations[v1alpha1.AnnotationExpired] == "" {
		t.Errorf("the oldest is deleted at %v with annotations %v", gone.DeletionTimestamp, gone.Annotations)
	}
	if got := n.get().Status.Retention; len(got.Deleting) != 1 || got.Deleting[0].Name != names[0] || got.Kept != 2 {
		t.Errorf("status.retention is %+v", got)
	}
	n.told("DatabaseBackup " + names[0] + " is deleted")
}

func TestScheduleNeverDeletesTheNewestReady(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(v1alpha1.RetentionSpec{KeepWithin: &metav1.Duration{Duration: 1}}).
		With(func(s *v1alpha1.BackupSchedule) { s.Spec.FailedHistoryLimit = ptr.To(int32(0)) }).Build())
	names := n.several("rrssss")
	n.see()
	n.expectRuns(names[1])
	if got := n.get().Status.FailedRuns; got != 4 {
		t.Errorf("%d failures are counted, want 4", got)
	}
	n.expect(n.get(), v1alpha1.ConditionLastBackupSucceeded, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
}

func TestScheduleKeepsTheNewestFailures(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).With(func(s *v1alpha1.BackupSchedule) { s.Spec.FailedHistoryLimit = ptr.To(int32(2)) }).Build())
	names := n.several("srsss")
	n.see()
	n.expectRuns(names[1], names[3], names[4])
}

func TestScheduleForgetsObjectsWhereNoRuleIs(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).With(func(s *v1alpha1.BackupSchedule) { s.Spec.HistoryLimit = 2 }).Build())
	names := n.several("rr")
	n.holdBack(names[0])
	names = append(names, n.several("r")...)
	n.see()
	forgotten := n.backup(names[0])
	if forgotten.DeletionTimestamp.IsZero() || forgotten.Annotations[v1alpha1.AnnotationForget] == "" || forgotten.Annotations[v1alpha1.AnnotationExpired] != "" {
		t.Errorf("the oldest is deleted at %v with annotations %v", forgotten.DeletionTimestamp, forgotten.Annotations)
	}
	if !stays(n, names[1]) || !stays(n, names[2]) {
		t.Error("one of the newest goes too")
	}
	n.told("the object of DatabaseBackup " + names[0])
}

func stays(n nightly, name string) bool { return n.backup(name).DeletionTimestamp.IsZero() }

// going are the backups that are being deleted.
func (n nightly) going() []string {
	n.t.Helper()
	var names []string
	for _, backup := range n.backups() {
		if !backup.GetDeletionTimestamp().IsZero() {
			names = append(names, backup.GetName())
		}
	}
	return names
}

// TestScheduleDeletesAFewOfAStoreAtATime shows that a store which lets nothing be deleted holds up no other.
func TestScheduleDeletesAFewOfAStoreAtATime(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Build())
	names := n.several("rrrrrrrrrr")
	n.edit(func(s *v1alpha1.BackupSchedule) {
		s.Spec.Template.Spec.Storage.S3.CredentialsSecretRef.Name = "s3-of-another"
	})
	moved := n.several("rrr")
	for _, name := range append(names, moved...) {
		n.holdBack(name)
	}
	n.edit(func(s *v1alpha1.BackupSchedule) { s.Spec.Retention = keepLast(1) })
	n.see()
	n.see()
	want := append(names[:5:5], moved[:2]...)
	if got := n.going(); !slices.Equal(got, want) {
		t.Errorf("%v are deleted, want %v", got, want)
	}
	if got := n.get().Status.Retention; got.Kept != 1 || got.Waiting != 5 || len(got.Deleting) != 7 {
		t.Errorf("status.retention is %+v", got)
	}
}

// TestScheduleIsNotLedAstrayByTheFuture shows that a backup which a wrong clock dated ahead is not taken for the newest.
func TestScheduleIsNotLedAstrayByTheFuture(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(1)).Build())
	n.clock.Advance(1000 * time.Hour)
	ahead := n.several("r")
	n.clock.Advance(-1001 * time.Hour)
	n.see()
	names := n.several("rr")
	n.see()
	n.expectRuns(ahead[0], names[1])
	if got := n.get().Status.LastSuccessfulURL; got != "s3://backups/prod/shop/"+names[1] {
		t.Errorf("the newest is said to be %s, want that of %s", got, names[1])
	}
}

func TestScheduleLeavesCopiesOfItsBackupsAlone(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(1)).Build())
	first := n.several("r")[0]
	made := n.backup(first)
	copied := testutil.Backup("by-hand").With(func(b *v1alpha1.DatabaseBackup) {
		b.Labels, b.Annotations = made.Labels, made.Annotations
	}).Build()
	if err := n.server.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	n.end("by-hand", v1alpha1.ConditionReady)
	second := n.several("r")[0]
	n.see()
	n.expectRuns("by-hand", second)
}

func TestScheduleOfAnEarlierObjectOfItsNameLeavesItsBackups(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(1)).Build())
	old := n.several("r")[0]
	n.remove(n.get())
	again := testutil.Schedule("orders", hourly).Retention(keepLast(1)).Build()
	if err := n.server.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	names := n.several("rr")
	n.see()
	n.expectRuns(old, names[1])
}

func TestScheduleKeepsWhatARestoreReads(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(1)).Concurrency(v1alpha1.ConcurrencyAllow).Build())
	names := n.several("r")
	restore := testutil.Restore("again").FromBackup(names[0]).Build()
	restore.Spec.Database.Host = "a-new-server"
	byURL := testutil.Restore("by-url").Build()
	byURL.Spec.Database.Host, byURL.Spec.Source.URL = "a-new-server", "s3://backups/prod/shop/"+names[0]
	for _, reader := range []client.Object{restore, byURL} {
		if err := n.server.Create(t.Context(), reader); err != nil {
			t.Fatal(err)
		}
	}
	names = append(names, n.several("r")...)
	n.see()
	n.expectRuns(names...)
	n.remove(n.restore("again"))
	n.see()
	n.expectRuns(names...)
	n.remove(n.restore("by-url"))
	n.see()
	n.expectRuns(names[1])
}

func TestScheduleChoosesTheDeletionPolicy(t *testing.T) {
	retain, remove := v1alpha1.DeletionRetain, v1alpha1.DeletionDelete
	for name, test := range map[string]struct {
		template  v1alpha1.DeletionPolicy
		retention v1alpha1.RetentionSpec
		want      v1alpha1.DeletionPolicy
	}{
		"a rule":             {"", keepLast(1), remove},
		"no rule":            {"", v1alpha1.RetentionSpec{}, ""},
		"a rule, but Retain": {retain, keepLast(1), retain},
		"no rule, Delete":    {remove, v1alpha1.RetentionSpec{}, remove},
	} {
		t.Run(name, func(t *testing.T) {
			s := testutil.Schedule("orders", hourly).Retention(test.retention)
			n := newNightly(t, s.With(func(s *v1alpha1.BackupSchedule) { s.Spec.Template.Spec.DeletionPolicy = test.template }).Build())
			if got := n.backup(n.runNext()).Spec.DeletionPolicy; got != test.want {
				t.Errorf("deletionPolicy is %q, want %q", got, test.want)
			}
		})
	}
}

func TestScheduleIsQuietWhenNothingIsDue(t *testing.T) {
	n := newNightly(t, testutil.Schedule("orders", hourly).Retention(keepLast(3)).Build())
	names := n.several("rsr")
	n.see()
	before := len(n.writes)
	n.see()
	if more := n.writes[before:]; len(more) > 0 {
		t.Errorf("it writes, though nothing changed: %v", more)
	}
	if !slices.Contains(n.runs(), names[0][len("orders-"):]) {
		t.Errorf("the backups are %v", n.runs())
	}
}

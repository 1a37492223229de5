//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// schedule is a BackupSchedule under test.
type schedule struct {
	space *space
	*v1alpha1.BackupSchedule
}

// newSchedule makes backups like this one every minute.
func (s *space) newSchedule(name string, like *backup) *schedule {
	return &schedule{s, &v1alpha1.BackupSchedule{ObjectMeta: s.meta(name), Spec: v1alpha1.BackupScheduleSpec{
		Schedule: "* * * * *", TimeZone: "Europe/Paris", Template: v1alpha1.BackupTemplate{Spec: like.Spec},
	}}}
}

func (d *schedule) await(what string, look func(*v1alpha1.BackupSchedule) (bool, error)) *schedule {
	d.space.t.Helper()
	d.BackupSchedule = follow(d.space.t, d.BackupSchedule, fmt.Sprintf("BackupSchedule %s: %s", d.Name, what), look)
	return d
}

// edit changes the schedule as it stands.
func (d *schedule) edit(change func(*v1alpha1.BackupSchedule)) {
	d.space.t.Helper()
	now := &v1alpha1.BackupSchedule{}
	if err := env.kube.Get(d.space.t.Context(), client.ObjectKeyFromObject(d.BackupSchedule), now); err != nil {
		d.space.t.Fatal(err)
	}
	before := now.DeepCopy()
	change(now)
	if err := env.kube.Patch(d.space.t.Context(), now, client.MergeFrom(before)); err != nil {
		d.space.t.Fatal(err)
	}
}

// backups are the schedule's, the oldest first.
func (d *schedule) backups() []*backup {
	d.space.t.Helper()
	var list v1alpha1.DatabaseBackupList
	err := env.kube.List(d.space.t.Context(), &list, client.InNamespace(d.space.namespace),
		client.MatchingLabels{v1alpha1.LabelSchedule: string(d.UID)})
	if err != nil {
		d.space.t.Fatal(err)
	}
	var found []*backup
	for i := range list.Items {
		found = append(found, &backup{d.space, &list.Items[i]})
	}
	slices.SortFunc(found, func(a, b *backup) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// awaitSuccess follows the schedule until a backup other than those given is its newest, and returns that.
func (d *schedule) awaitSuccess(but ...*backup) *backup {
	d.space.t.Helper()
	d.await("one more backup is Ready", func(now *v1alpha1.BackupSchedule) (bool, error) {
		known := func(b *backup) bool { return b.Status.URL == now.Status.LastSuccessfulURL }
		return now.Status.LastSuccessfulURL != "" && !slices.ContainsFunc(but, known), nil
	})
	for _, b := range d.backups() {
		if b.Status.URL == d.Status.LastSuccessfulURL {
			return b.awaitReady()
		}
	}
	d.space.t.Fatalf("no backup of the schedule has the URL %s that its status gives", d.Status.LastSuccessfulURL)
	return nil
}

// TestSchedule shows a schedule of every minute at work: backups in the store, those that retention does not keep gone
// with their snapshots, what others have beside them untouched; the operator killed as a run is due; a run by hand.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "schedule")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	like := s.newBackup("", db.database("orders")).snapshotting(db.claim())
	d := s.newSchedule("orders", like)
	d.Spec.Retention.KeepLast = 2
	s.create(d.BackupSchedule)

	first := d.awaitSuccess()
	_, key := splitURL(t, first.Status.URL)
	folder := key[:strings.LastIndex(key, "/")+1]
	neighbours := []string{key + ".copy", folder + "others.pgdump.zst", folder + "others.pgdump.zst" + manifestSuffix}
	for _, neighbour := range neighbours {
		s.put(neighbour, []byte("somebody else's"))
	}
	second := killedOverASlot(t, d, first)
	third := d.awaitSuccess(first, second)
	awaitGone(t, first.DatabaseBackup)
	s.kept.drop(backupTraces(first.DatabaseBackup)...)
	checkTraces(t, s, first, false)
	for _, neighbour := range neighbours {
		if !objectExists(t, s.bucket, neighbour) {
			t.Errorf("retention deleted %s, which is not the schedule's", neighbour)
		}
	}
	checkArtifact(t, third)

	byHand := runByHand(t, d, third)
	checkRestorable(s, db, byHand, "orders")
	s.remove(d.BackupSchedule)
	if !objectExists(t, s.bucket, keyIn(t, byHand)) {
		t.Error("deleting the schedule deleted a backup")
	}
}

func keyIn(t *testing.T, b *backup) string {
	t.Helper()
	_, key := splitURL(t, b.Status.URL)
	return key
}

// killedOverASlot kills the operator a moment before a run is due, and returns the backup of that run.
func killedOverASlot(t *testing.T, d *schedule, first *backup) *backup {
	t.Helper()
	d.await("a run is to come", func(now *v1alpha1.BackupSchedule) (bool, error) {
		return now.Status.NextScheduleTime != nil && time.Until(now.Status.NextScheduleTime.Time) > 2*time.Second, nil
	})
	slot := d.Status.NextScheduleTime.Time
	await(t, "the moment before "+slot.String(), 90*time.Second, func(context.Context) (bool, string) {
		return time.Until(slot) < time.Second, ""
	})
	killManager(t)
	second := d.awaitSuccess(first)
	made := slices.DeleteFunc(d.backups(), func(b *backup) bool {
		return b.Annotations[v1alpha1.AnnotationSlot] != slot.UTC().Format(time.RFC3339)
	})
	if len(made) != 1 {
		t.Errorf("for the run of %s there are %d backups, want 1", slot, len(made))
	}
	return second
}

// runByHand asks for a run of the schedule while it is suspended.
func runByHand(t *testing.T, d *schedule, last *backup) *backup {
	t.Helper()
	d.edit(func(now *v1alpha1.BackupSchedule) {
		now.Spec.Suspend = new(true)
		now.Annotations = map[string]string{v1alpha1.AnnotationRunNow: "by hand: $(id) '1'"}
	})
	d.await("the run by hand is Ready and nothing is at work", func(now *v1alpha1.BackupSchedule) (bool, error) {
		suspended := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
		return now.Status.LastRunNow != "" && len(now.Status.Active) == 0 && suspended.Reason == v1alpha1.ReasonSuspended &&
			now.Status.LastSuccessfulURL != last.Status.URL && strings.Contains(now.Status.LastSuccessfulURL, "/orders-run-"), nil
	})
	if d.Status.NextScheduleTime != nil {
		t.Errorf("a suspended schedule says that its next run starts at %s", d.Status.NextScheduleTime)
	}
	shown, err := kubectl(t.Context(), nil, "get", "dbs", "--namespace", d.space.namespace, "orders")
	for _, column := range []string{"* * * * *", "Europe/Paris", "true", v1alpha1.ReasonSuspended} {
		if err != nil || !strings.Contains(string(shown), column) {
			t.Errorf("kubectl get dbs does not show %q (%v):\n%s", column, err, shown)
		}
	}
	return d.awaitSuccess(last)
}

//go:build e2e

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestManagerKilledInEveryStage kills the operator, without grace, in each stage of a backup and of a restore, and
// while a backup is deleted. The end must be the one that it would have been.
func TestManagerKilledInEveryStage(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "killed")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept")+slowToRestore(3))
	whole := db.fingerprint("orders")
	b := backupWithKills(t, s, db)
	checkArtifact(t, b)
	readySnapshot(t, b, db.claim())

	db.sql("orders", "DELETE FROM notes WHERE id > 7")
	before := db.databases()
	restoreWithKills(t, s, db, b)
	mustEqual(t, "the database restored by operators that were killed", db.fingerprint("orders"), whole)
	if after := db.databases(); !slices.Equal(after, before) {
		t.Errorf("the server had the databases %q before the restore and has %q after it", before, after)
	}

	if err := env.kube.Delete(t.Context(), b.DatabaseBackup); err != nil {
		t.Fatal(err)
	}
	killManager(t)
	awaitGone(t, b.DatabaseBackup)
	s.kept.drop(backupTraces(b.DatabaseBackup)...)
}

// backupWithKills holds the dump with a lock, and the snapshot with a class that fails at first, so that each stage
// lasts beyond the kill.
func backupWithKills(t *testing.T, s *space, db *postgres) *backup {
	t.Helper()
	release := db.hold("orders", "notes")
	b := s.newBackup("orders", db.database("orders")).snapshotting(db.claim()).withClass("csi-btrfs-fail-twice").deleting().create()
	b.awaitStage(v1alpha1.ReasonPending)
	killManager(t)
	b.awaitStage(v1alpha1.ReasonDumping)
	db.awaitDumpWaits()
	killManager(t)
	release()
	for _, stage := range []string{v1alpha1.ReasonSnapshotting, v1alpha1.ReasonUploading} {
		b.awaitStage(stage)
		killManager(t)
	}
	return b.awaitReady()
}

func restoreWithKills(t *testing.T, s *space, db *postgres, b *backup) {
	t.Helper()
	r := s.newRestore("orders", b.Status.URL, db.database("orders")).create()
	for _, stage := range []string{
		v1alpha1.ReasonInspecting, v1alpha1.ReasonTakingSafety, v1alpha1.ReasonFetching, v1alpha1.ReasonRestoring,
	} {
		r.awaitStage(stage)
		killManager(t)
	}
	r.awaitReady()
	r.safetyBackup()
}

// TestDumpPodLost shows that a dump whose pod is deleted starts again, and that an eviction, which is nobody's
// failure, does not even count as a try.
func TestDumpPodLost(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pod-lost")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	t.Run("group", func(t *testing.T) {
		for name, lose := range map[string]struct {
			attempts int32
			pod      func(*testing.T, *corev1.Pod)
		}{"deleted": {2, deletePod}, "evicted": {0, evictPod}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mine, server := s.forSubtest(t), db.forSubtest(t)
				server.newDatabase(name, small("kept"))
				release := server.hold(name, "notes")
				b := mine.newBackup(name, server.database(name)).attempts(lose.attempts).create()
				first := mine.awaitAgent(b, "dump")
				lose.pod(t, first)
				awaitGone(t, first)
				release()
				b.awaitReady()
				checkRestorable(mine, server, b, name)
			})
		}
	})
}

// TestUploadPodKilled kills an agent, without grace, in the midst of an upload. The next one must not leave the parts
// of the first behind: the space's last check finds them.
func TestUploadPodKilled(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "upload-killed")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", incompressible("64"))
	b := s.newBackup("orders", db.database("orders")).edit(onLittleOfACore).create()
	s.awaitHalfUpload()
	deletePod(t, s.awaitAgent(b, "upload"))
	b.awaitReady()
	checkRestorable(s, db, b, "orders")
}

// TestLoadPodKilled kills an agent, without grace, in the midst of a load. What it left in the server must not be in
// the way of the next one, nor stay.
func TestLoadPodKilled(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "load-killed")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept")+slowToRestore(8))
	whole, before := db.fingerprint("orders"), db.databases()
	b := s.newBackup("orders", db.database("orders")).create().awaitReady()
	db.sql("orders", "DROP TABLE notes")
	r := s.newRestore("orders", b.Status.URL, db.database("orders")).create()
	r.awaitStage(v1alpha1.ReasonRestoring)
	db.awaitLoad()
	deletePod(t, s.awaitAgent(r, "load"))
	r.awaitReady()
	mustEqual(t, "the database", db.fingerprint("orders"), whole)
	db.awaitDatabases(before)
}

func deletePod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := env.kube.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

func evictPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	err := env.sets.CoreV1().Pods(pod.Namespace).EvictV1(t.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(5))},
	})
	if err != nil {
		t.Fatalf("the pod %s cannot be evicted: %v", pod.Name, err)
	}
}

// checkRestorable restores a backup under another name and compares.
func checkRestorable(s *space, db *postgres, b *backup, database string) {
	s.t.Helper()
	s.newRestore(b.Name+"-check", b.Status.URL, db.database(database+"-check")).create().awaitReady()
	mustEqual(s.t, "the restored "+database, db.fingerprint(database+"-check"), db.fingerprint(database))
}

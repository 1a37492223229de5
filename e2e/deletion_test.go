//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestDeletionPolicy shows that Retain keeps what a backup made, that Delete removes it, and that neither touches what
// others have beside it.
func TestDeletionPolicy(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "policy")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	retained := s.newBackup("retained", db.database("orders")).snapshotting(db.claim()).create().awaitReady()
	doomed := s.newBackup("doomed", db.database("orders")).snapshotting(db.claim()).deleting().create().awaitReady()
	_, key := splitURL(t, doomed.Status.URL)
	folder := key[:strings.LastIndex(key, "/")+1]
	for _, neighbour := range []string{key + ".copy", folder + "others.pgdump.zst", folder + "others.pgdump.zst" + manifestSuffix} {
		s.put(neighbour, []byte("somebody else's"))
	}

	s.remove(retained.DatabaseBackup)
	s.remove(doomed.DatabaseBackup)
	s.kept.drop(backupTraces(doomed.DatabaseBackup)...)
	for _, backup := range []*backup{retained, doomed} {
		checkTraces(t, s, backup, backup == retained)
	}
	for _, neighbour := range []string{key + ".copy", folder + "others.pgdump.zst", folder + "others.pgdump.zst" + manifestSuffix} {
		if !objectExists(t, s.bucket, neighbour) {
			t.Errorf("deleting a backup deleted %s, which is not its own", neighbour)
		}
	}
	checkRestorable(s, db, retained, "orders")
}

// checkTraces says whether the artifact, the manifest and the snapshot of a deleted backup are there, or are not.
func checkTraces(t *testing.T, s *space, b *backup, want bool) {
	t.Helper()
	_, key := splitURL(t, b.Status.URL)
	for _, name := range []string{key, key + manifestSuffix} {
		if got := objectExists(t, s.bucket, name); got != want {
			t.Errorf("after the deletion of %s, %s is there: %t, want %t", b.Name, name, got, want)
		}
	}
	snapshot := client.ObjectKey{Namespace: s.namespace, Name: b.Status.VolumeSnapshots[0].Name}
	// A snapshot that is deleted goes once its driver has let go of it.
	await(t, fmt.Sprintf("the VolumeSnapshot %s to be there: %t", snapshot.Name, want), time.Minute,
		func(ctx context.Context) (bool, string) {
			err := env.kube.Get(ctx, snapshot, &snapshotv1.VolumeSnapshot{})
			return client.IgnoreNotFound(err) == nil && (err == nil) == want, errorText(err)
		})
}

func objectExists(t *testing.T, bucket, key string) bool {
	t.Helper()
	_, err := env.store.StatObject(t.Context(), bucket, key, minio.StatObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		t.Fatalf("the store does not say whether it has %s/%s: %v", bucket, key, err)
	}
	return err == nil
}

// TestDeletionNeverHangs shows that an artifact that cannot be deleted does not hold its object for ever, and that
// an event names it.
func TestDeletionNeverHangs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "orphan")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	s.secret("going", map[string]string{
		"accessKeyID": env.access.accessKeyID, "secretAccessKey": env.access.secretAccessKey,
	})
	b := s.newBackup("orders", db.database("orders")).edit(withStoreSecret("going")).deleting().attempts(0).create().awaitReady()
	if err := env.kube.Delete(t.Context(), &corev1.Secret{ObjectMeta: s.meta("going")}); err != nil {
		t.Fatal(err)
	}
	s.remove(b.DatabaseBackup)
	_, key := splitURL(t, b.Status.URL)
	await(t, "an event that names the artifact left behind", time.Minute, func(ctx context.Context) (bool, string) {
		var events corev1.EventList
		err := env.kube.List(ctx, &events, client.InNamespace(s.namespace))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == v1alpha1.ReasonArtifactLeftBehind && strings.Contains(e.Message, key)
		}), "none: " + errorText(err)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCancelBackup deletes a backup in each of its stages. The space's own last check finds whatever stays: a Job, a
// claim, a snapshot, an object or a half upload.
func TestCancelBackup(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "cancel")
	db := s.startPostgres("orders-db")
	db.newDatabase("large", incompressible("64"))
	stages := map[string]func(*space, *postgres) *backup{
		"dumping": cancelDumping, "snapshotting": cancelSnapshotting, "uploading": cancelUploading,
	}
	t.Run("group", func(t *testing.T) {
		for name, reach := range stages {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mine, server := s.forSubtest(t), db.forSubtest(t)
				b := reach(mine, server)
				began := time.Now()
				mine.remove(b.DatabaseBackup)
				within(t, "cancelling", time.Since(began), 2*time.Minute)
				mine.awaitNothingOf(b)
			})
		}
	})
	await(t, "no session of a cancelled backup", patience, func(context.Context) (bool, string) {
		n := db.sql("postgres", `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump'`)
		return n == "0", n
	})
}

func cancelDumping(s *space, db *postgres) *backup {
	db.newDatabase("held", small("kept"))
	s.t.Cleanup(db.hold("held", "notes"))
	b := s.newBackup("dumping", db.database("held")).create()
	s.awaitAgent(b, "dump")
	db.awaitDumpWaits()
	return b
}

func cancelSnapshotting(s *space, db *postgres) *backup {
	db.newDatabase("quick", small("kept"))
	b := s.newBackup("snapshotting", db.database("quick")).snapshotting(db.claim()).withClass("csi-btrfs-never-ready").create()
	b.awaitStage(v1alpha1.ReasonSnapshotting)
	await(s.t, "a VolumeSnapshot", patience, func(ctx context.Context) (bool, string) {
		var snapshots snapshotv1.VolumeSnapshotList
		err := env.kube.List(ctx, &snapshots, client.InNamespace(s.namespace), ownedBy(b))
		return len(snapshots.Items) > 0, errorText(err)
	})
	return b
}

func cancelUploading(s *space, db *postgres) *backup {
	b := s.newBackup("uploading", db.database("large")).edit(onLittleOfACore).create()
	s.awaitHalfUpload()
	return b
}

// onLittleOfACore gives the agents so little of a core that an upload is under way for a while.
func onLittleOfACore(spec *v1alpha1.DatabaseBackupSpec) {
	spec.PodTemplate.Resources = corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
}

// awaitHalfUpload waits until an upload of an artifact to the bucket has begun and not ended. The one with which the store
// is asked before the dump has a key without an extension.
func (s *space) awaitHalfUpload() {
	s.t.Helper()
	await(s.t, "a multipart upload under way", patience, func(ctx context.Context) (bool, string) {
		halves, err := halfUploads(ctx, s.bucket)
		return slices.ContainsFunc(halves, func(key string) bool { return strings.Contains(key, ".pgdump") }), errorText(err)
	})
}

func ownedBy(b *backup) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelOwnerUID: string(b.UID)}
}

// awaitNothingOf waits until nothing bears the label of a deleted backup.
func (s *space) awaitNothingOf(b *backup) {
	s.t.Helper()
	await(s.t, "nothing of "+b.Name+" to be left", 2*time.Minute, func(ctx context.Context) (bool, string) {
		left, err := namesOf(ctx, s.namespace, ownedBy(b))
		return err == nil && len(left) == 0, strings.Join(left, ", ") + errorText(err)
	})
}

// TestCancelRestore deletes a restore while its safety backup is taken, and while it loads. The database must be what
// it was, and no other one stay beside it.
func TestCancelRestore(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "cancel-restore")
	db := s.startPostgres("orders-db")
	db.newDatabase("source", small("new")+slowToRestore(8))
	db.newDatabase("orders", small("kept"))
	whole, before := db.fingerprint("orders"), db.databases()
	b := s.newBackup("source", db.database("source")).create().awaitReady()

	release := db.hold("orders", "notes")
	early := s.newRestore("early", b.Status.URL, db.database("orders")).create()
	early.awaitStage(v1alpha1.ReasonTakingSafety)
	db.awaitDumpWaits()
	s.remove(early.DatabaseRestore)
	release()
	db.awaitDatabases(before)

	late := s.newRestore("late", b.Status.URL, db.database("orders")).create()
	late.awaitStage(v1alpha1.ReasonRestoring)
	late.safetyBackup()
	db.awaitLoad()
	s.remove(late.DatabaseRestore)
	db.awaitDatabases(before)
	mustEqual(t, "the database whose restore was cancelled", db.fingerprint("orders"), whole)
}

// TestNamespaceDeleted deletes a namespace during a backup. It must go, and what is retained must stay in the store.
func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "namespace")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	db.newDatabase("held", small("kept"))
	retained := s.newBackup("retained", db.database("orders")).snapshotting().create().awaitReady()
	s.newBackup("doomed", db.database("orders")).deleting().create().awaitReady()
	db.hold("held", "notes")
	running := s.newBackup("running", db.database("held")).create()
	s.awaitAgent(running, "dump")

	s.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	if _, key := splitURL(t, retained.Status.URL); !objectExists(t, s.bucket, key) || !objectExists(t, s.bucket, key+manifestSuffix) {
		t.Error("deleting the namespace deleted an artifact that is to be retained")
	}
}

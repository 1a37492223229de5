//go:build e2e

package e2e

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// awkwardDatabase is a name that breaks whoever builds a connection string, an SQL statement or a key of it.
const awkwardDatabase = `Orders "2026" é/=%`

// longName is a name of as many characters as Kubernetes allows.
func longName(begin string) string {
	name := begin + strings.Repeat(".of-the-shop-in-the-high-street", 9)
	return name[:251] + "-x"
}

// TestBackupDamageRestore is the main job, whole: a backup, what the store and the snapshot hold of it, a damage, a
// restore by URL, and the way back that the restore took first.
func TestBackupDamageRestore(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "roundtrip")
	db := s.startPostgres("orders-db")
	db.newDatabase(awkwardDatabase, shopSQL)
	whole := db.fingerprint(awkwardDatabase)

	b := s.newBackup(longName("orders"), db.database(awkwardDatabase)).snapshotting(db.claim()).create().awaitReady()
	checkArtifact(t, b)
	checkSnapshotBoots(t, b, db, whole)

	db.sql(awkwardDatabase, damageSQL)
	damaged := db.fingerprint(awkwardDatabase)
	if difference(damaged, whole) == "" {
		t.Fatal("the damage does not show in the fingerprint, which proves nothing then")
	}
	before := db.databases()
	r := s.newRestore(longName("orders-again"), b.Status.URL, db.database(awkwardDatabase)).create().awaitReady()
	mustEqual(t, "the restored database", db.fingerprint(awkwardDatabase), whole)
	if after := db.databases(); !slices.Equal(before, after) {
		t.Errorf("the server had the databases %q before the restore and has %q after it", before, after)
	}
	checkWayBack(t, r, db, damaged)
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkArtifact compares what an independent client finds at the URL with what the status says.
func checkArtifact(t *testing.T, b *backup) {
	t.Helper()
	for _, condition := range []string{v1alpha1.ConditionDumped, v1alpha1.ConditionSnapshotted, v1alpha1.ConditionUploaded} {
		if !meta.IsStatusConditionTrue(b.Status.Conditions, condition) {
			t.Errorf("the backup is Ready, but its condition %s is not True", condition)
		}
	}
	bucket, key := splitURL(t, b.Status.URL)
	if bucket != b.space.bucket || !strings.HasPrefix(key, "prod/"+b.Namespace+"/") {
		t.Errorf("the artifact lies at %s/%s, want the bucket %s and the prefix prod/%s/", bucket, key, b.space.bucket, b.Namespace)
	}
	artifact := b.Status.Artifact
	if artifact == nil || !sha256Form.MatchString(artifact.SHA256) || artifact.UncompressedBytes < artifact.SizeBytes {
		t.Fatalf("status.artifact is not filled: %+v", artifact)
	}
	found := readObject(t, bucket, key)
	if int64(len(found.bytes)) != artifact.SizeBytes || found.sha256 != artifact.SHA256 {
		t.Errorf("the store holds %d bytes with the SHA-256 %s, the status says %d and %s",
			len(found.bytes), found.sha256, artifact.SizeBytes, artifact.SHA256)
	}
	checkManifest(t, b, readManifest(t, bucket, key), key)
	checkTimes(t, b)
}

func checkManifest(t *testing.T, b *backup, m manifest, key string) {
	t.Helper()
	artifact := b.Status.Artifact
	if m.Key != key || m.SizeBytes != artifact.SizeBytes || m.SHA256 != artifact.SHA256 || m.Format != artifact.Format {
		t.Errorf("the manifest %+v does not agree with the status %+v and the key %s", m, artifact, key)
	}
	if m.Object.UID != string(b.UID) || m.Object.Name != b.Name || m.Object.Namespace != b.Namespace {
		t.Errorf("the manifest names the object %+v, want %s/%s with the UID %s", m.Object, b.Namespace, b.Name, b.UID)
	}
	if len(m.Databases) != 1 || m.Databases[0] != string(b.Spec.Database.Names[0]) || m.Engine != string(b.Spec.Database.Engine) {
		t.Errorf("the manifest names the engine %q and the databases %q, want %s and %q", m.Engine, m.Databases, b.Spec.Database.Engine, b.Spec.Database.Names)
	}
	if len(m.Snapshots) != len(b.Status.VolumeSnapshots) || m.Snapshots[0].Name != b.Status.VolumeSnapshots[0].Name {
		t.Errorf("the manifest names the snapshots %+v, the status %+v", m.Snapshots, b.Status.VolumeSnapshots)
	}
}

func checkTimes(t *testing.T, b *backup) {
	t.Helper()
	if b.Status.StartTime == nil || b.Status.CompletionTime.Before(b.Status.StartTime) {
		t.Errorf("the backup began at %v and ended at %v", b.Status.StartTime, b.Status.CompletionTime)
	}
	if b.Status.ObservedGeneration != b.Generation {
		t.Errorf("status.observedGeneration is %d, the generation is %d", b.Status.ObservedGeneration, b.Generation)
	}
}

// checkSnapshotBoots starts a PostgreSQL on a claim made from the backup's snapshot.
func checkSnapshotBoots(t *testing.T, b *backup, db *postgres, want fingerprint) {
	t.Helper()
	booted := b.space.bootSnapshot(readySnapshot(t, b, db.claim()), db.name)
	got := booted.fingerprint(string(b.Spec.Database.Names[0]))
	mustEqual(t, "the database on the snapshot", afterCrash(got), afterCrash(want))
}

// afterCrash leaves out what PostgreSQL itself does not bring through a crash, which a snapshot looks like to it: an
// unlogged table is emptied, and a sequence may skip numbers.
func afterCrash(f fingerprint) fingerprint {
	return slices.DeleteFunc(f.without("sequence"), func(line string) bool {
		return strings.HasPrefix(line, "rows|public.cache|")
	})
}

// readySnapshot is the name of the backup's snapshot of a claim, after a look at it.
func readySnapshot(t *testing.T, b *backup, claim string) string {
	t.Helper()
	if len(b.Status.VolumeSnapshots) != 1 {
		t.Fatalf("status.volumeSnapshots has %d entries, want 1: %+v", len(b.Status.VolumeSnapshots), b.Status.VolumeSnapshots)
	}
	said := b.Status.VolumeSnapshots[0]
	var snapshot snapshotv1.VolumeSnapshot
	if err := env.kube.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: said.Name}, &snapshot); err != nil {
		t.Fatalf("the snapshot of the status cannot be read: %v", err)
	}
	if snapshot.Status == nil || !ptr.Deref(snapshot.Status.ReadyToUse, false) {
		t.Fatalf("the VolumeSnapshot %s is not readyToUse: %+v", said.Name, snapshot.Status)
	}
	if said.Claim != claim || ptr.Deref(snapshot.Spec.Source.PersistentVolumeClaimName, "") != claim {
		t.Errorf("the snapshot is of %v and said to be of %s, want %s", snapshot.Spec.Source.PersistentVolumeClaimName, said.Claim, claim)
	}
	if said.SnapshotHandle == "" || said.CreationTime == nil || said.RestoreSize == nil {
		raw, _ := json.Marshal(said)
		t.Errorf("status.volumeSnapshots lacks something: %s", raw)
	}
	return said.Name
}

// checkWayBack restores the safety artifact, under another name, and finds the damaged state in it.
func checkWayBack(t *testing.T, r *restore, db *postgres, damaged fingerprint) {
	t.Helper()
	safety := r.safetyBackup()
	if r.Status.URL == "" || r.Status.URL != safety.Status.URL {
		t.Fatalf("the restore's status.url is %q, its safety backup's is %q", r.Status.URL, safety.Status.URL)
	}
	back := r.space.newRestore("way-back", r.Status.URL, db.database("damaged copy")).create().awaitReady()
	mustEqual(t, "the safety artifact, restored,", db.fingerprint("damaged copy"), damaged)

	taken := meta.FindStatusCondition(back.Status.Conditions, v1alpha1.ConditionSafetyBackupTaken)
	if taken.Reason != v1alpha1.ReasonNothingToBackUp {
		t.Errorf("SafetyBackupTaken has the reason %s, want %s, as there was no such database", taken.Reason, v1alpha1.ReasonNothingToBackUp)
	}
}

// TestRestoreFromBareURL restores in a place that never saw the backup: other namespace, other server, and the
// object of the backup deleted.
func TestRestoreFromBareURL(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "bare-url")
	db := s.startPostgres("old")
	db.newDatabase("orders", shopSQL)
	whole := db.fingerprint("orders")
	b := s.newBackup("orders", db.database("orders")).create().awaitReady()
	url := b.Status.URL
	s.remove(b.DatabaseBackup)

	other := newSpace(t, "bare-url-new")
	fresh := other.startPostgres("new")
	lacking := other.newRestore("without-roles", url, fresh.database()).attempts(0).create().
		awaitStalled(v1alpha1.ReasonRestoreFailed, "RoleMissing")
	wantMessage(t, lacking, "Fraud Team")
	if slices.Contains(fresh.databases(), "orders") {
		t.Error("a restore that failed left a database behind")
	}

	fresh.sql("postgres", `CREATE ROLE "Fraud Team"; CREATE ROLE shop_reader; CREATE ROLE "o'hara; DROP ROLE shop_reader";`)
	r := other.newRestore("with-roles", url, fresh.database()).create().awaitReady()
	mustEqual(t, "the database restored from the bare URL", fresh.fingerprint("orders"), whole)
	if r.Status.Source == nil || r.Status.Source.URL != url || r.Status.Source.SHA256 != b.Status.Artifact.SHA256 {
		t.Errorf("status.source is %+v, want %s with %s", r.Status.Source, url, b.Status.Artifact.SHA256)
	}
}

// TestRestoreWithoutOwnership restores into a server that lacks the dump's roles.
func TestRestoreWithoutOwnership(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "no-owner")
	old, fresh := s.startPostgres("old"), s.startPostgres("new")
	old.newDatabase("orders", shopSQL)
	// A policy names its roles whatever the options say.
	old.sql("orders", `DROP POLICY "only paid" ON sales.orders`)
	whole := old.fingerprint("orders")
	s.newBackup("orders", old.database("orders")).create().awaitReady()

	s.newRestore("orders", "", fresh.database("orders")).edit(func(spec *v1alpha1.DatabaseRestoreSpec) {
		spec.Source = v1alpha1.RestoreSource{BackupRef: v1alpha1.BackupRef{Name: "orders"}}
		spec.Options = v1alpha1.RestoreOptions{Ownership: v1alpha1.ItemOmit, Privileges: v1alpha1.ItemOmit}
	}).create().awaitReady()
	got := fresh.fingerprint("orders")
	mustEqual(t, "the rows", only(got, "rows"), only(whole, "rows"))
	mustEqual(t, "the sequences", only(got, "sequence"), only(whole, "sequence"))
	mustEqual(t, "the extensions", only(got, "extension"), only(whole, "extension"))
	if text := strings.Join(got, "\n"); strings.Contains(text, "Fraud Team") || strings.Contains(text, "shop_reader=") {
		t.Errorf("roles of the old server stand in the restored database:\n%s", text)
	}
}

// only leaves the lines of one kind.
func only(f fingerprint, kind string) fingerprint {
	return slices.DeleteFunc(slices.Clone(f), func(line string) bool { return !strings.HasPrefix(line, kind+"|") })
}

// without leaves the lines of one kind out.
func without(f fingerprint, kind string) fingerprint {
	return slices.DeleteFunc(slices.Clone(f), func(line string) bool { return strings.HasPrefix(line, kind+"|") })
}

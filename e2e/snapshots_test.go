//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// agentUID is the user of Holdfast's Jobs unless the object says otherwise.
const agentUID = 65532

// TestSnapshotFailsAtFirst shows that an error of a snapshot is no failure as long as its time has not run out.
func TestSnapshotFailsAtFirst(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "snapshot-late")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	b := s.newBackup("orders", db.database("orders")).snapshotting(db.claim()).withClass("csi-btrfs-fail-twice").create().awaitReady()
	readySnapshot(t, b, db.claim())
}

// TestSnapshotNeverReady shows that a snapshot that is never ready ends the backup at readyTimeout.
func TestSnapshotNeverReady(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "snapshot-never")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	b := s.newBackup("orders", db.database("orders")).snapshotting(db.claim()).withClass("csi-btrfs-never-ready").
		edit(func(spec *v1alpha1.DatabaseBackupSpec) {
			spec.VolumeSnapshot.ReadyTimeout = &metav1.Duration{Duration: 20 * time.Second}
		}).create()
	stalled := b.awaitStalled(v1alpha1.ReasonSnapshotFailed, v1alpha1.ReasonSnapshotNotReady)
	wantMessage(t, stalled, db.claim(), "readyTimeout", "20s")
	checkFailedBackup(t, b)
}

// TestSnapshotOfStaging shows that where no claims are named, the snapshot holds the artifact.
func TestSnapshotOfStaging(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "snapshot-staging")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	b := s.newBackup("orders", db.database("orders")).snapshotting().create().awaitReady()
	name := readySnapshot(t, b, b.Status.VolumeSnapshots[0].Claim)

	sums := s.sumsOnSnapshot(name)
	if !strings.Contains(sums, b.Status.Artifact.SHA256) {
		t.Errorf("no file on the snapshot of the staging claim has the artifact's SHA-256 %s:\n%s", b.Status.Artifact.SHA256, sums)
	}
}

// sumsOnSnapshot makes a claim from a snapshot and returns the SHA-256 of each file on it.
func (s *space) sumsOnSnapshot(snapshot string) string {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: s.meta("look"), Spec: claimSpec("1Gi")}
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot,
	}
	s.create(claim)
	set := s.setWithoutClaim(postgresKind, "look", "s3")
	spec := set.Spec.Template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "look", ReadOnly: true},
	}}}
	look := &spec.Containers[0]
	look.Args = []string{"find", "/look", "-type", "f", "-exec", "sha256sum", "{}", "+"}
	look.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/look", ReadOnly: true}}
	look.ReadinessProbe = nil
	// The agent's files are its user's own.
	spec.SecurityContext.RunAsUser, spec.SecurityContext.FSGroup = ptr.To(int64(agentUID)), ptr.To(int64(agentUID))
	s.create(&corev1.Pod{ObjectMeta: s.meta("look"), Spec: spec})
	await(s.t, "the sums of the files on the snapshot", patience, func(ctx context.Context) (bool, string) {
		var pod corev1.Pod
		err := env.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "look"}, &pod)
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
			string(pod.Status.Phase) + containerStates(&pod) + errorText(err)
	})
	log, err := env.sets.CoreV1().Pods(s.namespace).GetLogs("look", &corev1.PodLogOptions{}).DoRaw(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(log)
}

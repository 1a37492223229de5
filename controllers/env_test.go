package controllers_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// children are the suffixes of what Holdfast made in the namespace and has not removed.
func (s *server) children() []string {
	s.t.Helper()
	var names []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}} {
		err := s.client.List(s.t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
		if err != nil {
			s.t.Fatal(err)
		}
		switch list := list.(type) {
		case *batchv1.JobList:
			for _, job := range list.Items {
				names = append(names, job.Name)
			}
		case *corev1.PersistentVolumeClaimList:
			for _, claim := range list.Items {
				names = append(names, claim.Name)
			}
		}
	}
	return names
}

func (s *server) isGone(object client.Object) bool {
	s.t.Helper()
	err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

func TestServerBackupAndRestoreWhole(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	backup := testutil.Backup(testutil.LongName()).In(s.namespace).Claims(dataClaim).Policy(v1alpha1.DeletionDelete).Build()
	s.create(backup)
	checkKstatus(t, backup)
	s.start()
	s.await("the backup is Ready", func() bool { return s.hasReason(backup, v1alpha1.ReasonSucceeded) })
	if backup.Status.URL == "" || len(backup.Status.VolumeSnapshots) != 1 || backup.Status.Artifact.SHA256 != testutil.Artifact().SHA256 {
		t.Errorf("status is %+v", backup.Status)
	}

	restore := testutil.Restore(testutil.LongName()).In(s.namespace).FromBackup(backup.Name).Build()
	s.create(restore)
	checkKstatus(t, restore)
	s.await("the restore is Ready", func() bool { return s.hasReason(restore, v1alpha1.ReasonSucceeded) })
	if restore.Status.URL == "" || restore.Status.Source.URL != backup.Status.URL {
		t.Errorf("status is %+v", restore.Status)
	}
	s.await("nothing is left of the work", func() bool { return len(s.children()) == 0 })

	for _, object := range []client.Object{restore, backup} {
		if err := s.client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.await("both are gone", func() bool { return s.isGone(backup) && s.isGone(restore) })
	s.await("nothing is left of the deletion", func() bool { return len(s.children()) == 0 })
}

func TestServerFailureIsReadAsOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.cluster.Answer = fail(contract.VerbDump, "AuthenticationFailed", "wrong password")
	s.start()
	backup := testutil.Backup("orders").In(s.namespace).Build()
	s.create(backup)
	s.await("it failed", func() bool { return s.hasReason(backup, v1alpha1.ReasonDumpFailed) })
	if got := flow.ReasonOf(backup, v1alpha1.ConditionStalled); got != "AuthenticationFailed" {
		t.Errorf("it stalled for %s", got)
	}
	s.await("nothing is left of it", func() bool { return len(s.children()) == 0 })
}

func TestServerForeignJobIsNotAdopted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	backup := testutil.Backup("orders").In(s.namespace).Build()
	s.create(backup)
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobs.ChildName(backup, "dump")}}
	foreign.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	s.create(foreign)
	s.start()
	s.await("it failed", func() bool { return s.hasReason(backup, v1alpha1.ReasonDumpFailed) })
	if got := flow.ReasonOf(backup, v1alpha1.ConditionStalled); got != v1alpha1.ReasonNameConflict {
		t.Errorf("it stalled for %s, want %s", got, v1alpha1.ReasonNameConflict)
	}
	s.await("nothing of Holdfast's is left", func() bool { return len(s.children()) == 0 })
	if s.get(foreign); len(foreign.OwnerReferences) > 0 || !foreign.DeletionTimestamp.IsZero() {
		t.Errorf("the foreign Job was touched: %v", foreign.ObjectMeta)
	}
}

// stageOf is a stage in which a manager is stopped: the Job that is then at work, or the snapshot that is pending.
type stageOf struct {
	reason string
	hold   contract.Verb
	fate   testutil.SnapshotFate
}

// interrupted leads an object to its end, through a new manager in each of its stages. What the stage waits for comes
// while no manager runs.
func (s *server) interrupted(object client.Object, stages []stageOf) {
	s.t.Helper()
	s.create(object)
	for _, stage := range stages {
		s.cluster.Answer, s.cluster.Snapshot = hold(stage.hold), stage.fate
		m := s.start()
		s.await(stage.reason, func() bool { return s.hasReason(object, stage.reason) })
		m.stop()
	}
	s.cluster.Answer, s.cluster.Snapshot = nil, testutil.SnapshotReady
	s.await("the cluster is done", func() bool { return true })
	s.start()
	s.await("Ready", func() bool { return s.hasReason(object, v1alpha1.ReasonSucceeded) })
	s.await("nothing is left of the work", func() bool { return len(s.children()) == 0 })
}

func TestServerBackupWhoseManagerIsReplacedInEachStage(t *testing.T) {
	t.Parallel()
	newServer(t).backup([]stageOf{
		{reason: v1alpha1.ReasonDumping, hold: contract.VerbDump},
		{reason: v1alpha1.ReasonSnapshotting, fate: testutil.SnapshotPending},
		{reason: v1alpha1.ReasonUploading, hold: contract.VerbUpload},
	})
}

func (s *server) backup(stages []stageOf) {
	s.t.Helper()
	s.interrupted(testutil.Backup("orders").In(s.namespace).Claims(dataClaim).Build(), stages)
}

func TestServerRestoreWhoseManagerIsReplacedInEachStage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.interrupted(testutil.Restore("again").In(s.namespace).Build(), []stageOf{
		{reason: v1alpha1.ReasonInspecting, hold: contract.VerbInspect},
		{reason: v1alpha1.ReasonTakingSafety, hold: contract.VerbDump},
		{reason: v1alpha1.ReasonFetching, hold: contract.VerbFetch},
		{reason: v1alpha1.ReasonRestoring, hold: contract.VerbLoad},
	})
}

func TestServerOneOfTwoManagersLeads(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.cluster.Answer = hold(contract.VerbUpload)
	first := s.start()
	backup := testutil.Backup("orders").In(s.namespace).Build()
	s.create(backup)
	s.await("the first leads", func() bool { return s.hasReason(backup, v1alpha1.ReasonDumping) || first.requests.count() > 0 })
	second := s.start()
	s.await("the upload begins", func() bool { return s.hasReason(backup, v1alpha1.ReasonUploading) })
	if wrote := second.requests.count(); wrote > 0 {
		t.Errorf("the second wrote %d times, though the first leads", wrote)
	}
	first.stop()
	s.cluster.Answer = nil
	s.await("the second finishes it", func() bool { return s.hasReason(backup, v1alpha1.ReasonSucceeded) })
	if second.requests.count() == 0 {
		t.Error("nobody wrote")
	}
}

func TestServerHearsNothingMoreAboutWhatEnded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.start()
	ready, failed := testutil.Backup("ready").In(s.namespace).Build(), testutil.Backup("failed").In(s.namespace).Claims("gone").Build()
	s.create(ready, failed)
	s.await("both ended", func() bool {
		return s.hasReason(ready, v1alpha1.ReasonSucceeded) && s.hasReason(failed, v1alpha1.ReasonPreflightFailed)
	})
	s.await("both are tidied up", func() bool { return len(s.children()) == 0 })
	m.stop()
	versions := ready.ResourceVersion + failed.ResourceVersion

	m = s.start()
	marker := testutil.Backup("marker").In(s.namespace).Build()
	s.create(marker)
	s.await("the new manager has looked at all there is", func() bool { return s.hasReason(marker, v1alpha1.ReasonSucceeded) })
	for _, object := range []client.Object{ready, failed} {
		if wrote := m.requests.about("/" + object.GetName()); len(wrote) > 0 {
			t.Errorf("the manager still writes about %s: %v", object.GetName(), wrote)
		}
		s.get(object)
	}
	if ready.ResourceVersion+failed.ResourceVersion != versions {
		t.Error("the objects changed")
	}
}

func TestServerLetsABackupGoWithItsNamespace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.start()
	backup := testutil.Backup("orders").In(s.namespace).Policy(v1alpha1.DeletionDelete).Build()
	s.create(backup)
	s.await("Ready", func() bool { return s.hasReason(backup, v1alpha1.ReasonSucceeded) })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	for _, object := range []client.Object{namespace, backup} {
		if err := s.client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.await("it is gone", func() bool { return s.isGone(backup) })
}

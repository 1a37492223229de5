package controllers_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func TestServerRemovalIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	backup := testutil.Backup("orders").In(s.namespace).Policy(v1alpha1.DeletionDelete).With(func(b *v1alpha1.DatabaseBackup) {
		b.Annotations = map[string]string{v1alpha1.AnnotationExpired: "true"}
	}).Build()
	s.create(backup)
	s.start()
	s.await("Ready", func() bool { return s.hasReason(backup, v1alpha1.ReasonSucceeded) })
	s.cluster.Answer = fail(contract.VerbDelete, contract.ReasonStoreCredentials, "the store rejects the credentials")
	if err := s.client.Delete(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	s.await("it says why it is still there", func() bool {
		s.get(backup)
		checkKstatus(t, backup)
		for _, condition := range backup.Status.Conditions {
			if condition.Type == v1alpha1.ConditionReady && strings.Contains(condition.Message, "rejects the credentials. It is tried again at ") {
				return condition.Status == metav1.ConditionTrue
			}
		}
		return false
	})
	s.cluster.Answer = nil
	// Who does not want to wait until then deletes the Job that failed.
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobs.ChildName(backup, string(contract.VerbDelete))}}
	if err := s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.await("it is gone", func() bool { return s.isGone(backup) })
	s.await("nothing is left of the deletion", func() bool { return len(s.children()) == 0 })
}

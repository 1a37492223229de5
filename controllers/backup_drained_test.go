package controllers_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// drain ends the pod that runs as a drain of its node does.
func (w *world) drain() *corev1.Pod {
	w.t.Helper()
	pods := slices.DeleteFunc(w.list(&corev1.PodList{}), func(o client.Object) bool { return o.(*corev1.Pod).Status.Phase != corev1.PodRunning })
	if len(pods) != 1 {
		w.t.Fatalf("%d pods run, want 1", len(pods))
	}
	pod := pods[0].(*corev1.Pod)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: jobs.ContainerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"},
	}}}
	if err := w.server.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func TestBackupWhosePodIsDrainedLongAfterItsStartGoesOn(t *testing.T) {
	w := newWorld(parallel(t), testutil.Backup("orders").NoSnapshots().Build())
	w.cluster.Answer = hold(contract.VerbDump)
	w.settle("the dump begins", func() bool {
		return flow.ReasonOf(w.backup("orders"), v1alpha1.ConditionReady) == v1alpha1.ReasonDumping
	})
	w.running()
	w.round()
	w.clock.Advance(2 * startTimeout)
	drained := w.drain()
	w.round()
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDumping, "at work")
	if err := w.server.Delete(t.Context(), drained); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the Job controller takes its time to make another pod
		w.round()
		w.clock.Advance(time.Minute)
	}
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDumping, "no pod at the moment")
	if made := w.created["v1.Job "+jobs.ChildName(w.backup("orders"), "dump")]; made != 1 {
		t.Errorf("the dump Job was made %d times: it is for the Job controller to make another pod", made)
	}
	w.cluster.Answer = nil
	w.settle("an end", func() bool { return flow.Ended(w.backup("orders")) })
	w.expect(w.backup("orders"), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

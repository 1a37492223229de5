//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func getDeployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	var deployment appsv1.Deployment
	err := env.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &deployment)
	return &deployment, err
}

func podsOf(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("the Deployment %s has no usable selector: %w", deployment.Name, err)
	}
	var pods corev1.PodList
	err = env.kube.List(ctx, &pods, client.InNamespace(deployment.Namespace),
		client.MatchingLabelsSelector{Selector: selector})
	return pods.Items, err
}

func managerPods(ctx context.Context) ([]corev1.Pod, error) {
	deployment, err := getDeployment(ctx, operatorNamespace, operatorDeployment)
	if err != nil {
		return nil, err
	}
	return podsOf(ctx, deployment)
}

// kills are when the operator was killed. An event is told after the status was written, so one may be lost then.
var kills struct {
	sync.Mutex
	at []time.Time
}

func noteKill() {
	kills.Lock()
	defer kills.Unlock()
	kills.at = append(kills.at, time.Now())
}

// killedAround says whether the operator was killed within seconds of a moment.
func killedAround(moment time.Time) bool {
	kills.Lock()
	defer kills.Unlock()
	return slices.ContainsFunc(kills.at, func(at time.Time) bool { return at.Sub(moment).Abs() < 5*time.Second })
}

// killManager ends every pod of the operator with no more grace than the kubelet's least. It does not wait for the next
// one, which may be through a stage before it is ready: whoever waits for a stage must look at once.
func killManager(t *testing.T) {
	t.Helper()
	killed, err := managerPods(t.Context())
	if err != nil || len(killed) == 0 {
		t.Fatalf("there is no pod of the operator to kill: %v", err)
	}
	noteKill()
	for i := range killed {
		err := env.kube.Delete(t.Context(), &killed[i], client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			t.Fatalf("the operator's pod %s cannot be killed: %v", killed[i].Name, err)
		}
	}
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setReplicas says how many pods a Deployment has.
func setReplicas(ctx context.Context, namespace, name string, replicas int32) error {
	deployment, err := getDeployment(ctx, namespace, name)
	if err != nil {
		return err
	}
	change := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Replicas = &replicas
	return env.kube.Patch(ctx, deployment, change)
}

// scale sets how many pods a Deployment has, and waits until it is so.
func scale(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	if err := setReplicas(t.Context(), namespace, name, replicas); err != nil {
		t.Fatalf("the Deployment %s/%s cannot be scaled: %v", namespace, name, err)
	}
	await(t, fmt.Sprintf("%d pods of %s/%s", replicas, namespace, name), 2*time.Minute,
		func(ctx context.Context) (bool, string) {
			deployment, err := getDeployment(ctx, namespace, name)
			if err != nil {
				return false, err.Error()
			}
			pods, err := podsOf(ctx, deployment)
			ready := len(slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !podReady(&p) }))
			return err == nil && len(pods) == int(replicas) && ready == int(replicas),
				fmt.Sprintf("%d pods, %d ready, error %v", len(pods), ready, err)
		})
}

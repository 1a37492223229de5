//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestOperatorReadsNoSecret asks the API server, which knows every role, whether the operator may do anything with a
// Secret anywhere.
func TestOperatorReadsNoSecret(t *testing.T) {
	t.Parallel()
	deployment, err := getDeployment(t.Context(), operatorNamespace, operatorDeployment)
	if err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + operatorNamespace + ":" + deployment.Spec.Template.Spec.ServiceAccountName
	mayNot := map[string][]string{
		"secrets":   {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
		"pods/exec": {"create", "get"},
	}
	for resource, verbs := range mayNot {
		for _, namespace := range []string{"", operatorNamespace, "default"} {
			for _, verb := range verbs {
				if may(t, user, verb, resource, namespace) {
					t.Errorf("%s may %s %s in the namespace %q", user, verb, resource, namespace)
				}
			}
		}
	}
	if !may(t, user, "create", "jobs", "default") {
		t.Errorf("%s may not create Jobs: the question was put wrongly, and the other answers prove nothing", user)
	}
}

func may(t *testing.T, user, verb, resource, namespace string) bool {
	t.Helper()
	name, sub, _ := strings.Cut(resource, "/")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: name, Subresource: sub, Namespace: namespace}
	if name == "jobs" {
		attributes.Group = "batch"
	}
	review, err := env.sets.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace, "system:authenticated"}},
	}, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestOperatorPodIsConfined looks at the operator's own pod.
func TestOperatorPodIsConfined(t *testing.T) {
	t.Parallel()
	pods, err := managerPods(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("the operator has no pod: %v", err)
	}
	for _, container := range pods[0].Spec.Containers {
		context := container.SecurityContext
		if context == nil || !ptr.Deref(context.ReadOnlyRootFilesystem, false) || ptr.Deref(context.AllowPrivilegeEscalation, true) {
			t.Errorf("the container %s has not a read-only root, or may gain privileges", container.Name)
		}
		if container.LivenessProbe == nil || container.ReadinessProbe == nil {
			t.Errorf("the container %s lacks a probe", container.Name)
		}
		if container.Resources.Limits.Memory().IsZero() {
			t.Errorf("the container %s has no memory limit", container.Name)
		}
	}
	if security := pods[0].Spec.SecurityContext; security == nil || !ptr.Deref(security.RunAsNonRoot, false) {
		t.Error("the operator's pod may run as root")
	}
}

// TestAgentPodsAreConfined runs a backup and a restore and looks at each pod that did their work. That they ran at all
// shows that they pass the restricted standard, which the namespace enforces; that no Secret's value stood in them, in
// a log or in an event is checked for every space.
func TestAgentPodsAreConfined(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "confined")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	b := s.newBackup("orders", db.database("orders")).create().awaitReady()
	s.newRestore("orders", b.Status.URL, db.database("orders")).create().awaitReady()

	stages := map[string]bool{}
	for name, raw := range s.recorder.everything() {
		if !strings.HasPrefix(name, "pod ") {
			continue
		}
		var pod corev1.Pod
		if err := json.Unmarshal([]byte(raw), &pod); err != nil {
			t.Fatal(err)
		}
		if stage := pod.Labels["holdfast.dev/stage"]; stage != "" {
			stages[stage] = true
			checkAgentPod(t, &pod)
		}
	}
	for _, stage := range []string{"check", "dump", "upload", "inspect", "fetch", "load"} {
		if !stages[stage] {
			t.Errorf("no pod of the stage %s was seen", stage)
		}
	}
}

func checkAgentPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) {
		t.Errorf("the pod %s has a token for the Kubernetes API, which no agent calls", pod.Name)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("the pod %s has the restartPolicy %s", pod.Name, pod.Spec.RestartPolicy)
	}
	if pod.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] != "false" {
		t.Errorf("the pod %s may be moved by an autoscaler in the midst of its work", pod.Name)
	}
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if context := container.SecurityContext; context == nil || !ptr.Deref(context.ReadOnlyRootFilesystem, false) {
			t.Errorf("the container %s of %s has not a read-only root", container.Name, pod.Name)
		}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				t.Errorf("the container %s of %s has a Secret in its environment", container.Name, pod.Name)
			}
		}
		if len(container.EnvFrom) > 0 {
			t.Errorf("the container %s of %s has envFrom", container.Name, pod.Name)
		}
	}
}

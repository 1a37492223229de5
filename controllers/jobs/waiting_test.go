package jobs_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// withTools gives a pod the init container that copies the agent into an image with client tools.
func withTools(p corev1.Pod) corev1.Pod {
	p.Spec.InitContainers = []corev1.Container{{Name: "install-agent"}}
	return p
}

func unschedulableFor(message string) corev1.Pod {
	p := unschedulable(1)
	p.Status.Conditions[0].Message = message
	return p
}

func TestObserveNamesTheFieldsToLookAt(t *testing.T) {
	t.Parallel()
	const tools, agent, pull = "spec.database.image", "--agent-image", "spec.podTemplate.imagePullSecrets"
	mesh := waiting(1, "PodInitializing", "")
	mesh.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh-init", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"},
	}}}
	for name, test := range map[string]struct {
		pod    corev1.Pod
		names  []string
		silent []string
	}{
		"a tools image that is not there":  {withTools(waiting(1, "ErrImagePull", "not found")), []string{tools, "--image", pull}, []string{agent}},
		"a tools image backing off":        {withTools(waiting(1, "ImagePullBackOff", "")), []string{tools, pull}, nil},
		"a tools image of no valid name":   {withTools(waiting(1, "InvalidImageName", "")), []string{tools}, nil},
		"the agent's image at install":     {withTools(initWaiting(1, "ImagePullBackOff")), []string{agent, pull}, []string{tools}},
		"the agent's image without tools":  {waiting(1, "ErrImageNeverPull", ""), []string{agent}, []string{tools}},
		"a user that the image forbids":    {withTools(waiting(1, "CreateContainerConfigError", "root")), []string{"spec.podTemplate.securityContext"}, []string{tools}},
		"a mesh's own image":               {withTools(mesh), nil, []string{"spec.", agent}},
		"no node":                          {unschedulableFor("0/1 nodes are available: 1 Insufficient memory"), []string{"spec.podTemplate", "nodeSelector", "tolerations", "resources"}, []string{"spec.staging"}},
		"no ephemeral storage on any node": {unschedulableFor("0/1 nodes are available: 1 Insufficient ephemeral-storage"), []string{"resources"}, []string{"spec.staging"}},
		"a claim that is not bound":        {unschedulableFor("pod has unbound immediate PersistentVolumeClaims"), []string{"spec.staging.storageClassName"}, nil},
		"a volume on another node":         {unschedulableFor("0/2 nodes are available: 2 node(s) had volume node affinity conflict"), []string{"spec.staging.storageClassName", "spec.podTemplate"}, nil},
		"no room for the volume":           {unschedulableFor("0/2 nodes are available: 2 node(s) did not have enough free storage"), []string{"spec.staging.storageClassName"}, nil},
		"a pod that is coming":             {withTools(waiting(1, "ContainerCreating", "")), nil, []string{"spec.", "--"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := observation{pods: []corev1.Pod{test.pod}}.outcome().Advice
			for _, field := range test.names {
				if !strings.Contains(got, field) {
					t.Errorf("the advice lacks %s: %q", field, got)
				}
			}
			for _, field := range test.silent {
				if strings.Contains(got, field) {
					t.Errorf("the advice names %s, which has nothing to do with it: %q", field, got)
				}
			}
		})
	}
}

func TestRunEndsWithTheFieldsToLookAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.run(t)
	expectWait(t, err, "no pod yet")
	job := b.job(t)
	status := withTools(waiting(1, "ImagePullBackOff", "no such tag.")).Status
	made, err := b.world.Pod(t.Context(), job, "first", status)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.run(t)
	expectWait(t, err, "no such tag. (image postgres:17). Look at spec.database.image")
	b.clock.Advance(startTimeout)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "pull"}, Type: corev1.EventTypeWarning, Reason: "Failed",
		Message: "Failed to pull image", LastTimestamp: metav1.NewTime(b.clock.Now()),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: job.Namespace, Name: made.Name},
	}
	if err := b.server.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	_, err = b.run(t)
	expectStall(t, err, v1alpha1.ReasonPodCannotStart, "The cluster says: Failed to pull image. Look at spec.database.image")
}

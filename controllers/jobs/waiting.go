package jobs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hopeless are waiting reasons of a container that no time will mend.
var hopeless = []string{"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}

// imageTrouble are waiting reasons of a container whose image cannot be had.
var imageTrouble = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
	"RegistryUnavailable", "SignatureValidationFailed",
}

// What to look at, by what keeps a pod from running.
const (
	adviseToolsImage = "Look at spec.database.image (where it is empty, the operator's --image) and at " +
		"spec.podTemplate.imagePullSecrets"
	adviseAgentImage = "Look at the operator's --agent-image, which the nodes must be able to pull, and at " +
		"spec.podTemplate.imagePullSecrets"
	adviseConfig     = "Look at spec.podTemplate.securityContext"
	adviseScheduling = "Look at spec.podTemplate (nodeSelector, tolerations, affinity, resources)"
	adviseVolumes    = "Look at the staging claim (spec.staging.storageClassName and size), and at spec.podTemplate " +
		"(nodeSelector, tolerations, affinity)"
)

// waiting is what keeps a pod from running.
type waiting struct {
	why      string
	advice   string
	hopeless bool
}

// waitingState says what keeps a pod from running, or nil when nothing does.
func waitingState(pod *corev1.Pod) *waiting {
	if pod.Status.Phase != corev1.PodPending {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		state := status.State.Waiting
		if state == nil || state.Reason == "PodInitializing" || state.Reason == "ContainerCreating" {
			continue
		}
		return &waiting{
			why:      fmt.Sprintf("container %s: %s: %s (image %s)", status.Name, state.Reason, state.Message, status.Image),
			advice:   containerAdvice(pod, status.Name, state.Reason),
			hopeless: slices.Contains(hopeless, state.Reason),
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &waiting{why: c.Reason + ": " + c.Message, advice: schedulingAdvice(c.Message)}
		}
	}
	return &waiting{why: "its containers are being created"}
}

// containerAdvice names the fields that decide about a container of ours. Others are a mesh's or a webhook's.
func containerAdvice(pod *corev1.Pod, container, reason string) string {
	ours := container == ContainerName || container == installName
	switch {
	case ours && reason == "CreateContainerConfigError":
		return adviseConfig
	case !ours || !slices.Contains(imageTrouble, reason):
		return ""
	case container == ContainerName && hasTools(pod):
		return adviseToolsImage
	}
	return adviseAgentImage
}

// hasTools says whether the agent of a pod works in an image with client tools, into which it is installed.
func hasTools(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == installName })
}

// schedulingAdvice tells by the scheduler's words whether a pod waits for its staging claim or for a node.
func schedulingAdvice(message string) string {
	lower := strings.ToLower(message)
	if strings.Contains(lower, "volume") || strings.Contains(lower, "free storage") {
		return adviseVolumes
	}
	return adviseScheduling
}

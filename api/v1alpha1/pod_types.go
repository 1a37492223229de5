package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// PodTemplate is what users may say about the pods of every Job that Holdfast makes for an object.
type PodTemplate struct {
	// labels of the pod, beside those of Holdfast, which win.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pod, beside those of Holdfast, which win. A service mesh is kept out with one of its own,
	// for example `sidecar.istio.io/inject: "false"`: a Job whose sidecar never ends does not end either.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// serviceAccountName of the pod, for credentials from the cloud (IRSA, pod identity), which bring a token of
	// their own. The account's token for the Kubernetes API is never mounted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a ServiceAccount holds lower-case letters, digits, - and ."
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// nodeSelector of the pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// resources of the container that does the work. Default: requests of 100m CPU and 128Mi memory, no limits.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// securityContext of the pod. Default: non-root user 65532 with fsGroup 65532, seccomp RuntimeDefault. Fields
	// that are set here win over the default's.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// imagePullSecrets of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// priorityClassName of the pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')`,message="the name of a PriorityClass holds lower-case letters, digits, - and ."
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

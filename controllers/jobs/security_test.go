package jobs_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
)

func TestBuildPassesTheRestrictedPodSecurityStandard(t *testing.T) {
	t.Parallel()
	bare := blueprint()
	bare.ToolsImage, bare.StagingClaim, bare.Secrets = "", "", nil
	own := blueprint()
	own.PodTemplate.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(999)), FSGroup: ptr.To(int64(999))}
	for name, b := range map[string]jobs.Blueprint{"dump": blueprint(), "upload": bare, "user's own numbers": own} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := build(t, b).Spec.Template.Spec
			for _, problem := range restrictedProblems(spec) {
				t.Error(problem)
			}
		})
	}
}

// restrictedProblems checks a pod against the controls of the restricted pod security standard, one by one
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func restrictedProblems(spec corev1.PodSpec) []string {
	var problems []string
	check := func(holds bool, problem string) {
		if !holds {
			problems = append(problems, problem)
		}
	}
	pod := spec.SecurityContext
	check(!spec.HostNetwork && !spec.HostPID && !spec.HostIPC && spec.HostUsers == nil, "the pod shares the host's namespaces")
	check(ptr.Deref(pod.RunAsNonRoot, false), "runAsNonRoot is not true")
	check(ptr.Deref(pod.RunAsUser, 1) != 0, "runAsUser is root")
	check(pod.SeccompProfile != nil && pod.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "seccomp is not RuntimeDefault")
	check(len(pod.Sysctls) == 0 && pod.SELinuxOptions == nil && pod.AppArmorProfile == nil, "sysctls, SELinux or AppArmor are changed")
	for _, volume := range spec.Volumes {
		source := volume.VolumeSource
		check(source.EmptyDir != nil || source.Secret != nil || source.PersistentVolumeClaim != nil, "volume "+volume.Name+" is of a kind that is not allowed")
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		s := container.SecurityContext
		check(s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, container.Name+" may escalate privileges")
		check(s != nil && !ptr.Deref(s.Privileged, false), container.Name+" is privileged")
		check(s != nil && s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) &&
			len(s.Capabilities.Add) == 0, container.Name+" keeps capabilities")
		check(s != nil && ptr.Deref(s.ReadOnlyRootFilesystem, false), container.Name+" can write to its root")
		check(len(container.Ports) == 0, container.Name+" opens ports")
	}
	return problems
}

func TestBuildMountsNoToken(t *testing.T) {
	t.Parallel()
	spec := build(t, blueprint()).Spec.Template.Spec
	if ptr.Deref(spec.AutomountServiceAccountToken, true) {
		t.Error("the pod gets a token of the API server, which no agent talks to")
	}
	if ptr.Deref(spec.EnableServiceLinks, true) {
		t.Error("the pod's environment lists every Service of the namespace")
	}
}

func TestBuildLetsTheUsersSecurityContextWin(t *testing.T) {
	t.Parallel()
	b := blueprint()
	b.PodTemplate.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To(int64(999)), FSGroup: ptr.To(int64(0)), RunAsNonRoot: ptr.To(false),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}, SupplementalGroups: []int64{7},
	}
	given := b.PodTemplate.SecurityContext.DeepCopy()
	got := build(t, b).Spec.Template.Spec.SecurityContext
	if *got.RunAsUser != 999 || *got.FSGroup != 0 || *got.RunAsNonRoot || got.SeccompProfile.Type != corev1.SeccompProfileTypeUnconfined ||
		!slices.Equal(got.SupplementalGroups, []int64{7}) {
		t.Errorf("the user's fields were overridden: %v", got)
	}
	if *got.RunAsGroup != 65532 || *got.FSGroupChangePolicy != corev1.FSGroupChangeOnRootMismatch {
		t.Errorf("the fields that the user left out have no default: %v", got)
	}
	if b.PodTemplate.SecurityContext.String() != given.String() {
		t.Error("the user's object was changed")
	}
}

func TestBuildTakesOverThePodTemplate(t *testing.T) {
	t.Parallel()
	b := blueprint()
	limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	b.PodTemplate = v1alpha1.PodTemplate{
		Labels:             map[string]string{"team": "orders"},
		Annotations:        map[string]string{"sidecar.istio.io/inject": "false", "karpenter.sh/do-not-disrupt": "false"},
		ServiceAccountName: "backup", NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations: []corev1.Toleration{{Key: "db"}}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		Resources:        corev1.ResourceRequirements{Limits: limits},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, PriorityClassName: "low",
	}
	template := build(t, b).Spec.Template
	spec := template.Spec
	if template.Labels["team"] != "orders" || template.Annotations["sidecar.istio.io/inject"] != "false" {
		t.Errorf("labels %v and annotations %v lack the user's", template.Labels, template.Annotations)
	}
	if template.Annotations["karpenter.sh/do-not-disrupt"] != "false" {
		t.Error("the user cannot let an autoscaler take the pod")
	}
	if template.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] != "false" {
		t.Error("an autoscaler may take the pod in the middle of its work")
	}
	if spec.ServiceAccountName != "backup" || spec.NodeSelector["disk"] != "ssd" || len(spec.Tolerations) != 1 ||
		spec.Affinity == nil || spec.ImagePullSecrets[0].Name != "registry" || spec.PriorityClassName != "low" {
		t.Errorf("the pod lacks what the user asked for: %v", spec)
	}
	if got := spec.Containers[0].Resources; !got.Limits[corev1.ResourceMemory].Equal(limits[corev1.ResourceMemory]) || got.Requests != nil {
		t.Errorf("resources of the agent are %v, want the user's alone", got)
	}
}

func TestBuildGivesModestResourcesByDefault(t *testing.T) {
	t.Parallel()
	spec := build(t, blueprint()).Spec.Template.Spec
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		requests := container.Resources.Requests
		if requests.Cpu().String() != "100m" || requests.Memory().String() != "128Mi" || container.Resources.Limits != nil {
			t.Errorf("container %s has %v, want requests of 100m and 128Mi and no limits", container.Name, container.Resources)
		}
	}
}

func TestBuildLabelsCannotBeOverridden(t *testing.T) {
	t.Parallel()
	b := blueprint()
	theirs := map[string]string{
		v1alpha1.LabelManagedBy: "helm", v1alpha1.LabelOwnerUID: "nobody", v1alpha1.LabelStage: string(contract.VerbLoad),
	}
	b.PodTemplate.Labels = theirs
	b.PodTemplate.Annotations = map[string]string{v1alpha1.AnnotationOwnerName: "nobody"}
	template := build(t, b).Spec.Template
	for key, value := range jobs.Labels(b.Owner, b.Task.Verb) {
		if template.Labels[key] != value {
			t.Errorf("label %s is %q, want ours, %q", key, template.Labels[key], value)
		}
	}
	if template.Annotations[v1alpha1.AnnotationOwnerName] != "orders" {
		t.Errorf("the annotation of the owner's name is %q", template.Annotations[v1alpha1.AnnotationOwnerName])
	}
	if theirs[v1alpha1.LabelManagedBy] != "helm" {
		t.Error("the user's map was changed")
	}
}

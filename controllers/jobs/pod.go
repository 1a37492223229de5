package jobs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
)

const (
	volumeAgent   = "agent"
	volumeTmp     = "tmp"
	volumeStaging = "staging"

	// nonRoot is the user of every pod unless the user says otherwise: the number that distroless images use.
	nonRoot = 65532

	// installName is the init container that copies the agent into an image with client tools.
	installName = "install-agent"

	// agentInImage is where the operator's own image has the agent.
	agentInImage = "/agent"
)

// podTemplate is the one skeleton of every Job's pod.
func podTemplate(b Blueprint, task string) corev1.PodTemplateSpec {
	t := b.PodTemplate
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      overlay(t.Labels, Labels(b.Owner, b.Task.Verb)),
			Annotations: overlay(overlay(stayPut(), t.Annotations), OwnerAnnotations(b.Owner)),
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(30)),
			ServiceAccountName:            t.ServiceAccountName,
			NodeSelector:                  t.NodeSelector,
			Tolerations:                   t.Tolerations,
			Affinity:                      t.Affinity,
			ImagePullSecrets:              t.ImagePullSecrets,
			PriorityClassName:             t.PriorityClassName,
			SecurityContext:               podSecurity(t.SecurityContext),
			Volumes:                       volumes(b),
			Containers:                    []corev1.Container{agentContainer(b, task)},
		},
	}
	if b.ToolsImage != "" {
		template.Spec.InitContainers = []corev1.Container{installContainer(b)}
	}
	return template
}

// stayPut asks the autoscalers not to take a pod away in the middle of its work.
func stayPut() map[string]string {
	return map[string]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
}

// installContainer copies the agent, which is one static file, into the pod whose image has the engine's tools.
func installContainer(b Blueprint) corev1.Container {
	return corev1.Container{
		Name:            installName,
		Image:           b.AgentImage,
		Command:         []string{agentInImage, "install", "--to", contract.AgentPath},
		SecurityContext: containerSecurity(),
		Resources:       modestResources(),
		VolumeMounts:    []corev1.VolumeMount{{Name: volumeAgent, MountPath: contract.AgentDir}},
	}
}

func agentContainer(b Blueprint, task string) corev1.Container {
	image, program := b.AgentImage, agentInImage
	if b.ToolsImage != "" {
		image, program = b.ToolsImage, contract.AgentPath
	}
	resources := b.PodTemplate.Resources
	if resources.Requests == nil && resources.Limits == nil {
		resources = modestResources()
	}
	return corev1.Container{
		Name:  ContainerName,
		Image: image,
		// A name that begins with a dash or holds quotes is inside the JSON: no shell and no flag parser sees it.
		Command:                  []string{program, "run", "--task", task},
		SecurityContext:          containerSecurity(),
		Resources:                resources,
		VolumeMounts:             mounts(b),
		TerminationMessagePath:   contract.ResultPath,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

func modestResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}
}

// podSecurity passes the restricted pod security standard; what the user sets wins.
func podSecurity(user *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	security := user.DeepCopy()
	if security == nil {
		security = &corev1.PodSecurityContext{}
	}
	setDefault(&security.RunAsNonRoot, true)
	setDefault(&security.RunAsUser, nonRoot)
	setDefault(&security.RunAsGroup, nonRoot)
	setDefault(&security.FSGroup, nonRoot)
	setDefault(&security.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch)
	setDefault(&security.SeccompProfile, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault})
	return security
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func volumes(b Blueprint) []corev1.Volume {
	list := []corev1.Volume{emptyDir(volumeTmp)}
	if b.ToolsImage != "" {
		list = append(list, emptyDir(volumeAgent))
	}
	if b.StagingClaim != "" {
		list = append(list, corev1.Volume{Name: volumeStaging, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: b.StagingClaim},
		}})
	}
	for _, mount := range b.Secrets {
		list = append(list, secretVolume(mount))
	}
	return list
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// secretVolume is optional, so that a Secret or a key that is absent is told by the agent at once and by name; a
// required one would leave the pod in ContainerCreating with its cause only in an event.
func secretVolume(mount SecretMount) corev1.Volume {
	items := make([]corev1.KeyToPath, 0, len(mount.Files))
	for _, file := range mount.Files {
		items = append(items, corev1.KeyToPath{Key: file.Key, Path: file.File})
	}
	return corev1.Volume{Name: mount.volumeName(), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: mount.Secret, Items: items, Optional: ptr.To(true), DefaultMode: ptr.To(int32(0o440)),
	}}}
}

func (m SecretMount) volumeName() string { return "secret-" + ShortHash(m.Dir) }

func mounts(b Blueprint) []corev1.VolumeMount {
	list := []corev1.VolumeMount{{Name: volumeTmp, MountPath: "/tmp"}}
	if b.ToolsImage != "" {
		list = append(list, corev1.VolumeMount{Name: volumeAgent, MountPath: contract.AgentDir, ReadOnly: true})
	}
	if b.StagingClaim != "" {
		list = append(list, corev1.VolumeMount{Name: volumeStaging, MountPath: contract.StagingDir})
	}
	for _, mount := range b.Secrets {
		list = append(list, corev1.VolumeMount{Name: mount.volumeName(), MountPath: mount.Dir, ReadOnly: true})
	}
	return list
}

// StagingClaim is the claim on which an owner's artifact is staged.
func StagingClaim(owner metav1.Object, name, className string, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: owner.GetNamespace(),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
				v1alpha1.LabelOwnerUID:  string(owner.GetUID()),
			},
			Annotations: map[string]string{v1alpha1.AnnotationOwnerName: owner.GetName()},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
	if className != "" {
		claim.Spec.StorageClassName = &className
	}
	return claim
}

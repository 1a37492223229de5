package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
)

// ContainerName is the container that does the work in every Job.
const ContainerName = "agent"

// keepFinished is how long a finished Job stays for people to read its log. What it handed over stands in the
// object's status and on the staging claim, so nothing is lost when it goes.
const keepFinished = time.Hour

// Blueprint is all that a Job is built from.
type Blueprint struct {
	Owner client.Object
	Task  contract.Task
	// Stage stands in the Job's name and label. Empty: the task's verb, which has one Job an owner.
	Stage contract.Verb
	// ToolsImage carries the engine's client tools; empty: the agent's own image will do.
	ToolsImage string
	AgentImage string
	// StagingClaim is mounted where the agent stages artifacts; empty: none.
	StagingClaim string
	Secrets      []SecretMount
	PodTemplate  v1alpha1.PodTemplate
	BackoffLimit int32
	// Deadline is how long the Job may take, all tries together.
	Deadline time.Duration
}

// SecretMount mounts keys of a Secret as files of fixed names.
type SecretMount struct {
	Secret string
	Dir    string
	Files  []SecretFile
}

// SecretFile is one key of a Secret under the file name that agents know. One key may serve two files.
type SecretFile struct{ Key, File string }

// Name of the Job that a blueprint becomes.
func (b Blueprint) Name() string { return ChildName(b.Owner, string(b.stage())) }

func (b Blueprint) stage() contract.Verb { return cmp.Or(b.Stage, b.Task.Verb) }

// Build turns a blueprint into a Job. It is a pure function: the same blueprint gives the same Job.
func Build(b Blueprint) (*batchv1.Job, error) {
	task, err := json.Marshal(b.Task)
	if err != nil {
		return nil, fmt.Errorf("encoding the task of Job %s: %w", b.Name(), err)
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Name(), Namespace: b.Owner.GetNamespace(),
			Labels: Labels(b.Owner, b.stage()), Annotations: OwnerAnnotations(b.Owner),
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr.To(b.BackoffLimit),
			ActiveDeadlineSeconds:   ptr.To(max(1, int64(b.Deadline.Seconds()))),
			TTLSecondsAfterFinished: ptr.To(int32(keepFinished.Seconds())),
			PodReplacementPolicy:    ptr.To(batchv1.Failed), // two agents never write to one staging claim at once
			PodFailurePolicy:        failurePolicy(),
			Template:                podTemplate(b, string(task)),
		},
	}, nil
}

// failurePolicy does not count a pod that a drain or a preemption took, and does not try again what cannot succeed.
func failurePolicy() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			}},
		},
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: ptr.To(ContainerName),
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:        []int32{contract.ExitPermanent},
			},
		},
	}}
}

// Labels of what belongs to an owner's stage.
func Labels(owner client.Object, stage contract.Verb) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
		v1alpha1.LabelOwnerUID:  string(owner.GetUID()),
		v1alpha1.LabelStage:     string(stage),
	}
}

// OwnerAnnotations tell people whose a child is, where the name is too long for a label.
func OwnerAnnotations(owner client.Object) map[string]string {
	return map[string]string{v1alpha1.AnnotationOwnerName: owner.GetName()}
}

// overlay returns base with ours on top.
func overlay(base, ours map[string]string) map[string]string {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, ours)
	return merged
}

package testutil

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
)

// Cluster plays the parts of what surrounds the control plane: on the fake client, and on an API server without
// controllers and kubelets.
type Cluster struct {
	Client client.Client
	Now    func() time.Time
	// Answer is what a Job's agent hands back, or nil to let it work on. Absent: every agent succeeds at once.
	Answer func(contract.Task) *contract.Result
	// Snapshot is what the driver does about a VolumeSnapshot. Absent: it is ready at once.
	Snapshot SnapshotFate
}

// ours selects what Holdfast made: the cluster lets everything else rest.
var ours = client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}

// Step lets every part act once on what a namespace holds.
func (c *Cluster) Step(ctx context.Context, namespace string) error {
	for _, act := range []func(context.Context, string) error{
		c.Collect, c.bindClaims, c.takeSnapshots, c.runJobs,
	} {
		if err := act(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// TaskOf returns the task that a Job's agent is given.
func TaskOf(job *batchv1.Job) (contract.Task, error) {
	var task contract.Task
	command := job.Spec.Template.Spec.Containers[0].Command
	at := slices.Index(command, "--task")
	if at < 0 || at+1 >= len(command) {
		return task, fmt.Errorf("no --task in the command %q of Job %s", command, job.Name)
	}
	if err := json.Unmarshal([]byte(command[at+1]), &task); err != nil {
		return task, fmt.Errorf("the task of Job %s: %w", job.Name, err)
	}
	return task, nil
}

func (c *Cluster) runJobs(ctx context.Context, namespace string) error {
	var list batchv1.JobList
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace), ours); err != nil {
		return err
	}
	for i := range list.Items {
		job := &list.Items[i]
		if jobs.Finished(job) || !job.DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.runJob(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// runJob runs a Job as far as Answer says. Its claim is bound first: no pod runs before that.
func (c *Cluster) runJob(ctx context.Context, job *batchv1.Job) error {
	task, err := TaskOf(job)
	if err != nil {
		return err
	}
	if err := c.bindClaims(ctx, job.Namespace); err != nil {
		return err
	}
	if c.Answer == nil {
		return c.Finish(ctx, job, Result(task))
	}
	if answer := c.Answer(task); answer != nil {
		return c.Finish(ctx, job, *answer)
	}
	return nil
}

// Finish ends a Job as its agent's result says.
func (c *Cluster) Finish(ctx context.Context, job *batchv1.Job, result contract.Result) error {
	ended := &corev1.ContainerStateTerminated{ExitCode: contract.ExitSucceeded, Reason: "Completed", Message: string(result.Encode())}
	if result.Failure != nil {
		ended.ExitCode, ended.Reason = contract.ExitPermanent, "Error"
	}
	return c.FinishAs(ctx, job, ended)
}

// FinishAs ends a Job with a pod whose agent ended like this.
func (c *Cluster) FinishAs(ctx context.Context, job *batchv1.Job, ended *corev1.ContainerStateTerminated) error {
	phase := corev1.PodSucceeded
	if ended.ExitCode != contract.ExitSucceeded {
		phase = corev1.PodFailed
	}
	ended.StartedAt, ended.FinishedAt = metav1.NewTime(c.Now()), metav1.NewTime(c.Now())
	status := corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
		{Name: jobs.ContainerName, Image: "test", State: corev1.ContainerState{Terminated: ended}},
	}}
	if _, err := c.Pod(ctx, job, "end", status); err != nil {
		return err
	}
	if ended.ExitCode == contract.ExitSucceeded {
		return c.EndJob(ctx, job, batchv1.JobComplete, "", "")
	}
	return c.EndJob(ctx, job, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy, "a container ended with an exit code of the failure policy")
}

// Pod makes a pod of a Job as the Job controller does, and gives it a status as the kubelet does.
func (c *Cluster) Pod(ctx context.Context, job *batchv1.Job, suffix string, status corev1.PodStatus) (*corev1.Pod, error) {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = job.Namespace, job.Name+"-"+suffix
	pod.Labels[batchv1.ControllerUidLabel] = string(job.UID)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := c.Client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("playing the Job controller: %w", err)
	}
	pod.Status = status
	if err := c.Client.Status().Update(ctx, pod); err != nil {
		return nil, fmt.Errorf("playing the kubelet: %w", err)
	}
	return pod, nil
}

// EndJob gives a Job its last condition, JobComplete or JobFailed, with what goes before it.
func (c *Cluster) EndJob(ctx context.Context, job *batchv1.Job, kind batchv1.JobConditionType, reason, message string) error {
	now := metav1.NewTime(c.Now())
	first := batchv1.JobSuccessCriteriaMet
	job.Status.StartTime, job.Status.UncountedTerminatedPods = &now, nil
	if kind == batchv1.JobComplete {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	} else {
		job.Status.Failed, first = job.Status.Failed+1, batchv1.JobFailureTarget
	}
	for _, one := range []batchv1.JobConditionType{first, kind} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: one, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	if err := c.Client.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("playing the Job controller: %w", err)
	}
	return nil
}

// bindClaims binds the staging claims to volumes, as their first pod makes the provisioner do.
func (c *Cluster) bindClaims(ctx context.Context, namespace string) error {
	var list corev1.PersistentVolumeClaimList
	if err := c.Client.List(ctx, &list, client.InNamespace(namespace), ours); err != nil {
		return err
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Status.Phase == corev1.ClaimBound || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.bind(ctx, claim); err != nil {
			return fmt.Errorf("playing the provisioner: %w", err)
		}
	}
	return nil
}

func (c *Cluster) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	err := c.Client.Create(ctx, Volume(claim.Namespace, claim.Name))
	if client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	claim.Spec.VolumeName = VolumeName(claim.Namespace, claim.Name)
	claim.Spec.StorageClassName = ptr.To(ptr.Deref(claim.Spec.StorageClassName, StorageClassName))
	if err := c.Client.Update(ctx, claim); err != nil {
		return err
	}
	return c.Client.Status().Update(ctx, Bound(claim))
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// dump shows a namespace to the person who reads why a spec failed.
func (s *space) dump(ctx context.Context) string {
	var out strings.Builder
	fmt.Fprintf(&out, "==== namespace %s, bucket %s\n", s.namespace, s.bucket)
	s.dumpObjects(ctx, &out)
	s.dumpWork(ctx, &out)
	s.dumpEvents(ctx, &out)
	out.WriteString(s.recorder.agentLogs())
	out.WriteString(managerLog(ctx, 150))
	return out.String()
}

// describe shows what an object of ours says of itself.
func describe(obj client.Object) string {
	var status any
	switch o := obj.(type) {
	case *v1alpha1.DatabaseBackup:
		if o == nil {
			return "never seen"
		}
		status = o.Status
	case *v1alpha1.DatabaseRestore:
		if o == nil {
			return "never seen"
		}
		status = o.Status
	case *v1alpha1.BackupSchedule:
		if o == nil {
			return "never seen"
		}
		status = o.Status
	}
	raw, err := yaml.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T %s (deletionTimestamp %v)\n%s", obj, obj.GetName(), obj.GetDeletionTimestamp(), raw)
}

func (s *space) dumpObjects(ctx context.Context, out io.Writer) {
	var backups v1alpha1.DatabaseBackupList
	var restores v1alpha1.DatabaseRestoreList
	var schedules v1alpha1.BackupScheduleList
	for _, list := range []client.ObjectList{&backups, &restores, &schedules} {
		if err := env.kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			fmt.Fprintf(out, "%T: %v\n", list, err)
		}
	}
	for i := range schedules.Items {
		fmt.Fprintln(out, describe(&schedules.Items[i]))
	}
	for i := range backups.Items {
		fmt.Fprintln(out, describe(&backups.Items[i]))
	}
	for i := range restores.Items {
		fmt.Fprintln(out, describe(&restores.Items[i]))
	}
}

func (s *space) dumpWork(ctx context.Context, out io.Writer) {
	var jobs batchv1.JobList
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&jobs, &pods, &claims} {
		if err := env.kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			fmt.Fprintf(out, "%T: %v\n", list, err)
		}
	}
	for _, job := range jobs.Items {
		fmt.Fprintf(out, "Job %s: active %d, succeeded %d, failed %d, conditions %v\n",
			job.Name, job.Status.Active, job.Status.Succeeded, job.Status.Failed, job.Status.Conditions)
	}
	for _, pod := range pods.Items {
		fmt.Fprintf(out, "Pod %s: %s %s\n", pod.Name, pod.Status.Phase, containerStates(&pod))
	}
	for _, claim := range claims.Items {
		fmt.Fprintf(out, "PersistentVolumeClaim %s: %s\n", claim.Name, claim.Status.Phase)
	}
}

func containerStates(pod *corev1.Pod) string {
	var states []string
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		switch {
		case c.State.Waiting != nil:
			states = append(states, fmt.Sprintf("%s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message))
		case c.State.Terminated != nil:
			states = append(states, fmt.Sprintf("%s ended %d: %s", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Message))
		}
	}
	return strings.Join(states, "; ")
}

func (s *space) dumpEvents(ctx context.Context, out io.Writer) {
	var events corev1.EventList
	if err := env.kube.List(ctx, &events, client.InNamespace(s.namespace)); err != nil {
		fmt.Fprintln(out, err)
	}
	for _, event := range events.Items {
		at := event.LastTimestamp.Time
		if at.IsZero() {
			at = event.EventTime.Time
		}
		fmt.Fprintf(out, "%s %s %s %s/%s: %s\n", at.UTC().Format("15:04:05"), event.Type, event.Reason,
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
	}
}

// managerLog is the end of what the operator's pods have logged.
func managerLog(ctx context.Context, lines int64) string {
	pods, err := managerPods(ctx)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, pod := range pods {
		raw, err := env.sets.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			TailLines: &lines,
		}).DoRaw(ctx)
		fmt.Fprintf(&out, "--- end of the manager's log, %s (error %v)\n%s\n", pod.Name, err, raw)
	}
	return out.String()
}

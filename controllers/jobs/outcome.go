package jobs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
)

// State is how a Job stands.
type State int

// States of a Job. Lost means that it succeeded and its pod, with the result, is gone: it is run again, which agents
// allow.
const (
	Running State = iota
	Succeeded
	Failed
	Lost
)

// Outcome is what a Job and its pods say, as they are now.
type Outcome struct {
	State  State
	Result contract.Result
	// Reason and Message say why a Job failed, or what a running one is doing.
	Reason  string
	Message string
	// Advice names the fields to look at when a pod cannot start.
	Advice string
	// NoPod says that a Job has no pod now. It may have had one that was drained a moment ago.
	NoPod bool
}

// Observe derives the outcome of a Job from the Job and its pods. startTimeout is how long a pod may take until its
// containers run. It is a pure function of what it is given.
func Observe(job *batchv1.Job, pods []corev1.Pod, now time.Time, startTimeout time.Duration) Outcome {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if isTrue(job, batchv1.JobComplete) {
		return succeeded(job, pods)
	}
	// An agent that is told to stop when its Job's time is over may be past the point of no return, as a load is that has
	// swapped its databases in, and then ends well. Its pod goes soon, so it is listened to before the Job has failed.
	if late := succeeded(job, pods); late.State == Succeeded && (isTrue(job, batchv1.JobFailed) || isTrue(job, batchv1.JobFailureTarget)) {
		return late
	}
	if isTrue(job, batchv1.JobFailed) {
		return failed(job, pods)
	}
	return running(job, pods, now, startTimeout)
}

func isTrue(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return condition(job, kind) != nil
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func succeeded(job *batchv1.Job, pods []corev1.Pod) Outcome {
	for _, pod := range slices.Backward(pods) {
		ended := agentEnded(&pod)
		if ended == nil || ended.ExitCode != contract.ExitSucceeded {
			continue
		}
		result, err := contract.DecodeResult([]byte(ended.Message))
		if err != nil {
			return Outcome{State: Failed, Reason: v1alpha1.ReasonJobFailed,
				Message: fmt.Sprintf("pod %s of Job %s: %v", pod.Name, job.Name, err)}
		}
		return Outcome{State: Succeeded, Result: result}
	}
	return Outcome{State: Lost}
}

func failed(job *batchv1.Job, pods []corev1.Pod) Outcome {
	failure := lastFailure(pods)
	if c := condition(job, batchv1.JobFailed); c != nil && c.Reason == batchv1.JobReasonDeadlineExceeded {
		return tooLate(job, failure)
	}
	if failure != nil {
		return Outcome{State: Failed, Reason: failure.Reason, Message: failure.Message}
	}
	return Outcome{State: Failed, Reason: v1alpha1.ReasonJobFailed, Message: fmt.Sprintf(
		"Job %s failed: %s. Its pods left no result; `kubectl -n %s get events --field-selector involvedObject.name=%s` "+
			"may say more, for an hour.", job.Name, jobFailure(job), job.Namespace, job.Name)}
}

// tooLate is the outcome of a Job whose time is over. What its agent said as it was ended is no cause, but may tell
// how far it had come.
func tooLate(job *batchv1.Job, last *contract.Failure) Outcome {
	text := fmt.Sprintf("Job %s did not end in the time that was left: %s.", job.Name, jobFailure(job))
	if last != nil {
		text += " Its pod said last: " + last.Message
	}
	return Outcome{State: Failed, Reason: v1alpha1.ReasonDeadlineExceeded, Message: text}
}

func jobFailure(job *batchv1.Job) string {
	if c := condition(job, batchv1.JobFailed); c != nil {
		return strings.TrimSuffix(c.Message, ".")
	}
	return "no reason given"
}

// lastFailure is what the newest pod that failed says of itself.
func lastFailure(pods []corev1.Pod) *contract.Failure {
	for _, pod := range slices.Backward(pods) {
		if failure := failureOf(&pod); failure != nil {
			return failure
		}
	}
	return nil
}

func failureOf(pod *corev1.Pod) *contract.Failure {
	ended := agentEnded(pod)
	if ended == nil {
		return initFailure(pod)
	}
	if result, err := contract.DecodeResult([]byte(ended.Message)); err == nil && result.Failure != nil {
		return wellFormed(result.Failure)
	}
	if ended.ExitCode == contract.ExitSucceeded {
		return nil
	}
	return &contract.Failure{Reason: v1alpha1.ReasonJobFailed, Message: killed(pod, ended)}
}

// reasonPattern is what the API server takes for the reason of a condition.
var reasonPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)

// wellFormed replaces a reason that no status could hold: a pod is the user's, and may say anything.
func wellFormed(failure *contract.Failure) *contract.Failure {
	if reasonPattern.MatchString(failure.Reason) {
		return failure
	}
	return &contract.Failure{Reason: v1alpha1.ReasonJobFailed, Message: failure.Message}
}

// killed explains the end of an agent that could not do so itself.
func killed(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "OOMKilled" {
		return fmt.Sprintf("pod %s ran out of memory and was killed: raise spec.podTemplate.resources.limits.memory", pod.Name)
	}
	text := strings.TrimSpace(contract.CutMiddle(ended.Message, 512))
	return fmt.Sprintf("pod %s ended with exit code %d (%s) before its agent could say why. %s", pod.Name,
		ended.ExitCode, ended.Reason, text)
}

func initFailure(pod *corev1.Pod) *contract.Failure {
	for _, status := range pod.Status.InitContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return &contract.Failure{Reason: v1alpha1.ReasonPodCannotStart, Message: fmt.Sprintf(
				"container %s of pod %s ended with exit code %d (%s): %s", status.Name, pod.Name, ended.ExitCode,
				ended.Reason, contract.CutMiddle(ended.Message, 512))}
		}
	}
	return nil
}

func agentEnded(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName {
			return status.State.Terminated
		}
	}
	return nil
}

func running(job *batchv1.Job, pods []corev1.Pod, now time.Time, startTimeout time.Duration) Outcome {
	if len(pods) == 0 {
		return waitingFor(job.CreationTimestamp.Time, now, startTimeout, Outcome{
			NoPod: true, Message: fmt.Sprintf("Job %s has no pod yet", job.Name)})
	}
	pod := &pods[len(pods)-1]
	outcome := Outcome{State: Running, Message: progress(job, pods)}
	waiting := waitingState(pod)
	if waiting == nil {
		return outcome
	}
	outcome.Message = fmt.Sprintf("pod %s cannot start yet: %s", pod.Name, waiting.why)
	outcome.Advice = waiting.advice
	if waiting.hopeless {
		startTimeout = 0
	}
	return waitingFor(pod.CreationTimestamp.Time, now, startTimeout, outcome)
}

// waitingFor turns what a pod waits for into a failure once it has waited too long.
func waitingFor(since, now time.Time, startTimeout time.Duration, outcome Outcome) Outcome {
	if now.Sub(since) < startTimeout {
		return outcome
	}
	outcome.State, outcome.Reason = Failed, v1alpha1.ReasonPodCannotStart
	outcome.Message = strings.Replace(outcome.Message, " yet", "", 1)
	return outcome
}

func progress(job *batchv1.Job, pods []corev1.Pod) string {
	pod := pods[len(pods)-1]
	text := fmt.Sprintf("Job %s is at work in pod %s", job.Name, pod.Name)
	if failure := lastFailure(pods); failure != nil {
		text += fmt.Sprintf("; an earlier one failed: %s", failure.Message)
	}
	return text
}

package jobs_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

const startTimeout = 5 * time.Minute

// observation is a Job with its pods, made at testutil.Start and looked at after a while.
type observation struct {
	end   *batchv1.JobCondition
	pods  []corev1.Pod
	after time.Duration
}

func (o observation) outcome() jobs.Outcome {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "orders-dump", CreationTimestamp: metav1.NewTime(testutil.Start),
	}}
	if o.end != nil {
		job.Status.Conditions = []batchv1.JobCondition{*o.end}
	}
	job.Status.Failed = int32(max(0, len(o.pods)-1))
	return jobs.Observe(job, o.pods, testutil.Start.Add(o.after), startTimeout)
}

func complete() *batchv1.JobCondition {
	return &batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
}

func failed(reason, message string) *batchv1.JobCondition {
	return &batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// target is of a Job that is going to fail as soon as its pods have ended.
func target() *batchv1.JobCondition {
	return &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}
}

// pod is the number-th pod of the Job, made number minutes after it.
func pod(number int, phase corev1.PodPhase, agent corev1.ContainerState) corev1.Pod {
	name := "pod-" + string(rune('0'+number))
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(testutil.Start.Add(time.Duration(number) * time.Minute))},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "a-sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: jobs.ContainerName, Image: "postgres:17", State: agent},
		}},
	}
}

func ended(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

func succeededAs(result contract.Result) corev1.ContainerState {
	return ended(0, "Completed", string(result.Encode()))
}

func failedAs(reason, message string) corev1.ContainerState {
	return ended(contract.ExitPermanent, "Error", string(testutil.Failure(contract.VerbDump, reason, message).Encode()))
}

func waiting(number int, reason, message string) corev1.Pod {
	return pod(number, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func runningPod(number int) corev1.Pod {
	return pod(number, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

func unschedulable(number int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: pod(number, corev1.PodPending, corev1.ContainerState{}).ObjectMeta}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"},
	}}
	return p
}

func initFailed(number int) corev1.Pod {
	p := pod(number, corev1.PodFailed, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "install-agent", State: ended(126, "Error", "permission denied")}}
	return p
}

func initWaiting(number int, reason string) corev1.Pod {
	p := waiting(number, "PodInitializing", "")
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "install-agent", Image: "holdfast:test", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "not found"},
	}}}
	return p
}

func TestObserve(t *testing.T) {
	t.Parallel()
	dumped := testutil.Result(contract.Task{Verb: contract.VerbDump})
	future := strings.Replace(string(dumped.Encode()), `"version":1`, `"version":2`, 1)
	for name, test := range map[string]struct {
		observation
		state  jobs.State
		reason string
		says   []string
		silent string
	}{
		"no pod yet":                 {observation: observation{after: time.Minute}, state: jobs.Running, says: []string{"no pod yet"}},
		"no pod for too long":        {observation: observation{after: startTimeout}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"has no pod"}, silent: "yet"},
		"running":                    {observation: observation{pods: []corev1.Pod{runningPod(1)}}, state: jobs.Running, says: []string{"orders-dump", "pod-1"}},
		"running for very long":      {observation: observation{pods: []corev1.Pod{runningPod(1)}, after: 100 * time.Hour}, state: jobs.Running, says: []string{"at work"}},
		"containers being created":   {observation: observation{pods: []corev1.Pod{waiting(1, "ContainerCreating", "")}, after: 2 * time.Minute}, state: jobs.Running, says: []string{"being created"}},
		"created for too long":       {observation: observation{pods: []corev1.Pod{waiting(1, "ContainerCreating", "")}, after: 6 * time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart},
		"image pull fails at first":  {observation: observation{pods: []corev1.Pod{waiting(1, "ImagePullBackOff", "no such tag")}, after: 5*time.Minute + 59*time.Second}, state: jobs.Running, says: []string{"ImagePullBackOff", "no such tag", "postgres:17"}},
		"image pull fails on":        {observation: observation{pods: []corev1.Pod{waiting(1, "ImagePullBackOff", "no such tag")}, after: 6 * time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"ImagePullBackOff", "no such tag", "postgres:17"}, silent: "yet"},
		"image of the init pull":     {observation: observation{pods: []corev1.Pod{initWaiting(1, "ErrImagePull")}, after: 6 * time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"install-agent", "holdfast:test"}},
		"image name is none":         {observation: observation{pods: []corev1.Pod{waiting(1, "InvalidImageName", "bad reference")}, after: time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"bad reference"}},
		"config that no time mends":  {observation: observation{pods: []corev1.Pod{waiting(1, "CreateContainerConfigError", "root")}, after: time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart},
		"unschedulable at first":     {observation: observation{pods: []corev1.Pod{unschedulable(1)}, after: 2 * time.Minute}, state: jobs.Running, says: []string{"Unschedulable", "0/1 nodes"}},
		"unschedulable for too long": {observation: observation{pods: []corev1.Pod{unschedulable(1)}, after: 6 * time.Minute}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"0/1 nodes"}},
		"second pod has its own time": {observation: observation{pods: []corev1.Pod{pod(1, corev1.PodFailed, failedAs("StoreFailed", "503")), waiting(5, "ContainerCreating", "")},
			after: 9 * time.Minute}, state: jobs.Running},
		"running again after a failure": {observation: observation{pods: []corev1.Pod{runningPod(2), pod(1, corev1.PodFailed, failedAs("StoreFailed", "the store said 503"))}},
			state: jobs.Running, says: []string{"pod-2", "an earlier one failed", "the store said 503"}},
		"complete":                                {observation: observation{end: complete(), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, succeededAs(dumped))}}, state: jobs.Succeeded},
		"complete at the second try":              {observation: observation{end: complete(), pods: []corev1.Pod{pod(2, corev1.PodSucceeded, succeededAs(dumped)), pod(1, corev1.PodFailed, failedAs("StoreFailed", "503"))}}, state: jobs.Succeeded},
		"complete without a pod":                  {observation: observation{end: complete()}, state: jobs.Lost},
		"complete, only a failed pod":             {observation: observation{end: complete(), pods: []corev1.Pod{pod(1, corev1.PodFailed, failedAs("StoreFailed", "503"))}}, state: jobs.Lost},
		"complete by another version":             {observation: observation{end: complete(), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, ended(0, "Completed", future))}}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed, says: []string{"version 2", "pod-1"}},
		"complete without a result":               {observation: observation{end: complete(), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, ended(0, "Completed", ""))}}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed},
		"failed as the agent says":                {observation: observation{end: failed("PodFailurePolicy", "a container failed"), pods: []corev1.Pod{pod(1, corev1.PodFailed, failedAs("AuthenticationFailed", "wrong password"))}}, state: jobs.Failed, reason: "AuthenticationFailed", says: []string{"wrong password"}},
		"failed for no word that status takes":    {observation: observation{end: failed("PodFailurePolicy", ""), pods: []corev1.Pod{pod(1, corev1.PodFailed, failedAs("it's broken", "as I said"))}}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed, says: []string{"as I said"}},
		"the newest failure wins":                 {observation: observation{end: failed("BackoffLimitExceeded", ""), pods: []corev1.Pod{pod(3, corev1.PodFailed, failedAs("StagingFull", "full")), pod(1, corev1.PodFailed, failedAs("StoreFailed", "503"))}}, state: jobs.Failed, reason: "StagingFull", says: []string{"full"}},
		"out of memory":                           {observation: observation{end: failed("BackoffLimitExceeded", ""), pods: []corev1.Pod{pod(1, corev1.PodFailed, ended(137, "OOMKilled", ""))}}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed, says: []string{"memory", "spec.podTemplate.resources"}},
		"killed before it could say":              {observation: observation{end: failed("BackoffLimitExceeded", ""), pods: []corev1.Pod{pod(1, corev1.PodFailed, ended(139, "Error", "segmentation fault"))}}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed, says: []string{"139", "segmentation fault", "pod-1"}},
		"the init container failed":               {observation: observation{end: failed("BackoffLimitExceeded", ""), pods: []corev1.Pod{initFailed(1)}}, state: jobs.Failed, reason: v1alpha1.ReasonPodCannotStart, says: []string{"install-agent", "126", "permission denied"}},
		"failed and its pods are gone":            {observation: observation{end: failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")}, state: jobs.Failed, reason: v1alpha1.ReasonJobFailed, says: []string{"Job has reached the specified backoff limit", "kubectl -n shop get events --field-selector involvedObject.name=orders-dump"}},
		"deadline, pods are gone":                 {observation: observation{end: failed(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")}, state: jobs.Failed, reason: v1alpha1.ReasonDeadlineExceeded, says: []string{"Job was active longer than specified deadline"}},
		"deadline, agent ended well all the same": {observation: observation{end: failed(batchv1.JobReasonDeadlineExceeded, "too long"), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, succeededAs(dumped))}}, state: jobs.Succeeded},
		"deadline comes, agent ended well":        {observation: observation{end: target(), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, succeededAs(dumped))}}, state: jobs.Succeeded},
		"deadline comes, agent at work":           {observation: observation{end: target(), pods: []corev1.Pod{runningPod(1)}}, state: jobs.Running},
		"deadline, agent was told":                {observation: observation{end: failed(batchv1.JobReasonDeadlineExceeded, "too long"), pods: []corev1.Pod{pod(1, corev1.PodFailed, failedAs("Terminated", "ended at 40 of 90 GiB"))}}, state: jobs.Failed, reason: v1alpha1.ReasonDeadlineExceeded, says: []string{"40 of 90 GiB"}},
		"deadline while pod can't start":          {observation: observation{end: failed(batchv1.JobReasonDeadlineExceeded, "too long"), pods: []corev1.Pod{waiting(1, "ImagePullBackOff", "no such tag")}}, state: jobs.Failed, reason: v1alpha1.ReasonDeadlineExceeded},
		"a condition that is not true":            {observation: observation{end: &batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}, pods: []corev1.Pod{runningPod(1)}}, state: jobs.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.outcome()
			if got.State != test.state || got.Reason != test.reason {
				t.Fatalf("state %d for reason %q (%s), want %d for %q", got.State, got.Reason, got.Message, test.state, test.reason)
			}
			for _, text := range test.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("the message lacks %q: %s", text, got.Message)
				}
			}
			if test.silent != "" && strings.Contains(got.Message, test.silent) {
				t.Errorf("the message still says %q: %s", test.silent, got.Message)
			}
		})
	}
}

func TestObserveReturnsTheResult(t *testing.T) {
	t.Parallel()
	dumped := testutil.Result(contract.Task{Verb: contract.VerbDump})
	got := observation{end: complete(), pods: []corev1.Pod{pod(1, corev1.PodSucceeded, succeededAs(dumped))}}.outcome()
	if got.Result.Artifact == nil || *got.Result.Artifact != *testutil.Artifact() || got.Result.Verb != contract.VerbDump {
		t.Errorf("the result is %+v, want the agent's", got.Result)
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	for kind, want := range map[batchv1.JobConditionType]bool{
		batchv1.JobComplete: true, batchv1.JobFailed: true, batchv1.JobSuspended: false,
		batchv1.JobSuccessCriteriaMet: false, batchv1.JobFailureTarget: false,
	} {
		job := &batchv1.Job{}
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		if got := jobs.Finished(job); got != want {
			t.Errorf("a Job that is %s is finished: %t, want %t", kind, got, want)
		}
	}
}

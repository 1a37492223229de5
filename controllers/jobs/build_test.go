package jobs_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// blueprint of a dump Job, which has every part that a Job may have.
func blueprint() jobs.Blueprint {
	return jobs.Blueprint{
		Owner:      testutil.Backup("orders").UID(oneUID).Build(),
		Task:       contract.Task{Version: contract.Version, Verb: contract.VerbDump, Key: "prod/it's \"so\" $(HOME)"},
		ToolsImage: "postgres:17", AgentImage: "holdfast:test", StagingClaim: "orders-3f2a91c0-staging",
		Secrets: []jobs.SecretMount{
			{Secret: "orders-db", Dir: contract.DatabaseSecretDir, Files: []jobs.SecretFile{{Key: "user", File: "username"}, {Key: "pass", File: "password"}}},
			{Secret: "orders-ca", Dir: contract.DatabaseCADir, Files: []jobs.SecretFile{{Key: "ca.crt", File: "ca.crt"}}},
		},
		BackoffLimit: 2, Deadline: 90 * time.Minute,
	}
}

func build(t *testing.T, b jobs.Blueprint) *batchv1.Job {
	t.Helper()
	job, err := jobs.Build(b)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestBuildIsAPureFunction(t *testing.T) {
	t.Parallel()
	b := blueprint()
	if first, second := build(t, b), build(t, b); !reflect.DeepEqual(first, second) {
		t.Errorf("the same blueprint gave two Jobs:\n%v\n%v", first, second)
	}
	if !reflect.DeepEqual(b, blueprint()) {
		t.Error("the blueprint was changed")
	}
}

func TestBuildBoundsWhatAJobMayDo(t *testing.T) {
	t.Parallel()
	spec := build(t, blueprint()).Spec
	if got := ptr.Deref(spec.BackoffLimit, -1); got != 2 {
		t.Errorf("backoffLimit is %d, want 2", got)
	}
	if got := ptr.Deref(spec.ActiveDeadlineSeconds, -1); got != 5400 {
		t.Errorf("activeDeadlineSeconds is %d, want 5400", got)
	}
	if spec.TTLSecondsAfterFinished == nil {
		t.Error("a finished Job is never cleaned up")
	}
	if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("restartPolicy is %s: a restarted container would work on the leavings of the last", spec.Template.Spec.RestartPolicy)
	}
	if got := ptr.Deref(spec.PodReplacementPolicy, ""); got != batchv1.Failed {
		t.Errorf("podReplacementPolicy is %q: two pods could write to one claim", got)
	}
}

func TestBuildGivesAJobAtLeastASecond(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Duration{-time.Hour, 0, time.Millisecond} {
		b := blueprint()
		b.Deadline = deadline
		if got := *build(t, b).Spec.ActiveDeadlineSeconds; got != 1 {
			t.Errorf("a deadline of %s became %d seconds, want 1: the API takes no less", deadline, got)
		}
	}
}

func TestBuildKeepsZeroTries(t *testing.T) {
	t.Parallel()
	b := blueprint()
	b.BackoffLimit = 0
	if got := ptr.Deref(build(t, b).Spec.BackoffLimit, -1); got != 0 {
		t.Errorf("backoffLimit is %d, want 0", got)
	}
}

func TestBuildDoesNotCountDisruptionsAndGivesUpOnPermanentFailures(t *testing.T) {
	t.Parallel()
	rules := build(t, blueprint()).Spec.PodFailurePolicy.Rules
	if len(rules) != 2 {
		t.Fatalf("%d rules, want 2: %v", len(rules), rules)
	}
	disrupted, permanent := rules[0], rules[1]
	if disrupted.Action != batchv1.PodFailurePolicyActionIgnore || len(disrupted.OnPodConditions) != 1 ||
		disrupted.OnPodConditions[0].Type != corev1.DisruptionTarget || disrupted.OnPodConditions[0].Status != corev1.ConditionTrue {
		t.Errorf("the first rule does not ignore disruptions: %v", disrupted)
	}
	codes := permanent.OnExitCodes
	if permanent.Action != batchv1.PodFailurePolicyActionFailJob || *codes.ContainerName != jobs.ContainerName ||
		codes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn || !slices.Equal(codes.Values, []int32{contract.ExitPermanent}) {
		t.Errorf("the second rule does not fail the Job on the agent's exit code %d: %v", contract.ExitPermanent, permanent)
	}
}

func TestBuildLabelsWhatTheCacheSelects(t *testing.T) {
	t.Parallel()
	job := build(t, blueprint())
	for key, want := range map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwnerUID: oneUID, v1alpha1.LabelStage: "dump",
	} {
		if got := job.Labels[key]; got != want {
			t.Errorf("label %s of the Job is %q, want %q", key, got, want)
		}
		if got := job.Spec.Template.Labels[key]; got != want {
			t.Errorf("label %s of the pod is %q, want %q", key, got, want)
		}
	}
	if got := job.Annotations[v1alpha1.AnnotationOwnerName]; got != "orders" {
		t.Errorf("the Job says that its owner is called %q", got)
	}
}

func TestBuildHandsTheTaskOverAsItIs(t *testing.T) {
	t.Parallel()
	b := blueprint()
	job := build(t, b)
	command := job.Spec.Template.Spec.Containers[0].Command
	if want := []string{contract.AgentPath, "run", "--task"}; !slices.Equal(command[:3], want) {
		t.Errorf("the command is %q, want it to begin with %q", command, want)
	}
	var task contract.Task
	if err := json.Unmarshal([]byte(command[3]), &task); err != nil || !reflect.DeepEqual(task, b.Task) {
		t.Errorf("the agent is told %+v (%v), want %+v", task, err, b.Task)
	}
}

func TestBuildUsesTheAgentsImageWhereNoToolsAreNeeded(t *testing.T) {
	t.Parallel()
	b := blueprint()
	b.ToolsImage, b.StagingClaim = "", ""
	spec := build(t, b).Spec.Template.Spec
	if spec.Containers[0].Image != "holdfast:test" || spec.Containers[0].Command[0] != "/agent" || len(spec.InitContainers) != 0 {
		t.Errorf("not the agent in its own image: %v, init containers %v", spec.Containers[0], spec.InitContainers)
	}
	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			t.Errorf("volume %s is a claim, though none was asked for", volume.Name)
		}
	}
}

func TestBuildCopiesTheAgentIntoTheToolsImage(t *testing.T) {
	t.Parallel()
	spec := build(t, blueprint()).Spec.Template.Spec
	install, agent := spec.InitContainers[0], spec.Containers[0]
	if install.Image != "holdfast:test" || agent.Image != "postgres:17" {
		t.Errorf("images are %s and %s", install.Image, agent.Image)
	}
	if !slices.Contains(install.Command, contract.AgentPath) {
		t.Errorf("the agent is not installed where it is run: %q", install.Command)
	}
	if mount := mountAt(agent, contract.AgentDir); mount == nil || !mount.ReadOnly {
		t.Errorf("the agent's folder is not mounted for reading alone: %v", mount)
	}
	if mount := mountAt(agent, contract.StagingDir); mount == nil || mount.ReadOnly {
		t.Errorf("the staging claim is not mounted for writing: %v", mount)
	}
}

func mountAt(container corev1.Container, path string) *corev1.VolumeMount {
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].MountPath == path {
			return &container.VolumeMounts[i]
		}
	}
	return nil
}

func TestBuildMountsSecretsAsFilesThatMayBeAbsent(t *testing.T) {
	t.Parallel()
	b := blueprint()
	spec := build(t, b).Spec.Template.Spec
	for _, secret := range b.Secrets {
		mount := mountAt(spec.Containers[0], secret.Dir)
		if mount == nil || !mount.ReadOnly {
			t.Fatalf("Secret %s is not mounted for reading at %s", secret.Secret, secret.Dir)
		}
		at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		source := spec.Volumes[at].Secret
		if source.SecretName != secret.Secret || !ptr.Deref(source.Optional, false) {
			t.Errorf("the volume at %s is %v: a Secret that is absent would leave the pod waiting without a word", secret.Dir, source)
		}
		for i, file := range secret.Files {
			if source.Items[i].Key != file.Key || source.Items[i].Path != file.File {
				t.Errorf("item %d of Secret %s is %v, want %v", i, secret.Secret, source.Items[i], file)
			}
		}
	}
	for _, container := range append(spec.InitContainers, spec.Containers...) {
		if len(container.Env)+len(container.EnvFrom) > 0 {
			t.Errorf("container %s has an environment, which is no place for secrets: %v", container.Name, container.Env)
		}
	}
	for _, mount := range spec.InitContainers[0].VolumeMounts {
		if strings.HasPrefix(mount.Name, "secret") {
			t.Errorf("the init container sees Secret volume %s without need", mount.Name)
		}
	}
}

func TestStagingClaim(t *testing.T) {
	t.Parallel()
	owner := testutil.Backup("orders").UID(oneUID).Build()
	claim := jobs.StagingClaim(owner, "staging", "fast", resource.MustParse("3Gi"))
	if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.String() != "3Gi" || *claim.Spec.StorageClassName != "fast" {
		t.Errorf("the claim asks for %s of class %s", got.String(), *claim.Spec.StorageClassName)
	}
	if claim.Labels[v1alpha1.LabelOwnerUID] != oneUID || claim.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		t.Errorf("the claim's labels are %v: the cache would not see it", claim.Labels)
	}
	if class := jobs.StagingClaim(owner, "staging", "", resource.MustParse("3Gi")).Spec.StorageClassName; class != nil {
		t.Errorf("the claim asks for class %q, where the cluster's default is meant: an empty name means no class at all", *class)
	}
}

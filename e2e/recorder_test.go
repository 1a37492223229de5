//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	agentContainer = "agent"
	maxLogBytes    = 1 << 20
)

// recorder writes down what a namespace's pods, Jobs, events and agents' logs say while they exist. Much of it is
// gone when a spec ends, and a secret must not have stood in any of it even for a second.
type recorder struct {
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	objects map[string]string
	logs    map[string]*bytes.Buffer
}

func startRecorder(namespace string) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{cancel: cancel, objects: map[string]string{}, logs: map[string]*bytes.Buffer{}}
	pods, jobs, events := env.sets.CoreV1().Pods(namespace), env.sets.BatchV1().Jobs(namespace), env.sets.CoreV1().Events(namespace)
	for _, open := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
		pods.Watch, jobs.Watch, events.Watch,
	} {
		r.work.Go(func() { r.record(ctx, open) })
	}
	return r
}

func (r *recorder) stop() {
	r.cancel()
	r.work.Wait()
}

// record follows one kind of object until ctx ends. A watch that the server ends is opened anew.
func (r *recorder) record(ctx context.Context, open func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	for ctx.Err() == nil {
		changes, err := open(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for change := range changes.ResultChan() {
			r.note(ctx, change)
		}
	}
}

func (r *recorder) note(ctx context.Context, change watch.Event) {
	switch obj := change.Object.(type) {
	case *corev1.Pod:
		r.keep(fmt.Sprintf("pod %s %s", obj.Name, obj.Status.Phase), obj)
		if agentHasStarted(obj) && change.Type != watch.Deleted {
			r.followLog(ctx, obj.Namespace, obj.Name)
		}
	case *batchv1.Job:
		r.keep("job "+obj.Name, obj)
	case *corev1.Event:
		r.keep(fmt.Sprintf("event %s %s", obj.InvolvedObject.Name, obj.Name), obj)
	}
}

func (r *recorder) keep(name string, obj any) {
	raw, err := json.Marshal(obj)
	if err != nil {
		raw = []byte(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[name] = string(raw)
}

func agentHasStarted(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelOwnerUID] != "" &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == agentContainer && (c.State.Running != nil || c.State.Terminated != nil)
		})
}

// followLog copies an agent's log as it is written, once a pod.
func (r *recorder) followLog(ctx context.Context, namespace, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs[pod] != nil {
		return
	}
	into := &bytes.Buffer{}
	r.logs[pod] = into
	r.work.Go(func() {
		stream, err := env.sets.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
			Container: agentContainer, Follow: true,
		}).Stream(ctx)
		if err != nil {
			return
		}
		defer stream.Close()
		r.copyLog(into, io.LimitReader(stream, maxLogBytes))
	})
}

func (r *recorder) copyLog(into *bytes.Buffer, from io.Reader) {
	chunk := make([]byte, 16<<10)
	for {
		n, err := from.Read(chunk)
		r.mu.Lock()
		into.Write(chunk[:n])
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// agentLogs are the logs of every agent so far, by pod.
func (r *recorder) agentLogs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	for _, pod := range slices.Sorted(maps.Keys(r.logs)) {
		fmt.Fprintf(&all, "--- log of %s\n%s\n", pod, r.logs[pod])
	}
	return all.String()
}

// everything that was recorded, by where it stood.
func (r *recorder) everything() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.objects)
	for pod, log := range r.logs {
		all["log of "+pod] = log.String()
	}
	return all
}

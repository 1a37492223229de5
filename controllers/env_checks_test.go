package controllers_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// requests are what a manager asked of the API server.
type requests struct {
	mutex     sync.Mutex
	writes    []string
	forbidden []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		what := request.Method + " " + request.URL.Path
		if request.Method != http.MethodGet && !strings.Contains(what, "/leases") && !strings.Contains(what, "/events") {
			r.writes = append(r.writes, what)
		}
		if err == nil && response.StatusCode == http.StatusForbidden && !terminating(response) {
			r.forbidden = append(r.forbidden, what)
		}
		return response, err
	})
}

// terminating says whether it is a namespace that is being deleted, and no role, that forbids a request.
func terminating(response *http.Response) bool {
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte("is being terminated"))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// check fails the test when the manager asked for something that its ClusterRole does not allow.
func (r *requests) check(t *testing.T) {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	slices.Sort(r.forbidden)
	for _, what := range slices.Compact(r.forbidden) {
		t.Errorf("config/rbac does not allow %s", what)
	}
}

// about are the writes about what bears a name.
func (r *requests) about(name string) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var found []string
	for _, what := range r.writes {
		if strings.Contains(what, name) {
			found = append(found, what)
		}
	}
	return found
}

func (r *requests) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.writes)
}

func readyReason(object client.Object) string {
	return flow.ReasonOf(object.(flow.Subject), v1alpha1.ConditionReady)
}

// kstatus says what GitOps tools read from an object: the generic rules of kstatus (sigs.k8s.io/cli-utils), written
// out. A deleted object is Terminating; one whose status speaks of another generation is InProgress; Stalled is Failed;
// Ready is Current when True and InProgress otherwise; an object with no such condition is Current.
func kstatus(object client.Object) string {
	progress := object.(flow.Subject).Progress()
	ready := meta.FindStatusCondition(*progress.Conditions, v1alpha1.ConditionReady)
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		return "Terminating"
	case *progress.ObservedGeneration != 0 && *progress.ObservedGeneration != object.GetGeneration():
		return "InProgress"
	case meta.IsStatusConditionTrue(*progress.Conditions, v1alpha1.ConditionStalled):
		return "Failed"
	case ready == nil || ready.Status == "True":
		return "Current"
	}
	return "InProgress"
}

// checkKstatus compares what tools read with what an object's conditions say.
func checkKstatus(t *testing.T, object client.Object) {
	t.Helper()
	subject := object.(flow.Subject)
	want := "InProgress"
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		want = "Terminating"
	case flow.IsTrue(subject, v1alpha1.ConditionStalled):
		want = "Failed"
	case flow.IsTrue(subject, v1alpha1.ConditionReady):
		want = "Current"
	}
	if got := kstatus(object); got != want {
		t.Errorf("tools read %s from %s, want %s: %v", got, object.GetName(), want, *subject.Progress().Conditions)
	}
}

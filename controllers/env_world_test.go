package controllers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
	"github.com/holdfast-dev/holdfast/testutil/kubetest"
)

// patience bounds every wait for something that takes well under a second on an idle machine.
const patience = 2 * time.Minute

// server is a real API server, in which a test has a namespace of its own and plays the cluster around the manager.
type server struct {
	t         *testing.T
	config    *rest.Config
	client    client.Client
	namespace string
	cluster   testutil.Cluster
	// maxRunning is how many backups run at once; 0 for no limit.
	maxRunning int
}

func newServer(t *testing.T) *server {
	t.Helper()
	config := kubetest.Start(t)
	config.QPS, config.Burst = 500, 500
	c, err := client.New(config, client.Options{Scheme: testutil.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, config: config, client: c, cluster: testutil.Cluster{Client: c, Now: time.Now}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	s.create(testutil.DataClaim(s.namespace, dataClaim), testutil.Volume(s.namespace, dataClaim))
	claim := testutil.DataClaim(s.namespace, dataClaim)
	s.get(claim)
	if err := c.Status().Update(t.Context(), testutil.Bound(claim)); err != nil {
		t.Fatal(err)
	}
	for _, shared := range []client.Object{testutil.StorageClass(), testutil.SnapshotClass(testutil.SnapshotClassName, testutil.Driver, true)} {
		s.share(shared)
	}
	s.grant()
	return s
}

func (s *server) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		if err := s.client.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

// share creates what all tests of this server use.
func (s *server) share(object client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
		s.t.Fatal(err)
	}
}

func (s *server) get(object client.Object) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.t.Fatal(err)
	}
}

// grant applies the roles of config/rbac, with the lease in the test's own namespace.
func (s *server) grant() {
	s.t.Helper()
	s.share(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-system"}})
	for _, file := range []string{"role.yaml", "role_binding.yaml", "leader_election.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "config", "rbac", file))
		if err != nil {
			s.t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				s.t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			if object.GetNamespace() != "" {
				object.SetNamespace(s.namespace)
			}
			s.share(object)
		}
	}
}

// manager is one that runs, as the operator's own ServiceAccount and with its rights alone.
type manager struct {
	requests *requests
	stop     func()
}

// start starts a manager. It is wired as the operator's command wires it, apart from the namespace that keeps tests
// apart, and a shorter lease.
func (s *server) start() *manager {
	s.t.Helper()
	return s.startWith(s.register)
}

// startWith starts a manager with other reconcilers.
func (s *server) startWith(register func(ctrl.Manager)) *manager {
	s.t.Helper()
	m := &manager{requests: &requests{}}
	own := rest.CopyConfig(s.config)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:holdfast-system:holdfast-controller-manager"}
	own.Wrap(m.requests.wrap)
	cached := controllers.CacheOptions()
	cached.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: testutil.Scheme(s.t), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "manager.holdfast.dev", LeaderElectionNamespace: s.namespace,
		LeaderElectionReleaseOnCancel: true, LeaseDuration: ptr.To(30 * time.Second),
		RenewDeadline: ptr.To(20 * time.Second), RetryPeriod: ptr.To(100 * time.Millisecond),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cached,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	register(mgr)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	m.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
	}
	s.t.Cleanup(m.stop)
	s.t.Cleanup(func() { m.requests.check(s.t) })
	return m
}

func (s *server) register(mgr ctrl.Manager) {
	s.t.Helper()
	if err := controllers.Register(mgr, s.options(time.Now)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) options(now func() time.Time) controllers.Options {
	return controllers.Options{
		AgentImage: "holdfast:test", Images: map[v1alpha1.Engine]string{v1alpha1.EnginePostgreSQL: "postgres:17"},
		PodStartTimeout: startTimeout, DeletionTimeout: deletionTimeout, ExpiryTimeout: expiryTimeout, MaxRunning: s.maxRunning, Now: now,
	}
}

// await lets the cluster act until a condition holds.
func (s *server) await(what string, until func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := s.cluster.Step(ctx, s.namespace)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return false, err
		}
		return until(), nil
	})
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", what, err, s.standing())
	}
}

// standing says how the objects of the namespace stand, for a test that waited in vain.
func (s *server) standing() string {
	var text strings.Builder
	for _, list := range []client.ObjectList{&v1alpha1.DatabaseBackupList{}, &v1alpha1.DatabaseRestoreList{}, &batchv1.JobList{}} {
		if err := s.client.List(context.Background(), list, client.InNamespace(s.namespace)); err != nil {
			return err.Error()
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			if subject, ok := object.(flow.Subject); ok {
				fmt.Fprintf(&text, "%s: %v\n", subject.GetName(), *subject.Progress().Conditions)
			} else if job, ok := object.(*batchv1.Job); ok {
				fmt.Fprintf(&text, "%s: %v, deleted %v\n", job.Name, job.Status.Conditions, job.DeletionTimestamp)
			}
			return nil
		})
	}
	return text.String()
}

// hasReason says whether an object is Ready, or not, for a reason. It checks on the way that tools would read the
// same from it.
func (s *server) hasReason(object client.Object, reason string) bool {
	s.t.Helper()
	s.get(object)
	checkKstatus(s.t, object)
	got := readyReason(object)
	if got != reason && flow.Ended(object.(flow.Subject)) {
		s.t.Fatalf("%s ended as %s and not as %s:\n%s", object.GetName(), got, reason, s.standing())
	}
	return got == reason
}

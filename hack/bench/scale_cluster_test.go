//go:build bench

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	namespaces = 100
	// writers is how many requests a plain client has under way at a time.
	writers = 32
)

// cluster is an API server full of schedules and backups.
type cluster struct {
	testing.TB
	config  *rest.Config
	client  client.WithWatch // may do everything
	objects int              // how many schedules there are, and finished backups
	due     int              // how many schedules are due in one slot
}

func newCluster(tb testing.TB, config *rest.Config, objects int) *cluster {
	tb.Helper()
	w := &cluster{TB: tb, config: unlimited(config), objects: objects, due: objects / 10}
	w.client = newClient(tb, w.config)
	w.install()
	return w
}

// unlimited takes the limits from a client that it would set itself, as controller-runtime does.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

func newClient(tb testing.TB, config *rest.Config) client.WithWatch {
	tb.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// install creates what config/ has for the operator beside the CRDs: its namespace, its account, its rights.
func (w *cluster) install() {
	w.Helper()
	root := filepath.Join("..", "..", "config")
	files, err := filepath.Glob(filepath.Join(root, "rbac", "*.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	for _, file := range append([]string{filepath.Join(root, "default", "namespace.yaml")}, files...) {
		if filepath.Base(file) != "kustomization.yaml" {
			w.apply(file)
		}
	}
	for i := range namespaces {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}})
	}
}

func (w *cluster) apply(path string) {
	w.Helper()
	file, err := os.Open(path)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.Fatalf("%s: %v", path, err)
		}
		w.create(object)
	}
}

func (w *cluster) create(object client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), object); err != nil {
		w.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// inParallel does something n times, several at a time, and returns how long that took.
func (w *cluster) inParallel(n int, do func(ctx context.Context, i int) error) time.Duration {
	w.Helper()
	began := time.Now()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		w.Fatal(err)
	}
	return time.Since(began)
}

// populate makes the schedules and a finished backup of each. It returns how many writes a second the server took.
func (w *cluster) populate() float64 {
	w.Helper()
	now := time.Now()
	took := w.inParallel(w.objects, func(ctx context.Context, i int) error {
		schedule, slot := quietSchedule(i, now)
		if err := w.client.Create(ctx, schedule); err != nil {
			return fmt.Errorf("creating BackupSchedule %s: %w", schedule.Name, err)
		}
		backup := finishedBackup(schedule, slot)
		status := backup.Status
		if err := w.client.Create(ctx, backup); err != nil {
			return fmt.Errorf("creating DatabaseBackup %s: %w", backup.Name, err)
		}
		backup.Status = status
		if err := w.client.Status().Update(ctx, backup); err != nil {
			return fmt.Errorf("writing the status of DatabaseBackup %s: %w", backup.Name, err)
		}
		return nil
	})
	perSecond := float64(3*w.objects) / took.Seconds()
	sayf("%d schedules and %d finished backups were made in %.0f s: %.0f writes a second", w.objects, w.objects, took.Seconds(), perSecond)
	return perSecond
}

// expectObserved checks that an operator has understood the objects: each schedule is Ready, has a next run, and knows its
// backup.
func (w *cluster) expectObserved(t *testing.T) {
	t.Helper()
	list := &v1alpha1.BackupScheduleList{}
	if err := w.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != w.objects {
		t.Errorf("there are %d schedules, and %d were made", len(list.Items), w.objects)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) || s.Status.NextScheduleTime == nil ||
			s.Status.LastSuccessfulURL == "" || s.Status.Retention.Kept != 1 {
			t.Fatalf("BackupSchedule %s/%s was not understood: its status is %+v", s.Namespace, s.Name, s.Status)
		}
	}
}

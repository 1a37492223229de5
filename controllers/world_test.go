package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

const (
	dataClaim       = "data-orders-db-0"
	startTimeout    = 5 * time.Minute
	deletionTimeout = 10 * time.Minute
	expiryTimeout   = 48 * time.Hour
)

// errKilled is what a manager that was killed gets to hear: nothing it asks for happens any more.
var errKilled = errors.New("the manager was killed")

// world is an API server, the cluster around it, and a manager that can be killed at any write.
type world struct {
	t       *testing.T
	clock   *testutil.Clock
	server  client.WithWatch
	cluster testutil.Cluster
	events  *testutil.Recorder
	// hidden is what the manager's cache does not know yet.
	hidden func(client.Object) bool
	// deny is what the API server refuses to the manager.
	deny func(verb string, object client.Object) error
	// maxRunning is how many backups run at once; 0 for no limit.
	maxRunning int

	writes  []string
	created map[string]int // how often each name was created, by kind and name
	killAt  int            // the manager is killed after its killAt-th write
	dead    bool
}

// newWorld has classes, a bound data claim, and whatever else is given.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return newBareWorld(t, append(objects, testutil.StorageClass(),
		testutil.SnapshotClass(testutil.SnapshotClassName, testutil.Driver, true),
		testutil.Bound(testutil.DataClaim(testutil.Namespace, dataClaim)), testutil.Volume(testutil.Namespace, dataClaim))...)
}

func newBareWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{
		t: t, clock: testutil.NewClock(), events: &testutil.Recorder{}, created: map[string]int{},
		hidden: func(client.Object) bool { return false },
	}
	w.server = testutil.NewFake(t, w.clock, objects...)
	w.cluster = testutil.Cluster{Client: w.server, Now: w.clock.Now}
	return w
}

// common is what a manager that has just started works with: nothing of it lives longer than one reconciliation.
func (w *world) common() controllers.Common {
	live := w.killable(w.server)
	cached := testutil.Cached(live, func(o client.Object) bool { return w.hidden(o) })
	options := controllers.Options{
		AgentImage:      "holdfast:test",
		Images:          map[v1alpha1.Engine]string{v1alpha1.EnginePostgreSQL: "postgres:17"},
		PodStartTimeout: startTimeout, DeletionTimeout: deletionTimeout, ExpiryTimeout: expiryTimeout, MaxRunning: w.maxRunning, Now: w.clock.Now,
	}
	return controllers.Wire(cached, live, w.events, options)
}

func (w *world) killable(server client.WithWatch) client.WithWatch {
	return interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return w.read(func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.read(func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write("create", o, func() error {
				err := c.Create(ctx, o, opts...)
				if err == nil {
					w.created[describe(o)]++
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", o, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write("patch "+name, o, func() error { return c.SubResource(name).Patch(ctx, o, patch, opts...) })
		},
	})
}

func (w *world) read(do func() error) error {
	if w.dead {
		return errKilled
	}
	return do()
}

func (w *world) write(verb string, object client.Object, do func() error) error {
	if w.dead {
		return errKilled
	}
	w.writes = append(w.writes, verb+" "+describe(object))
	w.dead = w.killAt == len(w.writes)
	if w.deny != nil {
		if err := w.deny(verb, object); err != nil {
			return err
		}
	}
	err := do()
	if w.dead {
		return errKilled
	}
	return err
}

func describe(object client.Object) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", object), "*") + " " + object.GetName()
}

// look lets a newly started manager look at an object once.
func (w *world) look(object client.Object) (ctrl.Result, error) {
	w.t.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	if _, isBackup := object.(*v1alpha1.DatabaseBackup); isBackup {
		return (&controllers.BackupReconciler{Common: w.common()}).Reconcile(w.t.Context(), request)
	}
	return (&controllers.RestoreReconciler{Common: w.common()}).Reconcile(w.t.Context(), request)
}

// mustLook looks at an object and expects no error.
func (w *world) mustLook(object client.Object) ctrl.Result {
	w.t.Helper()
	result, err := w.look(object)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// step lets the cluster around the manager act once.
func (w *world) step() {
	w.t.Helper()
	if err := w.cluster.Step(w.t.Context(), testutil.Namespace); err != nil {
		w.t.Fatal(err)
	}
}

// round lets a manager look at every object, and then the cluster act. A manager that was killed is started anew.
func (w *world) round() {
	w.t.Helper()
	for _, object := range append(w.restores(), w.backups()...) {
		if _, err := w.look(object); err != nil && !w.dead {
			w.t.Fatalf("%s: %v", describe(object), err)
		}
		w.dead = false
	}
	w.clock.Advance(time.Second)
	w.step()
}

// settle goes on until the condition holds.
func (w *world) settle(what string, until func() bool) {
	w.t.Helper()
	for range 60 {
		if until() {
			return
		}
		w.round()
	}
	w.t.Fatalf("%s: not after 60 rounds; the last writes were %v", what, w.writes[max(0, len(w.writes)-10):])
}

// quiet lets what ended be tidied up, and checks that the manager then writes nothing any more.
func (w *world) quiet() {
	w.t.Helper()
	for range 3 {
		w.round()
	}
	before := len(w.writes)
	w.round()
	if more := w.writes[before:]; len(more) > 0 {
		w.t.Errorf("the manager still writes, though all has ended: %v", more)
	}
}

func (w *world) backups() []client.Object {
	w.t.Helper()
	return w.list(&v1alpha1.DatabaseBackupList{})
}

func (w *world) restores() []client.Object {
	w.t.Helper()
	return w.list(&v1alpha1.DatabaseRestoreList{})
}

// left is what Holdfast made and has not removed, by kind and name, without owners' names and UIDs.
func (w *world) left() []string {
	w.t.Helper()
	var names []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}, &snapshotv1.VolumeSnapshotList{}} {
		for _, object := range w.list(list) {
			if object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
				names = append(names, describe(object))
			}
		}
	}
	slices.Sort(names)
	return names
}

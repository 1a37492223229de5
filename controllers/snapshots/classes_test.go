package snapshots_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/snapshots"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func cluster(t *testing.T, objects ...client.Object) snapshots.Cluster {
	t.Helper()
	return snapshots.Cluster{Live: testutil.NewFake(t, testutil.NewClock(), objects...)}
}

// failing is a cluster whose API answers every read with an error.
func failing(t *testing.T, err error) snapshots.Cluster {
	t.Helper()
	return snapshots.Cluster{Live: interceptor.NewClient(testutil.NewFake(t, testutil.NewClock()), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err },
	})}
}

// expectStall checks that err ends the object for a reason, with words that help.
func expectStall(t *testing.T, err error, reason string, says ...string) {
	t.Helper()
	stall, ok := flow.AsStall(err)
	if !ok || stall.Reason != reason {
		t.Fatalf("the error is %v, want a Stall for %s", err, reason)
	}
	for _, text := range says {
		if !strings.Contains(stall.Message, text) {
			t.Errorf("the message lacks %q: %s", text, stall.Message)
		}
	}
}

func TestSnapshotClass(t *testing.T) {
	t.Parallel()
	class := testutil.SnapshotClass
	for name, test := range map[string]struct {
		classes []client.Object
		named   string
		want    string
		says    []string // of the Stall, where none is wanted
	}{
		"named":                        {classes: []client.Object{class("a", testutil.Driver, false), class("b", testutil.Driver, true)}, named: "a", want: "a"},
		"named, of another driver":     {classes: []client.Object{class("a", "other.csi", false), class("b", testutil.Driver, true)}, named: "a", says: []string{"a is for driver other.csi", testutil.Driver}},
		"named, absent":                {classes: []client.Object{class("b", testutil.Driver, true)}, named: "a", says: []string{"VolumeSnapshotClass a", "does not exist"}},
		"the driver's default":         {classes: []client.Object{class("a", testutil.Driver, false), class("b", testutil.Driver, true)}, want: "b"},
		"not another driver's default": {classes: []client.Object{class("a", "other.csi", true), class("b", testutil.Driver, false)}, want: "b"},
		"the only one":                 {classes: []client.Object{class("a", testutil.Driver, false)}, want: "a"},
		"several without default":      {classes: []client.Object{class("a", testutil.Driver, false), class("b", testutil.Driver, false)}, says: []string{"a, b", "no default", "spec.volumeSnapshot.className"}},
		"none of the driver":           {classes: []client.Object{class("a", "other.csi", true)}, says: []string{"no VolumeSnapshotClass", testutil.Driver, "mode to Disabled"}},
		"none at all":                  {says: []string{"no VolumeSnapshotClass"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := cluster(t, test.classes...).SnapshotClass(t.Context(), test.named, testutil.Driver)
			if test.want == "" {
				expectStall(t, err, v1alpha1.ReasonSnapshotClassMissing, test.says...)
				return
			}
			if err != nil || got != test.want {
				t.Errorf("the class is %q (%v), want %q", got, err, test.want)
			}
		})
	}
}

func TestSnapshotClassTellsAClusterWithoutTheAPI(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}
	for name, err := range map[string]error{
		"the client knows no such kind": &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: []string{"v1"}},
		"the server knows no such path": apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: "volumesnapshotclasses"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got := failing(t, err).SnapshotClass(t.Context(), "", testutil.Driver)
			expectStall(t, got, v1alpha1.ReasonSnapshotAPIMissing, "snapshot.storage.k8s.io/v1", "mode to Disabled")
		})
	}
}

func TestReadsThatFailAreTriedAgain(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	c := failing(t, down)
	claim := testutil.Bound(testutil.DataClaim("shop", "data"))
	_, classErr := c.SnapshotClass(t.Context(), "", testutil.Driver)
	_, namedErr := c.StorageClass(t.Context(), "fast")
	_, defaultErr := c.StorageClass(t.Context(), "")
	_, claimErr := c.BoundClaim(t.Context(), "shop", "data")
	_, driverErr := c.DriverOfClaim(t.Context(), claim)
	for name, err := range map[string]error{
		"SnapshotClass": classErr, "StorageClass": namedErr, "default StorageClass": defaultErr,
		"BoundClaim": claimErr, "DriverOfClaim": driverErr,
	} {
		if _, stalled := flow.AsStall(err); stalled || !errors.Is(err, down) {
			t.Errorf("%s: the error is %v: an API that is away for a moment ends no backup", name, err)
		}
	}
}

func TestBoundClaim(t *testing.T) {
	t.Parallel()
	pending := testutil.DataClaim("shop", "pending")
	pending.Status.Phase = corev1.ClaimPending
	c := cluster(t, testutil.Bound(testutil.DataClaim("shop", "data")), pending)
	if claim, err := c.BoundClaim(t.Context(), "shop", "data"); err != nil || claim.Name != "data" {
		t.Errorf("the claim is %v (%v)", claim, err)
	}
	_, err := c.BoundClaim(t.Context(), "shop", "pending")
	expectStall(t, err, v1alpha1.ReasonClaimNotBound, "shop/pending", "Pending")
	_, err = c.BoundClaim(t.Context(), "shop", "gone")
	expectStall(t, err, v1alpha1.ReasonClaimNotFound, "shop/gone", "kubectl -n shop get pvc")
}

func TestDriverOfClaim(t *testing.T) {
	t.Parallel()
	local := testutil.Volume("shop", "local")
	local.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt"}}
	c := cluster(t, testutil.Volume("shop", "data"), local)
	if driver, err := c.DriverOfClaim(t.Context(), testutil.DataClaim("shop", "data")); err != nil || driver != testutil.Driver {
		t.Errorf("the driver is %q (%v), want %q", driver, err, testutil.Driver)
	}
	_, err := c.DriverOfClaim(t.Context(), testutil.DataClaim("shop", "local"))
	expectStall(t, err, v1alpha1.ReasonSnapshotClassMissing, "shop/local", "without a CSI driver", "mode to Disabled")
}

func TestStorageClass(t *testing.T) {
	t.Parallel()
	other := &storagev1.StorageClass{Provisioner: "other.csi"}
	other.Name = "fast"
	c := cluster(t, other, testutil.StorageClass())
	for named, want := range map[string]string{"": testutil.StorageClassName, "fast": "fast"} {
		if class, err := c.StorageClass(t.Context(), named); err != nil || class.Name != want {
			t.Errorf("the class for %q is %v (%v), want %s", named, class, err, want)
		}
	}
	_, err := c.StorageClass(t.Context(), "gone")
	expectStall(t, err, v1alpha1.ReasonStorageClassMissing, "StorageClass gone", "spec.staging.storageClassName")
	_, err = cluster(t, other).StorageClass(t.Context(), "")
	expectStall(t, err, v1alpha1.ReasonStorageClassMissing, "no default StorageClass", "spec.staging.storageClassName")
}

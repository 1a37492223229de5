package snapshots_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/snapshots"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// bench is a Taker at work for one backup, with a snapshot controller beside it.
type bench struct {
	snapshots.Taker
	server client.WithWatch
	clock  *testutil.Clock
	world  testutil.Cluster
	owner  *v1alpha1.DatabaseBackup
}

func newBench(t *testing.T) *bench {
	t.Helper()
	clock := testutil.NewClock()
	owner := testutil.Backup("orders").UID("3f2a91c0-1111-4222-8333-444455556666").Build()
	server := testutil.NewFake(t, clock, owner)
	return &bench{
		Taker:  snapshots.Taker{Client: server, Live: server, Now: clock.Now},
		server: server, clock: clock, owner: owner, world: testutil.Cluster{Client: server, Now: clock.Now},
	}
}

func (b *bench) take(t *testing.T, claim string) (v1alpha1.VolumeSnapshotStatus, error) {
	t.Helper()
	return b.Take(t.Context(), snapshots.Wanted{Owner: b.owner, Claim: claim, Class: testutil.SnapshotClassName, ReadyTimeout: 10 * time.Minute})
}

func (b *bench) list(t *testing.T) []snapshotv1.VolumeSnapshot {
	t.Helper()
	var list snapshotv1.VolumeSnapshotList
	if err := b.server.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (b *bench) step(t *testing.T, fate testutil.SnapshotFate) {
	t.Helper()
	b.world.Snapshot = fate
	if err := b.world.Step(t.Context(), testutil.Namespace); err != nil {
		t.Fatal(err)
	}
}

func expectWait(t *testing.T, err error, says string) {
	t.Helper()
	if wait, ok := flow.AsWait(err); !ok || !strings.Contains(wait.Message, says) || wait.After <= 0 {
		t.Fatalf("the error is %v, want a Wait that says %q", err, says)
	}
}

func TestTakeMakesASnapshotOnceAndWaitsForIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		_, err := b.take(t, "data")
		expectWait(t, err, "of claim data is not ready to use yet")
	}
	all := b.list(t)
	if len(all) != 1 {
		t.Fatalf("%d snapshots were made, want 1", len(all))
	}
	made := all[0]
	if *made.Spec.Source.PersistentVolumeClaimName != "data" || *made.Spec.VolumeSnapshotClassName != testutil.SnapshotClassName {
		t.Errorf("the snapshot's spec is %v", made.Spec)
	}
	if metav1.GetControllerOf(&made) != nil {
		t.Error("the snapshot has an owner, and would be collected with it whatever the deletionPolicy says")
	}
	if made.Labels[v1alpha1.LabelOwnerUID] != string(b.owner.UID) || made.Annotations[v1alpha1.AnnotationClaim] != "data" {
		t.Errorf("labels %v and annotations %v do not tell whose it is", made.Labels, made.Annotations)
	}
	b.step(t, testutil.SnapshotReady)
	status, err := b.take(t, "data")
	if err != nil {
		t.Fatal(err)
	}
	if status.Name != made.Name || status.Claim != "data" || status.SnapshotHandle != testutil.Handle(made.Name) ||
		status.RestoreSize.String() != "10Gi" || !status.CreationTime.Time.Equal(testutil.Start) {
		t.Errorf("the status is %+v", status)
	}
}

func TestTakeBearsTroubleUntilTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.take(t, "data")
	expectWait(t, err, "nothing yet")
	b.step(t, testutil.SnapshotTroubled)
	b.clock.Advance(10*time.Minute - time.Second)
	_, err = b.take(t, "data")
	expectWait(t, err, testutil.SnapshotTrouble)
	b.clock.Advance(time.Second)
	_, err = b.take(t, "data")
	expectStall(t, err, v1alpha1.ReasonSnapshotNotReady, testutil.SnapshotTrouble, "spec.volumeSnapshot.readyTimeout (10m0s)", "claim data")
	b.step(t, testutil.SnapshotReady)
	if _, err := b.take(t, "data"); err != nil {
		t.Errorf("a snapshot that became ready is not taken: %v", err)
	}
}

func TestTakeRefusesAForeignSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.take(t, "data")
	expectWait(t, err, "")
	foreign := b.list(t)[0]
	foreign.Labels = nil
	if err := b.server.Update(t.Context(), &foreign); err != nil {
		t.Fatal(err)
	}
	_, err = b.take(t, "data")
	expectStall(t, err, v1alpha1.ReasonNameConflict, foreign.Name)
}

func TestTakeEndsOnARefusalThatWillNotPass(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	for name, test := range map[string]struct {
		refusal error
		stalls  bool
	}{
		"a policy forbids it": {apierrors.NewForbidden(resource, "a", errors.New("exceeded quota: snapshots")), true},
		"it is invalid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "VolumeSnapshot"}, "a", nil), true},
		"the server is away":  {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Client = interceptor.NewClient(b.server, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return test.refusal
				},
			})
			_, err := b.take(t, "data")
			if test.stalls {
				expectStall(t, err, v1alpha1.ReasonRefused, "VolumeSnapshot shop/orders-3f2a91c0-snap-", test.refusal.Error())
				return
			}
			if _, stalled := flow.AsStall(err); stalled || !errors.Is(err, test.refusal) {
				t.Errorf("the error is %v, want %v to be tried again", err, test.refusal)
			}
		})
	}
}

func TestRemoveSparesACopy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.take(t, "data")
	expectWait(t, err, "data")
	copied := b.list(t)[0].DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{
		Namespace: copied.Namespace, Name: "kept-by-hand", Labels: copied.Labels, Annotations: copied.Annotations,
	}
	if err := b.server.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Remove(t.Context(), b.owner); err != nil || left != 1 {
		t.Errorf("%d snapshots are said to be left (%v), want the owner's one: a copy would be waited for in vain", left, err)
	}
	if left := b.list(t); len(left) != 1 || left[0].Name != "kept-by-hand" {
		t.Errorf("left are %v, want the copy alone", left)
	}
}

func TestRemoveDeletesWhatWasMadeForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, claim := range []string{"data-0", "data-1"} {
		_, err := b.take(t, claim)
		expectWait(t, err, claim)
	}
	foreign := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{
		Namespace: testutil.Namespace, Name: "theirs", Labels: map[string]string{v1alpha1.LabelOwnerUID: "another"},
	}}
	if err := b.server.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := b.Remove(t.Context(), b.owner); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.list(t); len(left) != 1 || left[0].Name != "theirs" {
		t.Errorf("left are %v, want the foreign one alone", left)
	}
}

func TestRemoveHasNothingToDoWithoutTheAPI(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}
	taker := snapshots.Taker{Live: failing(t, &meta.NoKindMatchError{GroupKind: kind}).Live}
	if _, err := taker.Remove(t.Context(), testutil.Backup("orders").UID("u").Build()); err != nil {
		t.Errorf("a cluster without snapshots cannot let a backup go: %v", err)
	}
}

package snapshots

import (
	"context"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
)

// poll is how often a snapshot that is being taken is looked at. Snapshots are not watched: their API may be absent
// when the operator starts, and come later.
const poll = 2 * time.Second

// Taker takes the VolumeSnapshots of one owner.
type Taker struct {
	Client client.Client
	Live   client.Reader
	Now    func() time.Time
}

// Wanted is one VolumeSnapshot to take.
type Wanted struct {
	Owner        client.Object
	Claim        string
	Class        string
	ReadyTimeout time.Duration
}

func (w Wanted) name() string { return snapshotName(w.Owner, w.Claim) }

func snapshotName(owner client.Object, claim string) string {
	return jobs.ChildName(owner, "snap-"+jobs.ShortHash(claim))
}

// Take returns the status of a VolumeSnapshot that is ready to use. Until it is, the error is a Wait, and after
// ReadyTimeout a Stall with the snapshot's own message: its status.error may pass, so it ends nothing by itself.
func (t Taker) Take(ctx context.Context, w Wanted) (v1alpha1.VolumeSnapshotStatus, error) {
	snapshot, err := t.ensure(ctx, w)
	if err != nil {
		return v1alpha1.VolumeSnapshotStatus{}, err
	}
	status := v1alpha1.VolumeSnapshotStatus{Name: snapshot.Name, Claim: w.Claim}
	if snapshot.Status == nil || snapshot.Status.ReadyToUse == nil || !*snapshot.Status.ReadyToUse {
		return status, notReady(snapshot, w, t.Now())
	}
	status.RestoreSize = snapshot.Status.RestoreSize
	status.CreationTime = snapshot.Status.CreationTime
	status.SnapshotHandle, err = t.handle(ctx, snapshot)
	return status, err
}

func notReady(snapshot *snapshotv1.VolumeSnapshot, w Wanted, now time.Time) error {
	said := "nothing yet"
	if snapshot.Status != nil && snapshot.Status.Error != nil && snapshot.Status.Error.Message != nil {
		said = *snapshot.Status.Error.Message
	}
	if now.Sub(snapshot.CreationTimestamp.Time) < w.ReadyTimeout {
		return flow.Waiting(poll, "VolumeSnapshot %s of claim %s is not ready to use yet; its driver says: %s",
			snapshot.Name, w.Claim, said)
	}
	return flow.Stalled(v1alpha1.ReasonSnapshotNotReady, "VolumeSnapshot %s of claim %s was not ready to use within "+
		"spec.volumeSnapshot.readyTimeout (%s); its driver says: %s. Look at the snapshot controller and the driver's "+
		"csi-snapshotter, or set spec.volumeSnapshot.mode to Disabled", snapshot.Name, w.Claim, w.ReadyTimeout, said)
}

// ensure returns the wanted VolumeSnapshot, made if it was not there. It has no owner reference: whether it goes with
// its backup is for the deletionPolicy to say, and not for the garbage collector.
func (t Taker) ensure(ctx context.Context, w Wanted) (*snapshotv1.VolumeSnapshot, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	key := client.ObjectKey{Namespace: w.Owner.GetNamespace(), Name: w.name()}
	err := t.Live.Get(ctx, key, snapshot)
	if err == nil {
		return snapshot, jobs.CheckOwner(snapshot, w.Owner)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading VolumeSnapshot %s: %w", key, err)
	}
	snapshot = build(w)
	return snapshot, jobs.CreateOrAdopt(ctx, t.Client, t.Live, w.Owner, snapshot)
}

func build(w Wanted) *snapshotv1.VolumeSnapshot {
	annotations := jobs.OwnerAnnotations(w.Owner)
	annotations[v1alpha1.AnnotationClaim] = w.Claim
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.name(), Namespace: w.Owner.GetNamespace(),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
				v1alpha1.LabelOwnerUID:  string(w.Owner.GetUID()),
			},
			Annotations: annotations,
		},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: &w.Class,
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &w.Claim},
		},
	}
}

func (t Taker) handle(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) (string, error) {
	if snapshot.Status.BoundVolumeSnapshotContentName == nil {
		return "", nil
	}
	content := &snapshotv1.VolumeSnapshotContent{}
	name := *snapshot.Status.BoundVolumeSnapshotContentName
	if err := t.Live.Get(ctx, client.ObjectKey{Name: name}, content); err != nil {
		return "", fmt.Errorf("reading VolumeSnapshotContent %s: %w", name, err)
	}
	if content.Status == nil || content.Status.SnapshotHandle == nil {
		return "", nil
	}
	return *content.Status.SnapshotHandle, nil
}

// Remove deletes the VolumeSnapshots that were made for an owner, and no others, and returns how many are not gone yet.
// A cluster without their API has none.
func (t Taker) Remove(ctx context.Context, owner client.Object) (int, error) {
	var list snapshotv1.VolumeSnapshotList
	err := t.Live.List(ctx, &list, client.InNamespace(owner.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(owner.GetUID())})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("listing VolumeSnapshots: %w", err)
	}
	left := 0
	for i := range list.Items {
		snapshot := &list.Items[i]
		if snapshot.Name != snapshotName(owner, snapshot.Annotations[v1alpha1.AnnotationClaim]) {
			continue // a copy that bears our labels and was made by somebody else
		}
		left++
		if !snapshot.DeletionTimestamp.IsZero() {
			continue
		}
		if err := client.IgnoreNotFound(t.Client.Delete(ctx, snapshot)); err != nil {
			return left, fmt.Errorf("deleting VolumeSnapshot %s: %w", snapshot.Name, err)
		}
	}
	return left, nil
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// kept are the keys and the snapshots that policy says stay: what the test itself laid there, artifacts of backups
// that became Ready, and what a deleted object retains.
type kept struct {
	mu    sync.Mutex
	names map[string]bool
}

func newKept() *kept { return &kept{names: map[string]bool{}} }

func (k *kept) add(names ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		k.names[name] = true
	}
}

func (k *kept) has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[name]
}

// drop says that policy no longer keeps these.
func (k *kept) drop(names ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		delete(k.names, name)
	}
}

// keepBackup notes what stays of a backup that is Ready.
func (k *kept) keepBackup(b *v1alpha1.DatabaseBackup) {
	k.add(backupTraces(b)...)
}

// backupTraces are the names of what a Ready backup left outside its own object.
func backupTraces(b *v1alpha1.DatabaseBackup) []string {
	var names []string
	if _, rest, ok := strings.Cut(b.Status.URL, "s3://"); ok {
		_, key, _ := strings.Cut(rest, "/")
		names = append(names, key, key+manifestSuffix)
	}
	for _, snapshot := range b.Status.VolumeSnapshots {
		names = append(names, "snapshot "+snapshot.Name)
	}
	return names
}

// checkLeftovers fails the spec when something is in the space that no policy keeps. Cleaning is not instant, so it
// looks for a while.
func (s *space) checkLeftovers(ctx context.Context) {
	s.t.Helper()
	if state, ok := tryAwait(ctx, 2*time.Minute, s.nothingLeft); !ok {
		s.t.Errorf("left behind in %s: %s", s.namespace, state)
	}
}

func (s *space) nothingLeft(ctx context.Context) (bool, string) {
	left, err := s.leftovers(ctx)
	if err != nil {
		return false, err.Error()
	}
	return len(left) == 0, strings.Join(left, "; ")
}

func (s *space) leftovers(ctx context.Context) ([]string, error) {
	var backups v1alpha1.DatabaseBackupList
	if err := env.kube.List(ctx, &backups, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	for i := range backups.Items {
		if meta.IsStatusConditionTrue(backups.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			s.kept.keepBackup(&backups.Items[i])
		}
	}
	var left []string
	for _, look := range []func(context.Context) ([]string, error){
		s.leftJobs, s.leftClaims, s.leftSnapshots, s.leftObjects,
	} {
		names, err := look(ctx)
		if err != nil {
			return nil, err
		}
		left = append(left, names...)
	}
	return left, nil
}

var ofHoldfast = client.HasLabels{v1alpha1.LabelOwnerUID}

func (s *space) leftJobs(ctx context.Context) ([]string, error) {
	var jobs batchv1.JobList
	if err := env.kube.List(ctx, &jobs, client.InNamespace(s.namespace), ofHoldfast); err != nil {
		return nil, err
	}
	var left []string
	for _, job := range jobs.Items {
		left = append(left, "Job "+job.Name)
	}
	return left, nil
}

// namesOf names the Jobs, pods, claims and snapshots that bear some labels.
func namesOf(ctx context.Context, namespace string, labels client.MatchingLabels) ([]string, error) {
	var left []string
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &snapshotv1.VolumeSnapshotList{},
	} {
		if err := env.kube.List(ctx, list, client.InNamespace(namespace), labels); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", item, item.(client.Object).GetName()))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (s *space) leftClaims(ctx context.Context) ([]string, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := env.kube.List(ctx, &claims, client.InNamespace(s.namespace), ofHoldfast); err != nil {
		return nil, err
	}
	var left []string
	for _, claim := range claims.Items {
		left = append(left, "PersistentVolumeClaim "+claim.Name)
	}
	return left, nil
}

func (s *space) leftSnapshots(ctx context.Context) ([]string, error) {
	var snapshots snapshotv1.VolumeSnapshotList
	if err := env.kube.List(ctx, &snapshots, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	var left []string
	for _, snapshot := range snapshots.Items {
		if !s.kept.has("snapshot " + snapshot.Name) {
			left = append(left, "VolumeSnapshot "+snapshot.Name)
		}
	}
	return left, nil
}

func (s *space) leftObjects(ctx context.Context) ([]string, error) {
	keys, err := keysOf(ctx, s.bucket)
	if err != nil {
		return nil, ignoreNoBucket(err)
	}
	halves, err := halfUploads(ctx, s.bucket)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, key := range halves {
		left = append(left, "half upload "+key)
	}
	for _, key := range keys {
		if !s.kept.has(key) {
			left = append(left, "object "+key)
		}
	}
	return left, nil
}

// checkNothingLeft looks, after all specs, for what their namespaces left in the cluster and the store.
func (e *environment) checkNothingLeft(failed bool) []string {
	if failed && e.keep {
		fmt.Fprintln(os.Stderr, "e2e: KEEP=1: the namespaces of failed specs stay, so the last check is left out")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var left []string
	_, ok := tryAwait(ctx, 3*time.Minute, func(ctx context.Context) (bool, string) {
		left = e.leftInCluster(ctx)
		return len(left) == 0, ""
	})
	if ok {
		return nil
	}
	return left
}

func (e *environment) leftInCluster(ctx context.Context) []string {
	var left []string
	for _, look := range []func(context.Context) ([]string, error){leftNamespaces, leftVolumes, leftContents, leftBuckets} {
		names, err := look(ctx)
		if err != nil {
			names = []string{err.Error()}
		}
		left = append(left, names...)
	}
	return left
}

func leftNamespaces(ctx context.Context) ([]string, error) {
	var namespaces corev1.NamespaceList
	if err := env.kube.List(ctx, &namespaces, client.HasLabels{labelSuite}); err != nil {
		return nil, err
	}
	var left []string
	for _, namespace := range namespaces.Items {
		var why []string
		for _, condition := range namespace.Status.Conditions {
			why = append(why, condition.Message)
		}
		left = append(left, fmt.Sprintf("Namespace %s (%s)", namespace.Name, strings.Join(why, "; ")))
	}
	return left, nil
}

// ofSuite says whether a namespace is one that the suite names.
func ofSuite(namespace string) bool { return strings.HasPrefix(namespace, "e2e-") }

func leftVolumes(ctx context.Context) ([]string, error) {
	var volumes corev1.PersistentVolumeList
	if err := env.kube.List(ctx, &volumes); err != nil {
		return nil, err
	}
	var left []string
	for _, volume := range volumes.Items {
		if claim := volume.Spec.ClaimRef; claim != nil && ofSuite(claim.Namespace) {
			left = append(left, fmt.Sprintf("PersistentVolume %s of %s/%s", volume.Name, claim.Namespace, claim.Name))
		}
	}
	return left, nil
}

func leftContents(ctx context.Context) ([]string, error) {
	var contents snapshotv1.VolumeSnapshotContentList
	if err := env.kube.List(ctx, &contents); err != nil {
		return nil, err
	}
	var left []string
	for _, content := range contents.Items {
		if of := content.Spec.VolumeSnapshotRef; ofSuite(of.Namespace) {
			left = append(left, fmt.Sprintf("VolumeSnapshotContent %s of %s/%s", content.Name, of.Namespace, of.Name))
		}
	}
	return left, nil
}

// leftBuckets are buckets of the suite, and half uploads in any bucket.
func leftBuckets(ctx context.Context) ([]string, error) {
	buckets, err := env.store.ListBuckets(ctx)
	if err != nil {
		return nil, err
	}
	left := map[string]bool{}
	for _, bucket := range buckets {
		if ofSuite(bucket.Name) {
			left["bucket "+bucket.Name] = true
		}
		halves, err := halfUploads(ctx, bucket.Name)
		if err != nil {
			return nil, err
		}
		for _, key := range halves {
			left["half upload "+bucket.Name+"/"+key] = true
		}
	}
	return slices.Sorted(maps.Keys(left)), nil
}

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestStoreAwayAtUpload takes the store away for a minute just when an artifact is to be uploaded. It is not run beside
// other specs, which need the store.
func TestStoreAwayAtUpload(t *testing.T) {
	s := newSpace(t, "outage")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	release := db.hold("orders", "notes")
	defer release()

	b := s.newBackup("orders", db.database("orders")).create()
	db.awaitDumpWaits()
	scale(t, minioNamespace, minioDeployment, 0)
	away := time.Now()
	t.Cleanup(func() { bringStoreBack(t) })
	release()
	b.awaitStage(v1alpha1.ReasonUploading)
	s.awaitAgent(b, "upload")
	stayAway(t, b, away.Add(time.Minute))
	bringStoreBack(t)
	b.awaitReady()
	checkRestorable(s, db, b, "orders")
}

// stayAway waits until the time has come, and looks meanwhile that the backup does not give up.
func stayAway(t *testing.T, b *backup, until time.Time) {
	t.Helper()
	await(t, "the end of the outage", patience, func(ctx context.Context) (bool, string) {
		now := &v1alpha1.DatabaseBackup{}
		if err := env.kube.Get(ctx, keyOf(b), now); err != nil {
			return false, err.Error()
		}
		if ended, _ := isStalled(now.Status.Conditions); ended {
			t.Fatalf("the backup gave up while the store was away:\n%s", describe(now))
		}
		return time.Now().After(until), "away"
	})
}

// bringStoreBack is called twice when all goes well: scaling to where it is changes nothing.
func bringStoreBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := setReplicas(ctx, minioNamespace, minioDeployment, 1); err != nil {
		t.Errorf("MinIO cannot be brought back: %v", err)
	}
	if state, ok := tryAwait(ctx, 2*time.Minute, func(ctx context.Context) (bool, string) {
		_, err := env.store.ListBuckets(ctx)
		return err == nil, "not answering"
	}); !ok {
		t.Errorf("MinIO did not come back: %s", state)
	}
}

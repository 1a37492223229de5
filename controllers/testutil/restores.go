package testutil

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// SourceURL is the artifact that a restore by URL reads.
const SourceURL = "s3://backups/prod/shop/orders/20261130T200000Z-3f2a91c0.pgdump.zst"

// RestoreBuilder builds a DatabaseRestore.
type RestoreBuilder struct{ object v1alpha1.DatabaseRestore }

// Restore begins a DatabaseRestore from SourceURL.
func Restore(name string) *RestoreBuilder {
	return &RestoreBuilder{v1alpha1.DatabaseRestore{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Generation: 1},
		Spec: v1alpha1.DatabaseRestoreSpec{
			Source:   v1alpha1.RestoreSource{URL: SourceURL, S3: &v1alpha1.S3Source{S3Access: Access(), Prefix: "prod"}},
			Database: Database("orders"),
		},
	}}
}

// In puts the restore into a namespace.
func (b *RestoreBuilder) In(namespace string) *RestoreBuilder {
	b.object.Namespace = namespace
	return b
}

// UID gives the restore a UID of its own choice.
func (b *RestoreBuilder) UID(uid string) *RestoreBuilder {
	b.object.UID = types.UID(uid)
	return b
}

// FromBackup takes a DatabaseBackup for the source, and not a URL.
func (b *RestoreBuilder) FromBackup(name string) *RestoreBuilder {
	b.object.Spec.Source = v1alpha1.RestoreSource{BackupRef: v1alpha1.BackupRef{Name: name}}
	return b
}

// NoSafety disables the safety backup.
func (b *RestoreBuilder) NoSafety() *RestoreBuilder {
	b.object.Spec.SafetyBackup.Mode = v1alpha1.SafetyBackupDisabled
	return b
}

// Timeout sets the time for the whole restore.
func (b *RestoreBuilder) Timeout(timeout time.Duration) *RestoreBuilder {
	b.object.Spec.Timeout = &metav1.Duration{Duration: timeout}
	return b
}

// With changes whatever has no method of its own.
func (b *RestoreBuilder) With(change func(*v1alpha1.DatabaseRestore)) *RestoreBuilder {
	change(&b.object)
	return b
}

// Build returns a new object each time.
func (b *RestoreBuilder) Build() *v1alpha1.DatabaseRestore { return b.object.DeepCopy() }

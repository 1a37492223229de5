// Package testutil builds the objects that tests of the control plane begin with, and plays the parts of the cluster
// around it: the Job controller and the kubelet, the snapshot controller, the garbage collector.
package testutil

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Namespace of every fixture that is not told another one.
const Namespace = "shop"

// Start is when the time of tests on a fake client begins: now, because the fake client itself stamps deletions.
var Start = time.Now().UTC().Truncate(time.Second)

// LongName returns a legal object name of 253 characters, with a dot where a cut of it would end.
func LongName() string {
	return strings.Repeat("orders-of-the-shop.", 14)[:253-len(".end")] + ".end"
}

// BackupBuilder builds a DatabaseBackup.
type BackupBuilder struct{ object v1alpha1.DatabaseBackup }

// Backup begins a DatabaseBackup of one PostgreSQL database, as a small manifest would have it.
func Backup(name string) *BackupBuilder {
	return &BackupBuilder{v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Generation: 1},
		Spec: v1alpha1.DatabaseBackupSpec{
			Database: Database("orders"),
			Storage:  v1alpha1.StorageSpec{S3: Bucket()},
		},
	}}
}

// Database is a PostgreSQL server with the given databases.
func Database(names ...v1alpha1.DatabaseName) v1alpha1.DatabaseSpec {
	return v1alpha1.DatabaseSpec{
		Engine: v1alpha1.EnginePostgreSQL, Host: "orders-db.shop.svc", Names: names,
		CredentialsSecretRef: v1alpha1.DatabaseCredentialsRef{Name: "orders-db"},
		TLS:                  v1alpha1.DatabaseTLS{CASecretRef: v1alpha1.SecretKeyRef{Name: "orders-ca"}},
	}
}

// Access is how the test's store is reached.
func Access() v1alpha1.S3Access {
	return v1alpha1.S3Access{
		Provider: v1alpha1.S3ProviderS3Compatible, Endpoint: "https://minio.minio.svc:9000",
		CredentialsSecretRef: v1alpha1.SecretRef{Name: "s3"}, CASecretRef: v1alpha1.SecretKeyRef{Name: "s3-ca", Key: "tls.crt"},
	}
}

// Bucket is the place in the test's store where backups go.
func Bucket() *v1alpha1.S3Bucket {
	return &v1alpha1.S3Bucket{S3Access: Access(), Bucket: "backups", Prefix: "prod"}
}

// In puts the backup into a namespace.
func (b *BackupBuilder) In(namespace string) *BackupBuilder {
	b.object.Namespace = namespace
	return b
}

// UID gives the backup a UID of its own choice, as the API server of the fake client gives any.
func (b *BackupBuilder) UID(uid string) *BackupBuilder {
	b.object.UID = types.UID(uid)
	return b
}

// Claims names the data claims to snapshot.
func (b *BackupBuilder) Claims(names ...string) *BackupBuilder {
	b.object.Spec.VolumeSnapshot.Claims = names
	return b
}

// SnapshotClass names the VolumeSnapshotClass.
func (b *BackupBuilder) SnapshotClass(name string) *BackupBuilder {
	b.object.Spec.VolumeSnapshot.ClassName = name
	return b
}

// NoSnapshots disables VolumeSnapshots.
func (b *BackupBuilder) NoSnapshots() *BackupBuilder {
	b.object.Spec.VolumeSnapshot.Mode = v1alpha1.VolumeSnapshotDisabled
	return b
}

// Staging names the StorageClass of the staging claim, and its size where it is not empty.
func (b *BackupBuilder) Staging(class, size string) *BackupBuilder {
	b.object.Spec.Staging.StorageClassName = class
	if size != "" {
		b.object.Spec.Staging.Size = resource.MustParse(size)
	}
	return b
}

// Timeout sets the time for the whole backup.
func (b *BackupBuilder) Timeout(timeout time.Duration) *BackupBuilder {
	b.object.Spec.Timeout = &metav1.Duration{Duration: timeout}
	return b
}

// Policy sets the deletionPolicy.
func (b *BackupBuilder) Policy(policy v1alpha1.DeletionPolicy) *BackupBuilder {
	b.object.Spec.DeletionPolicy = policy
	return b
}

// With changes whatever has no method of its own.
func (b *BackupBuilder) With(change func(*v1alpha1.DatabaseBackup)) *BackupBuilder {
	change(&b.object)
	return b
}

// Build returns a new object each time.
func (b *BackupBuilder) Build() *v1alpha1.DatabaseBackup { return b.object.DeepCopy() }

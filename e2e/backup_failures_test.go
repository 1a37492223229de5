//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// backupFailure is one way in which a backup cannot succeed, and what it must say then.
type backupFailure struct {
	name          string
	edit          func(*v1alpha1.DatabaseBackupSpec)
	stage, reason string
	// says are words of the message: the object at fault, and what to do.
	says []string
}

var backupFailures = []backupFailure{
	{"wrong-password", withCredentials("wrong-password"), v1alpha1.ReasonDumpFailed, "AuthenticationFailed",
		[]string{"orders-db", postgresUser, "credentialsSecretRef"}},
	{"no-such-database", withDatabase("nosuch"), v1alpha1.ReasonDumpFailed, "DatabaseNotFound",
		[]string{"nosuch", "names"}},
	{"no-such-bucket", withBucket("e2e-there-is-no-such-bucket"), v1alpha1.ReasonPreflightFailed, "BucketNotFound",
		[]string{"e2e-there-is-no-such-bucket", "bucket"}},
	{"wrong-s3-key", withStoreSecret("wrong-s3"), v1alpha1.ReasonPreflightFailed, "StoreCredentialsRejected",
		[]string{"minio.minio.svc", "secretAccessKey"}},
	{"no-such-secret", withCredentials("nosuch-secret"), v1alpha1.ReasonDumpFailed, "SecretMissing",
		[]string{"nosuch-secret", "password"}},
	{"no-such-store-secret", withStoreSecret("nosuch-s3"), v1alpha1.ReasonPreflightFailed, "SecretMissing",
		[]string{"nosuch-s3", "secretAccessKey"}},
	{"no-such-key", func(spec *v1alpha1.DatabaseBackupSpec) {
		spec.Database.CredentialsSecretRef.PasswordKey = "nosuch-key"
	}, v1alpha1.ReasonDumpFailed, "SecretMissing", []string{"orders-db", "nosuch-key"}},
	{"no-such-claim", withSnapshot(v1alpha1.VolumeSnapshotSpec{Claims: []string{"nosuch-claim"}}),
		v1alpha1.ReasonPreflightFailed, "ClaimNotFound", []string{"nosuch-claim", "claims"}},
	{"no-such-class", withSnapshot(v1alpha1.VolumeSnapshotSpec{Claims: []string{"data-orders-db-0"}, ClassName: "nosuch-class"}),
		v1alpha1.ReasonPreflightFailed, "SnapshotClassMissing", []string{"nosuch-class", "className"}},
	{"no-such-storage-class", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Staging.StorageClassName = "nosuch-storage" },
		v1alpha1.ReasonPreflightFailed, "StorageClassMissing", []string{"nosuch-storage", "storageClassName"}},
	{"no-such-image", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Image = "Holdfast.Test/NoSuch:1" },
		v1alpha1.ReasonDumpFailed, "PodCannotStart", []string{"Holdfast.Test/NoSuch:1", "spec.database.image"}},
	{"other-engine", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Engine = v1alpha1.EngineMySQL },
		v1alpha1.ReasonPreflightFailed, "EngineNotSupported", []string{"MySQL", "PostgreSQL"}},
	{"wrong-authority", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.TLS.CASecretRef.Name = "s3-ca" },
		v1alpha1.ReasonDumpFailed, "ServerCertificateRejected", []string{"orders-db", "ca"}},
	{"wrong-store-authority", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.CASecretRef.Name = "orders-db-ca" },
		v1alpha1.ReasonPreflightFailed, "StoreCertificateRejected", []string{"minio.minio.svc", "ca"}},
	{"no-such-authority", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.TLS.CASecretRef.Name = "nosuch-ca" },
		v1alpha1.ReasonDumpFailed, "SecretMissing", []string{"nosuch-ca", "ca.crt", "spec.database.tls.caSecretRef"}},
	{"no-such-store-authority", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.CASecretRef.Name = "nosuch-s3-ca" },
		v1alpha1.ReasonPreflightFailed, "SecretMissing", []string{"nosuch-s3-ca", "ca.crt", "spec.storage.s3.caSecretRef"}},
	{"closed-database", withDatabase("template0"), v1alpha1.ReasonDumpFailed, "DatabaseNotConnectable",
		[]string{"template0", "ALLOW_CONNECTIONS"}},
	{"no-such-host", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Host = "nosuch-host" },
		v1alpha1.ReasonDumpFailed, "ServerUnreachable", []string{"nosuch-host", "host"}},
}

// TestBackupFailsClearly shows that each wrong input ends a backup for good, with the cause as reason and a message that
// names what is at fault, and that nothing stays.
func TestBackupFailsClearly(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "backup-fails")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	whole := db.fingerprint("orders")
	s.secret("wrong-password", map[string]string{"username": postgresUser, "password": awkwardPassword()})
	s.secret("wrong-s3", map[string]string{"accessKeyID": env.access.accessKeyID, "secretAccessKey": rand.String(40)})

	t.Run("group", func(t *testing.T) {
		for _, failure := range backupFailures {
			t.Run(failure.name, func(t *testing.T) {
				t.Parallel()
				mine := s.forSubtest(t)
				b := mine.newBackup(failure.name, db.database("orders")).edit(failure.edit).attempts(0).create()
				stalled := b.awaitStalled(failure.stage, failure.reason)
				wantMessage(t, stalled, failure.says...)
				checkFailedBackup(t, b)
				checkDumped(t, b, failure.stage != v1alpha1.ReasonPreflightFailed)
			})
		}
	})
	mustEqual(t, "the database that could not be backed up", db.fingerprint("orders"), whole)
}

// checkFailedBackup says whether a failure looks like one to whoever reads the status, and stays one.
func checkFailedBackup(t *testing.T, b *backup) {
	t.Helper()
	if b.Status.URL != "" {
		t.Errorf("a backup that failed has the URL %s", b.Status.URL)
	}
	wantWarning(t, b.space, b.Name, b.Status.CompletionTime)
}

// checkDumped says whether a dump was begun: what can be known beforehand must not cost hours.
func checkDumped(t *testing.T, b *backup, want bool) {
	t.Helper()
	job := "job " + b.Name + "-" + string(b.UID[:8]) + "-dump"
	if _, began := b.space.recorder.everything()[job]; began != want {
		t.Errorf("a dump Job ran: %t, want %t", began, want)
	}
}

// TestBackupTimeout shows that a backup that cannot go on ends at its timeout.
func TestBackupTimeout(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "timeout")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	defer db.hold("orders", "notes")()

	began := time.Now()
	b := s.newBackup("orders", db.database("orders")).edit(func(spec *v1alpha1.DatabaseBackupSpec) {
		spec.Timeout = &metav1.Duration{Duration: 20 * time.Second}
		spec.BackoffLimit = ptr.To(int32(5))
	}).create()
	stalled := b.awaitStalled(v1alpha1.ReasonDumpFailed, v1alpha1.ReasonDeadlineExceeded)
	wantMessage(t, stalled, "timeout", "20s")
	within(t, "a backup with a timeout of 20 s", time.Since(began), 90*time.Second)
}

func withCredentials(secret string) func(*v1alpha1.DatabaseBackupSpec) {
	return func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.CredentialsSecretRef.Name = secret }
}

func withStoreSecret(name string) func(*v1alpha1.DatabaseBackupSpec) {
	return func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.CredentialsSecretRef.Name = name }
}

func withBucket(name string) func(*v1alpha1.DatabaseBackupSpec) {
	return func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.Bucket = name }
}

func withDatabase(name v1alpha1.DatabaseName) func(*v1alpha1.DatabaseBackupSpec) {
	return func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Names = []v1alpha1.DatabaseName{name} }
}

func withSnapshot(snapshot v1alpha1.VolumeSnapshotSpec) func(*v1alpha1.DatabaseBackupSpec) {
	return func(spec *v1alpha1.DatabaseBackupSpec) { spec.VolumeSnapshot = snapshot }
}

//go:build e2e

package e2e

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var createOptions = metav1.CreateOptions{}

// somewhere is a database that validation does not look for.
func somewhere(names ...string) v1alpha1.DatabaseSpec {
	p := server{serverKind: postgresKind, namespace: "default", name: "orders-db"}
	return p.database(names...)
}

type refusedBackup struct {
	name string
	edit func(*v1alpha1.DatabaseBackupSpec)
	says []string
}

var refusedBackups = []refusedBackup{
	{"no host", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Host = "" }, []string{"spec.database.host"}},
	{"no engine", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Engine = "" }, []string{"spec.database.engine"}},
	{"unknown engine", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Engine = "Oracle" },
		[]string{"spec.database.engine", `"PostgreSQL"`}},
	{"port out of range", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.Port = 70000 },
		[]string{"spec.database.port", "65535"}},
	{"no credentials", func(spec *v1alpha1.DatabaseBackupSpec) {
		spec.Database.CredentialsSecretRef = v1alpha1.DatabaseCredentialsRef{}
	}, []string{"credentialsSecretRef"}},
	{"control character in a name", withDatabase("a\nb"), []string{"control characters"}},
	{"no storage", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage = v1alpha1.StorageSpec{} }, []string{"spec.storage"}},
	{"no endpoint", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.Endpoint = "" },
		[]string{"S3Compatible needs an endpoint"}},
	{"endpoint with a path", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.Endpoint = "https://minio/backups" },
		[]string{"endpoint"}},
	{"prefix that climbs", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Storage.S3.Prefix = "a/../b" }, []string{"prefix"}},
	{"claims with snapshots disabled", withSnapshot(v1alpha1.VolumeSnapshotSpec{
		Mode: v1alpha1.VolumeSnapshotDisabled, Claims: []string{"data"},
	}), []string{"mode is Disabled"}},
	{"level too high", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Compression.Level = 99 }, []string{"compression.level", "19"}},
	{"timeout of zero", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Timeout = &metav1.Duration{} },
		[]string{"spec.timeout", "greater than zero"}},
	{"negative backoffLimit", func(spec *v1alpha1.DatabaseBackupSpec) { spec.BackoffLimit = ptr.To(int32(-1)) },
		[]string{"spec.backoffLimit"}},
	{"unknown policy", func(spec *v1alpha1.DatabaseBackupSpec) { spec.DeletionPolicy = "Keep" },
		[]string{"deletionPolicy", `"Retain"`}},
}

// TestBackupManifestsRefused shows that what the schema can refuse is refused at kubectl apply, with a message that names the
// field.
func TestBackupManifestsRefused(t *testing.T) {
	t.Parallel()
	for _, refused := range refusedBackups {
		t.Run(refused.name, func(t *testing.T) {
			s := &space{t: t, namespace: "default", bucket: "some-bucket"}
			b := s.newBackup("refused", somewhere("orders")).edit(refused.edit)
			wantRefusal(t, manifestOf(t, "DatabaseBackup", b.DatabaseBackup), refused.says...)
		})
	}
}

// TestRestoreManifestsRefused is the same for restores.
func TestRestoreManifestsRefused(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct {
		edit func(*v1alpha1.DatabaseRestoreSpec)
		says string
	}{
		"no source": {func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source = v1alpha1.RestoreSource{} }, "source"},
		"two sources": {func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source.BackupRef.Name = "orders" },
			"exactly one of url and backupRef"},
		"url without s3": {func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source.S3 = nil }, "url needs s3"},
		"no s3 url":      {func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source.URL = "https://example.org/a" }, "source.url"},
		"url of a folder": {func(spec *v1alpha1.DatabaseRestoreSpec) { spec.Source.URL += "/" },
			"names an object, not a folder"},
		"storage of no safety backup": {func(spec *v1alpha1.DatabaseRestoreSpec) {
			spec.SafetyBackup = v1alpha1.SafetyBackupSpec{
				Mode: v1alpha1.SafetyBackupDisabled, Storage: &v1alpha1.StorageSpec{S3: &v1alpha1.S3Bucket{
					S3Access: (&space{}).storeAccess(), Bucket: "some-bucket",
				}},
			}
		}, "mode is Disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &space{t: t, namespace: "default", bucket: "some-bucket"}
			r := s.newRestore("refused", "s3://some-bucket/orders.pgdump.zst", somewhere("orders")).edit(refused.edit)
			wantRefusal(t, manifestOf(t, "DatabaseRestore", r.DatabaseRestore), refused.says)
		})
	}
}

func manifestOf(t *testing.T, kind string, obj client.Object) []byte {
	t.Helper()
	raw, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("apiVersion: holdfast.dev/v1alpha1\nkind: "+kind+"\n"), raw...)
}

// apply applies a manifest with kubectl, as a user would, without changing anything.
func apply(t *testing.T, manifest []byte) error {
	t.Helper()
	_, err := kubectl(t.Context(), bytes.NewReader(manifest), "apply", "--dry-run=server", "-f", "-")
	return err
}

func wantRefusal(t *testing.T, manifest []byte, says ...string) {
	t.Helper()
	err := apply(t, manifest)
	if err == nil {
		t.Fatalf("this was not refused:\n%s", manifest)
	}
	for _, word := range says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
}

// TestSpecNeverChanges shows that the spec of an object that exists cannot be edited, while a good manifest is taken.
func TestSpecNeverChanges(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "immutable")
	b := s.newBackup("orders", somewhere("orders")).edit(withSnapshot(v1alpha1.VolumeSnapshotSpec{Claims: []string{"nosuch"}})).create()
	b.awaitStalled(v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonClaimNotFound)
	b.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
	err := env.kube.Update(t.Context(), b.DatabaseBackup)
	if err == nil || !strings.Contains(err.Error(), "never changes") {
		t.Errorf("the spec of a backup was changed, or the refusal is not clear: %v", err)
	}

	good := s.newRestore("good", "s3://some-bucket/orders.pgdump.zst", somewhere("orders"))
	if err := apply(t, manifestOf(t, "DatabaseRestore", good.DatabaseRestore)); err != nil {
		t.Errorf("a good manifest was refused: %v", err)
	}
}

// TestPrinterColumns shows that kubectl get tells what people want to know.
func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	for kind, columns := range map[string][]string{
		"dbb": {"ENGINE", "STATUS", "SIZE", "URL", "AGE"},
		"dbr": {"ENGINE", "STATUS", "SAFETY URL", "AGE"},
	} {
		s := newSpace(t, "columns-"+kind)
		switch kind {
		case "dbb":
			s.newBackup("orders", somewhere("orders")).edit(withSnapshot(v1alpha1.VolumeSnapshotSpec{Claims: []string{"nosuch"}})).create().
				awaitStalled(v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonClaimNotFound)
		case "dbr":
			s.newRestore("orders", "", somewhere("orders")).edit(func(spec *v1alpha1.DatabaseRestoreSpec) {
				spec.Source = v1alpha1.RestoreSource{BackupRef: v1alpha1.BackupRef{Name: "nosuch"}}
			}).create().awaitStalled(v1alpha1.ReasonPreflightFailed, v1alpha1.ReasonSourceNotFound)
		}
		out, err := kubectl(t.Context(), nil, "get", kind, "-o", "wide", "--namespace", s.namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range append(columns, "PostgreSQL", v1alpha1.ReasonPreflightFailed) {
			if !strings.Contains(string(out), column) {
				t.Errorf("kubectl get %s does not show %s:\n%s", kind, column, out)
			}
		}
	}
}

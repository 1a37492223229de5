package v1alpha1_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/testutil/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// The manifests are text, as users write them: a Go type would leave out what is empty and hide what the schema says
// of it.
const backupManifest = `
apiVersion: holdfast.dev/v1alpha1
kind: DatabaseBackup
metadata: {name: orders, namespace: default}
spec:
  database:
    engine: PostgreSQL
    host: orders-db.shop.svc
    names: [orders]
    credentialsSecretRef: {name: orders-db}
  storage:
    s3:
      provider: S3Compatible
      bucket: backups
      prefix: prod
      endpoint: https://minio.minio.svc:9000
      credentialsSecretRef: {name: s3}
      caSecretRef: {name: s3-ca}
`

const restoreManifest = `
apiVersion: holdfast.dev/v1alpha1
kind: DatabaseRestore
metadata: {name: orders, namespace: default}
spec:
  source:
    url: s3://backups/prod/shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst
    s3:
      provider: S3Compatible
      endpoint: https://minio.minio.svc:9000
      credentialsSecretRef: {name: s3}
  database:
    engine: PostgreSQL
    host: orders-db.shop.svc
    credentialsSecretRef: {name: orders-db}
`

func TestBackupRefused(t *testing.T) {
	testRefused(t, backupManifest, append(backupRefusals, databaseRefusals...))
}

func TestRestoreRefused(t *testing.T) {
	testRefused(t, restoreManifest, append(restoreRefusals, databaseRefusals...))
}

func testRefused(t *testing.T, manifest string, cases []refusal) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			err := create(t, object(t, manifest, test.change))
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want the object to be refused as invalid", err)
			}
			if message := err.Error(); !strings.Contains(message, test.path+": ") || !strings.Contains(message, test.want) {
				t.Errorf("the refusal reads\n%s\nand does not name %s with %q", message, test.path, test.want)
			}
		})
	}
}

// databaseWelcome are odd specs that must not be refused.
var databaseWelcome = map[string]fields{
	"as it is":                {},
	"253-character name":      {"metadata.name": strings.Repeat("a", 253)},
	"every database":          {"spec.database.names": "[]"},
	"awkward database names":  {"spec.database.names": `["Ord ers", "--help", "a\"b'c", "a/b", "été", "` + strings.Repeat("x", 63) + `"]`},
	"long name, other engine": {"spec.database.engine": "MySQL", "spec.database.names": "[" + strings.Repeat("x", 64) + "]"},
	"longer name, more bytes": {"spec.database.engine": "MariaDB", "spec.database.names": "[" + strings.Repeat("é", 64) + "]"},
	"databases by number":     {"spec.database.engine": "Redis", "spec.database.names": "['0', '15']"},
	"users kept elsewhere":    {"spec.database.engine": "MongoDB", "spec.database.authSource": "users", "spec.database.names": "[shop-é_1]"},
	"IPv4 host":               {"spec.database.host": "10.0.0.7"},
	"IPv6 host":               {"spec.database.host": "'2001:db8::7'"},
	"IPv6 loopback":           {"spec.database.host": "'::1'"},
	"253-character Secret":    {"spec.database.credentialsSecretRef.name": strings.Repeat("a", 253)},
	"image by digest":         {"spec.database.image": "registry.example.com:5000/a/postgres@sha256:" + strings.Repeat("0", 64)},
	"CA with another key":     {"spec.database.tls": "{mode: VerifyCA, caSecretRef: {name: ca, key: tls.crt}}"},
	"mixed timeout":           {"spec.timeout": "1h30m"},
	"split second":            {"spec.timeout": "1.5s"},
	"no retries":              {"spec.backoffLimit": "0"},
	"size as a number":        {"spec.staging.size": "1073741824"},
	"resources":               {"spec.podTemplate": `{resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 2, memory: 1.5Gi, ephemeral-storage: 1000000000}}}`},
	"size as a quantity":      {"spec.staging": "{storageClassName: fast, size: 20Gi}"},
	"mesh kept out":           {"spec.podTemplate.annotations": `{sidecar.istio.io/inject: "false"}`},
}

func TestBackupTaken(t *testing.T) {
	testTaken(t, backupManifest, databaseWelcome)
	testTaken(t, backupManifest, map[string]fields{
		"claims":               {"spec.volumeSnapshot": "{claims: [data-orders-db-0], className: csi-btrfs, readyTimeout: 1h}"},
		"no snapshots":         {"spec.volumeSnapshot": "{mode: Disabled}"},
		"no claims, no mode":   {"spec.volumeSnapshot": "{mode: Disabled, claims: []}"},
		"AWS":                  {"spec.storage.s3": "{provider: AWS, bucket: backups}"},
		"plain endpoint":       {"spec.storage.s3.endpoint": "http://10.0.0.9:9000/"},
		"IPv6 endpoint":        {"spec.storage.s3.endpoint": "'https://[2001:db8::9]:9000'"},
		"awkward prefix":       {"spec.storage.s3.prefix": "a!/_b.c/d'(e)-*"},
		"dots inside a prefix": {"spec.storage.s3.prefix": "a../..b/v1.0"},
		"best compression":     {"spec.compression": "{level: 19}"},
		"no compression":       {"spec.compression": "{algorithm: None}"},
	})
}

func TestRestoreTaken(t *testing.T) {
	testTaken(t, restoreManifest, databaseWelcome)
	testTaken(t, restoreManifest, map[string]fields{
		"backupRef":               {"spec.source": "{backupRef: {name: " + strings.Repeat("b", 253) + "}}"},
		"pasted storage":          {"spec.source.s3.bucket": "backups", "spec.source.s3.prefix": "prod"},
		"url with spaces":         {"spec.source.url": "s3://backups/my dumps/orders 1.sql.gz"},
		"url with dots":           {"spec.source.url": "s3://backups/a..b/c.dump"},
		"no safety backup":        {"spec.safetyBackup": "{mode: Disabled}"},
		"safety backup elsewhere": {"spec.safetyBackup": "{storage: {s3: {provider: AWS, bucket: others}}, volumeSnapshot: {mode: Disabled}}"},
		"without roles":           {"spec.options": "{ownership: Omit, privileges: Omit}"},
	})
}

func testTaken(t *testing.T, manifest string, cases map[string]fields) {
	t.Helper()
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			if err := create(t, object(t, manifest, change)); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	cases := map[string]fields{
		backupManifest: {
			"spec.database.credentialsSecretRef.usernameKey": "username",
			"spec.database.credentialsSecretRef.passwordKey": "password",
			"spec.storage.s3.region":                         "us-east-1",
			"spec.storage.s3.caSecretRef.key":                "ca.crt",
			"spec.volumeSnapshot.mode":                       "Required",
			"spec.volumeSnapshot.readyTimeout":               "10m",
			"spec.compression":                               "{algorithm: Zstd, level: 3}",
			"spec.timeout":                                   "2h",
			"spec.backoffLimit":                              "2",
			// What depends on the engine or on the operator is decided when the work is done, not here.
			"spec.database.port":  "",
			"spec.database.image": "",
			"spec.staging":        "",
		},
		scheduleManifest: {
			"spec.timeZone": "UTC", "spec.concurrencyPolicy": "Forbid", "spec.failedHistoryLimit": "3", "spec.historyLimit": "100",
			"spec.suspend": "false", "spec.startingDeadlineSeconds": "", "spec.retention": "",
			"spec.template.spec.deletionPolicy": "", "spec.template.spec.timeout": "2h",
			"status": "{observedGeneration: -1}",
		},
		restoreManifest: {
			"spec.source.s3.region":  "us-east-1",
			"spec.safetyBackup":      "{mode: Required}",
			"spec.options.ownership": "Restore", "spec.options.privileges": "Restore",
			"spec.timeout":      "4h",
			"spec.backoffLimit": "2",
		},
	}
	for manifest, want := range cases {
		made := object(t, manifest, nil)
		if err := create(t, made); err != nil {
			t.Fatal(err)
		}
		for path, value := range want {
			checkField(t, made, path, value)
		}
	}
}

func TestSpecNeverChanges(t *testing.T) {
	for manifest, change := range map[string]fields{
		backupManifest:  {"spec.deletionPolicy": "Delete"},
		restoreManifest: {"spec.database.host": "other-db.shop.svc"},
	} {
		c := newClient(t)
		made := object(t, manifest, fields{"metadata.name": "unchanging"})
		if err := c.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		made.SetLabels(map[string]string{"team": "shop"})
		if err := c.Update(t.Context(), made); err != nil {
			t.Errorf("a label is refused: %v", err)
		}
		for path, value := range change {
			setField(t, made, path, value)
		}
		err := c.Update(t.Context(), made)
		want := "the spec of a " + made.GetKind() + " never changes: create a new object instead"
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestUnknownField shows what kubectl asks for by default: a misspelt field is refused, not dropped.
func TestUnknownField(t *testing.T) {
	misspelt := object(t, backupManifest, fields{"spec.deletePolicy": "Delete"})
	err := newClient(t).Create(t.Context(), misspelt, client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.deletePolicy"`) {
		t.Errorf("got %v, want the unknown field to be named", err)
	}
}

// TestStatusTakesNoSpec shows that the status is a subresource: who may write the one may not write the other.
func TestStatusTakesNoSpec(t *testing.T) {
	made := object(t, backupManifest, fields{"metadata.name": "forged", "status": "{url: s3://backups/forged}"})
	if err := create(t, made); err != nil {
		t.Fatal(err)
	}
	checkField(t, made, "status", "{observedGeneration: -1}")
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(kubetest.Start(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create asks the API server whether it would take the object, and fills in what it would store.
func create(t *testing.T, made *unstructured.Unstructured) error {
	t.Helper()
	return newClient(t).Create(t.Context(), made, client.DryRunAll)
}

func object(t *testing.T, manifest string, change fields) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &made.Object); err != nil {
		t.Fatal(err)
	}
	for path, value := range change {
		setField(t, made, path, value)
	}
	return made
}

func setField(t *testing.T, made *unstructured.Unstructured, path, value string) {
	t.Helper()
	steps := strings.Split(path, ".")
	if value == "" {
		unstructured.RemoveNestedField(made.Object, steps...)
		return
	}
	if err := unstructured.SetNestedField(made.Object, parse(t, value), steps...); err != nil {
		t.Fatal(err)
	}
}

func checkField(t *testing.T, made *unstructured.Unstructured, path, want string) {
	t.Helper()
	got, found, err := unstructured.NestedFieldNoCopy(made.Object, strings.Split(path, ".")...)
	switch {
	case err != nil:
		t.Error(err)
	case found != (want != ""):
		t.Errorf("%s: %s is %v, want %q", made.GetKind(), path, got, want)
	case found && !equalYAML(t, got, parse(t, want)):
		t.Errorf("%s: %s is %v, want %s", made.GetKind(), path, got, want)
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	wrapped := &unstructured.Unstructured{}
	document, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: Value, value: " + text + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := wrapped.UnmarshalJSON(document); err != nil { // whole numbers become int64, as the client has them
		t.Fatal(err)
	}
	return wrapped.Object["value"]
}

func equalYAML(t *testing.T, a, b any) bool {
	t.Helper()
	first, errFirst := yaml.Marshal(a)
	second, errSecond := yaml.Marshal(b)
	if errFirst != nil || errSecond != nil {
		t.Fatal(errFirst, errSecond)
	}
	return bytes.Equal(first, second)
}

// TestSamples shows that what people copy from is taken as it is, in the namespace that it names.
func TestSamples(t *testing.T) {
	paths, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d samples: %v", len(paths), err)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := newClient(t).Create(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		manifest, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sample := object(t, string(manifest), nil)
		err = newClient(t).Create(t.Context(), sample, client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		if sample.GetNamespace() != "shop" {
			t.Errorf("%s: namespace is %q, want shop", filepath.Base(path), sample.GetNamespace())
		}
	}
}

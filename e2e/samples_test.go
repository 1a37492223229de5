//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const samplesDir = "../config/samples"

var (
	sampleURL    = regexp.MustCompile(`s3://backups/\S+`)
	sampleEngine = regexp.MustCompile(`(\n +)engine: (\w+)`)
)

// TestSamples applies every sample for PostgreSQL with kubectl; runEngine those of the other engines. Of each, only what is the user's own is replaced: the namespace, the
// bucket, the URL of an artifact and the image, as the test cluster reaches no registry.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "samples")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", small("kept"))
	whole := db.fingerprint("orders")
	s.copySecret("orders-db-ca", "orders-ca")

	url := ""
	for _, sample := range samples(t, s, "DatabaseBackup", postgresKind) {
		s.apply(sample.manifest)
		b := (&backup{s, &v1alpha1.DatabaseBackup{ObjectMeta: s.meta(sample.name)}}).awaitReady()
		if sample.name == "orders" {
			url = b.Status.URL
		}
	}
	for _, sample := range samples(t, s, "DatabaseRestore", postgresKind) {
		db.sql("orders", "DELETE FROM notes")
		s.apply(sampleURL.ReplaceAll(sample.manifest, []byte(url)))
		(&restore{s, &v1alpha1.DatabaseRestore{ObjectMeta: s.meta(sample.name)}}).awaitReady()
		mustEqual(t, "the database restored by the sample "+sample.name, db.fingerprint("orders"), whole)
	}
	for _, sample := range samples(t, s, "BackupSchedule", postgresKind) {
		s.apply(sample.manifest)
		d := &schedule{s, &v1alpha1.BackupSchedule{ObjectMeta: s.meta(sample.name)}}
		d.await("Scheduled", func(now *v1alpha1.BackupSchedule) (bool, error) {
			return isAtStage(now.Status.Conditions, v1alpha1.ReasonScheduled)
		})
		s.remove(d.BackupSchedule)
	}
}

type sample struct {
	name     string
	manifest []byte
}

// samples of one kind for one engine, made to fit the space.
func samples(t *testing.T, s *space, kind string, of serverKind) []sample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fit := strings.NewReplacer("namespace: shop", "namespace: "+s.namespace, ".shop.svc", "."+s.namespace+".svc",
		"bucket: backups", "bucket: "+s.bucket)
	var found []sample
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(raw, &head); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if engine := sampleEngine.FindSubmatch(raw); head.Kind == kind && engine != nil && string(engine[2]) == string(of.engine) {
			fitting := sampleEngine.ReplaceAllString(fit.Replace(string(raw)), "${0}${1}image: "+of.image)
			found = append(found, sample{head.Name, []byte(fitting)})
		}
	}
	if len(found) == 0 {
		t.Fatalf("there is no sample of a %s of %s in %s", kind, of.engine, samplesDir)
	}
	return found
}

func (s *space) apply(manifest []byte) {
	s.t.Helper()
	if _, err := kubectl(s.t.Context(), bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		s.t.Fatalf("%v\n%s", err, manifest)
	}
}

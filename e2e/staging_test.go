//go:build e2e

package e2e

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// incompressible fills a table with about n MiB that no algorithm makes smaller.
func incompressible(mebibytes string) string {
	return `CREATE EXTENSION pgcrypto;
CREATE TABLE blobs (id int PRIMARY KEY, content bytea NOT NULL);
ALTER TABLE blobs ALTER content SET STORAGE EXTERNAL;
INSERT INTO blobs SELECT i, gen_random_bytes(1024) || gen_random_bytes(1024) || gen_random_bytes(1024) || gen_random_bytes(1024)
FROM generate_series(1, 256 * ` + mebibytes + `) AS i;
`
}

var quantityForm = regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?[KMG]i\b`)

// TestStagingTooSmall shows that a staging claim that is too small is said to be so, and that the size that the message
// names is enough.
func TestStagingTooSmall(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "staging")
	db := s.startPostgres("orders-db")
	db.newDatabase("orders", incompressible("24"))

	b := s.newBackup("too-small", db.database("orders")).edit(func(spec *v1alpha1.DatabaseBackupSpec) {
		spec.Staging = stagingOf("8Mi")
	}).create()
	stalled := b.awaitStalled(v1alpha1.ReasonDumpFailed, "StagingFull")
	wantMessage(t, stalled, "8.0 MiB", "staging.size")

	enough := largestQuantity(t, stalled.Message)
	fits := s.newBackup("large-enough", db.database("orders")).edit(func(spec *v1alpha1.DatabaseBackupSpec) {
		spec.Staging = stagingOf(enough)
	}).create().awaitReady()

	r := s.newRestore("too-small", fits.Status.URL, db.database("copy")).edit(func(spec *v1alpha1.DatabaseRestoreSpec) {
		spec.Staging = stagingOf("8Mi")
	}).create()
	wantMessage(t, r.awaitStalled(anyStage, "StagingFull"), "8.0 MiB", "staging.size")
	// Where no size is given, the product chooses one that is enough.
	s.newRestore("by-default", fits.Status.URL, db.database("copy")).edit(func(spec *v1alpha1.DatabaseRestoreSpec) {
		spec.Staging = v1alpha1.StagingSpec{}
	}).create().awaitReady()
	mustEqual(t, "the copy", db.fingerprint("copy"), db.fingerprint("orders"))
}

// largestQuantity is the largest size that a message names, as it names it.
func largestQuantity(t *testing.T, message string) string {
	t.Helper()
	largest, text := resource.MustParse("8Mi"), ""
	for _, found := range quantityForm.FindAllString(message, -1) {
		if size, err := resource.ParseQuantity(found); err == nil && size.Cmp(largest) > 0 {
			largest, text = size, found
		}
	}
	if text == "" {
		t.Fatalf("the message names no size that would be enough: %s", message)
	}
	return text
}

//go:build e2e

package e2e

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	//go:embed testdata/fingerprint.sql
	fingerprintSQL string
	//go:embed testdata/shop.sql
	shopSQL string
	//go:embed testdata/damage.sql
	damageSQL string
)

// fingerprint says all that a restore must bring back of a database: a line for each table with the hash of its rows,
// each sequence, large object, grant, extension, definition, and the properties of the database itself.
type fingerprint []string

func (p *postgres) fingerprint(database string) fingerprint {
	p.t.Helper()
	lines := strings.Split(p.sql(database, fingerprintSQL), "\n")
	if len(lines) < 5 {
		p.t.Fatalf("the fingerprint of %q is too short to tell anything: %q", database, lines)
	}
	return lines
}

// without leaves out the lines of one kind.
func (f fingerprint) without(kind string) fingerprint {
	return slices.DeleteFunc(slices.Clone(f), func(line string) bool { return strings.HasPrefix(line, kind+"|") })
}

// mustEqual fails the spec with the lines in which two fingerprints differ.
func mustEqual(t *testing.T, what string, got, want fingerprint) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Fatalf("%s is not equal to what it should be:\n%s", what, diff)
	}
}

func difference(got, want fingerprint) string {
	var diff strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&diff, "missing: %s\n", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&diff, "surplus: %s\n", line)
		}
	}
	if diff.Len() == 0 && len(got) != len(want) {
		fmt.Fprintf(&diff, "%d lines, want %d\n", len(got), len(want))
	}
	return diff.String()
}

// small is a database that specs on failures fill theirs with, each with other content.
func small(content string) string {
	return fmt.Sprintf(`
CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
INSERT INTO notes (body) SELECT %s || i FROM generate_series(1, 500) AS i;
CREATE SEQUENCE invoice START 1000;
SELECT nextval('invoice');
`, quoteLiteral(content))
}

// slowToRestore is a materialized view that takes seconds to fill, so that a restore stays at its load for so long.
func slowToRestore(seconds int) string {
	return fmt.Sprintf("CREATE MATERIALIZED VIEW slow AS SELECT 1 AS one FROM pg_sleep(%d) WITH NO DATA;\n"+
		"REFRESH MATERIALIZED VIEW slow;\n", seconds)
}

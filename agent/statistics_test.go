package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
)

// Statistics are gathered after the load, when the data is whole: a function of the user's that fails in that fails
// no restore.
func TestAnalyzeThatFailsIsANote(t *testing.T) {
	f := newFixture(t)
	r, db := f.fetched(`CREATE FUNCTION moody(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
		IF current_query() ILIKE 'analyze%' THEN RAISE 'not in the mood'; END IF; RETURN $1; END $$`,
		`CREATE INDEX ON t (moody(v))`)
	note := r.must(contract.VerbLoad).Note
	for _, words := range []string{"ANALYZE of database " + db + " failed", "run it by hand", "not in the mood"} {
		if !strings.Contains(note, words) {
			t.Errorf("the note %q does not say %q", note, words)
		}
	}
	f.says(db, "old")
	f.noLeftovers()
}

package agent

import (
	"slices"
	"strings"
	"testing"
)

// What a client program quotes of a failed statement may hold somebody's password.
func TestQuotedStatementsAreCut(t *testing.T) {
	lines := &lastLines{hide: &redactor{}}
	said := `pg_restore: error: could not execute query: ERROR:  must be superuser to create subscriptions
LINE 1: CREATE SUBSCRIPTION leaky CONNECTION 'password=TopSecret'
Command was: CREATE SUBSCRIPTION leaky CONNECTION 'host=remote
 password=TopSecret' PUBLICATION p;
pg_restore: warning: errors ignored on restore: 1
pg_dump: detail: Query was: COPY public.t (v) TO stdout
`
	if _, err := lines.Write([]byte(said)); err != nil {
		t.Fatal(err)
	}
	got := lines.lines()
	if text := strings.Join(got, "\n"); strings.Contains(text, "TopSecret") {
		t.Errorf("a password is shown:\n%s", text)
	}
	for _, want := range []string{"Command was: CREATE SUBSCRIPTION leaky …", "pg_restore: warning: errors ignored on restore: 1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
}

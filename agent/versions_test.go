package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

func TestOlderServers(t *testing.T) {
	for _, version := range []string{"12", "13", "14"} {
		t.Run(version, func(t *testing.T) {
			s := pgtest.Start(t, version)
			f := newFixtureOn(t, s)
			s.Exec(t, "postgres", `CREATE DATABASE "Full one"`, `CREATE ROLE app PASSWORD 'x'`, `ALTER DATABASE "Full one" OWNER TO app`)
			contents := slices.DeleteFunc(slices.Clone(everything), func(statement string) bool {
				// these servers come without contrib, and older ones know no BEGIN ATOMIC
				return strings.Contains(statement, "EXTENSION") || strings.Contains(statement, "hstore") || strings.Contains(statement, "ATOMIC")
			})
			s.Exec(t, "Full one", contents...)
			want := fingerprint(t, s, "Full one")
			one, all := f.backup("Full one"), f.backup()
			for _, key := range []string{one, all} {
				s.Exec(t, "Full one", `DROP TABLE parent CASCADE`, `SELECT lo_unlink(4711)`)
				f.restore(key, "Full one")
				if got := fingerprint(t, s, "Full one"); got != want {
					t.Errorf("restored from %s:\n%s\nwant:\n%s", key, got, want)
				}
				f.noLeftovers()
			}
		})
	}
}

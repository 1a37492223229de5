package agent_test

import (
	"testing"
)

func TestRoundTrip(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t (id serial PRIMARY KEY, v text)`, `INSERT INTO t (v) SELECT 'row ' || i FROM generate_series(1, 1000) i`)
	key := f.backup(db)
	f.pg.Exec(t, db, `DELETE FROM t WHERE id > 10`)
	f.restore(key, db)
	if got := f.pg.Query(t, db, `SELECT count(*), max(v) FROM t`); got != "1000|row 999" {
		t.Errorf("restored: %s", got)
	}
	f.noLeftovers()
}

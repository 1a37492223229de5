//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

// TestBackupUnderWriteLoad backs up a database while pgbench changes it. Each transaction of pgbench moves the sums of
// four tables alike, so a copy that is not of one moment shows.
func TestBackupUnderWriteLoad(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "load")
	db := s.startPostgres("bank-db")
	db.newDatabase("bank", "")
	db.pgbench(t.Context(), "-i", "-s", "2", "-q")
	stop := db.startLoad("bank")
	defer stop()

	b := s.newBackup("bank", db.database("bank")).snapshotting(db.claim()).create().awaitReady()
	atReady := db.transactions("bank")
	await(t, "more transactions after the backup", patience, func(context.Context) (bool, string) {
		return db.transactions("bank") > atReady, strconv.Itoa(atReady)
	})
	stop()

	s.newRestore("bank-copy", b.Status.URL, db.database("copy")).create().awaitReady()
	db.checkBalances("copy")
	dumped := db.transactions("copy")
	booted := s.bootSnapshot(readySnapshot(t, b, db.claim()), db.name)
	booted.checkBalances("bank")
	snapshotted := booted.transactions("bank")
	if dumped == 0 || snapshotted < dumped || atReady < snapshotted {
		t.Errorf("transactions: %d in the dump, %d in the snapshot, %d when the backup was Ready: each should have "+
			"those before it, and the load should have run at the dump", dumped, snapshotted, atReady)
	}
}

func (p *postgres) pgbench(ctx context.Context, args ...string) {
	p.t.Helper()
	if _, err := execIn(ctx, p.namespace, p.pod(), nil, append([]string{"pgbench", "-U", postgresUser, "bank"}, args...)...); err != nil {
		p.t.Fatalf("pgbench: %v", err)
	}
}

// startLoad runs pgbench until the returned function is called, and waits until it has begun.
func (p *postgres) startLoad(database string) (stop func()) {
	p.t.Helper()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(p.t.Context())
	go func() {
		defer close(done)
		// That it ends with an error is its normal end: its connections are cut below. The rate leaves the two cores
		// that everything shares some air.
		_, _ = execIn(ctx, p.namespace, p.pod(), nil, "pgbench", "-U", postgresUser, "-c", "2", "-R", "100", "-T", "1200", database)
	}()
	await(p.t, "pgbench to write", patience, func(context.Context) (bool, string) {
		return p.transactions(database) > 0, "none yet"
	})
	return func() {
		cut := `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'`
		if _, err := p.trySQL(context.Background(), "postgres", cut); err != nil {
			p.t.Errorf("pgbench cannot be stopped: %v", err)
		}
		cancel()
		<-done
	}
}

func (p *postgres) transactions(database string) int {
	p.t.Helper()
	n, err := strconv.Atoi(p.sql(database, "SELECT count(*) FROM pgbench_history"))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *postgres) checkBalances(database string) {
	p.t.Helper()
	sums := p.sql(database, `SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
		(SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)`)
	parts := strings.Split(sums, "|")
	for _, part := range parts[1:] {
		if part != parts[0] {
			p.t.Errorf("the sums of %s on %s do not agree, so it is not of one moment: %s", database, p.name, sums)
			return
		}
	}
}

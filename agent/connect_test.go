package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

func TestServerThatLetsNobodyIn(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE secret_table (i int)`)
	f.pg.Exec(t, "postgres", `CREATE ROLE weak LOGIN PASSWORD 'weak:pass'`)
	t.Cleanup(func() { f.pg.Exec(t, "postgres", `DROP ROLE weak`) })
	for name, c := range map[string]struct {
		change    func(j *job)
		reason    string
		retryable bool
		words     []string
	}{
		"wrong password": {func(j *job) { j.use(credentials(t, "postgres", "wrong:one")) }, contract.ReasonAuthenticationFailed, false,
			[]string{"password", `"postgres"`, "credentialsSecretRef"}},
		"unknown role": {func(j *job) { j.use(credentials(t, "nobody here", "wrong:one")) }, contract.ReasonAuthenticationFailed, false,
			[]string{"nobody here"}},
		"absent database": {func(j *job) { j.task.Database.Databases = []string{"not there"} }, contract.ReasonDatabaseNotFound, false,
			[]string{`"not there"`, "spec.database.names"}},
		"second database absent": {func(j *job) { j.task.Database.Databases = []string{db, "not there"} }, contract.ReasonDatabaseNotFound, false,
			[]string{`"not there"`}},
		"nothing listens":  {func(j *job) { j.task.Database.Port = 1 }, contract.ReasonServerUnreachable, true, []string{"127.0.0.1:1", "network policies"}},
		"no such host":     {func(j *job) { j.task.Database.Host = "db.invalid" }, contract.ReasonServerUnreachable, true, []string{"db.invalid"}},
		"no right to read": {func(j *job) { j.use(credentials(t, "weak", "weak:pass")) }, contract.ReasonPermissionDenied, false, []string{"table secret_table", "weak"}},
		"no TLS":           {func(j *job) { j.task.Database.TLSMode = engine.TLSRequire }, contract.ReasonServerCertificate, false, []string{"offers no TLS", "Disable"}},
		"bad TLS mode":     {func(j *job) { j.task.Database.TLSMode = "Maybe" }, contract.ReasonInvalidTask, false, []string{"Maybe"}},
		"unknown engine":   {func(j *job) { j.task.Database.Engine = "Oracle" }, contract.ReasonEngineNotSupported, false, []string{"Oracle", "PostgreSQL"}},
		"other version":    {func(j *job) { j.task.Version = 99 }, contract.ReasonInvalidTask, false, []string{"99"}},
		"password with a line break": {func(j *job) { j.use(credentials(t, "postgres", pgtest.Password+"\n\n")) }, contract.ReasonAuthenticationFailed, false,
			nil},
		"no user name": {func(j *job) { os.Remove(filepath.Join(j.use(credentials(t, "x", "y")), "username")) }, contract.ReasonSecretMissing, true,
			[]string{`Secret "orders-db" of namespace "shop" is absent or has no key "username": create it, or correct the reference (spec.database.credentialsSecretRef`}},
		"no CA": {func(j *job) {
			j.task.Database.TLSMode, j.task.Database.CAFile = engine.TLSVerifyCA, filepath.Join(t.TempDir(), "ca.crt")
		}, contract.ReasonSecretMissing, true,
			[]string{`Secret "orders-ca" of namespace "shop" is absent or has no key "root.pem": create it, or correct the reference (spec.database.tls.caSecretRef)`}},
		"empty CA":       {func(j *job) { j.task.Database.TLSMode, j.task.Database.CAFile = engine.TLSVerifyFull, emptyFile(t) }, contract.ReasonSecretMissing, true, []string{`"orders-ca"`}},
		"empty password": {func(j *job) { j.use(credentials(t, "x", "\n")) }, contract.ReasonSecretMissing, true, []string{`no key "password"`}},
	} {
		t.Run(name, func(t *testing.T) {
			j := f.job(db)
			c.change(j)
			j.task.Verb = contract.VerbDump
			checkFailure(t, j.agent().Run(t.Context(), j.task), c.reason, c.retryable, c.words...)
			if left, _ := os.ReadDir(j.staging); len(left) > 0 {
				t.Errorf("left on staging: %v", left)
			}
		})
	}
}

func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// use takes other credentials.
func (j *job) use(dir string) string {
	j.task.Database.UsernameFile, j.task.Database.PasswordFile = filepath.Join(dir, "username"), filepath.Join(dir, "password")
	return dir
}

func TestDatabaseThatMayNotBeConnectedTo(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE ROLE outsider LOGIN PASSWORD 'outsider'`)
	f.pg.Exec(t, "postgres", `REVOKE CONNECT ON DATABASE `+quoted(db)+` FROM PUBLIC`)
	t.Cleanup(func() { f.pg.Exec(t, "postgres", `DROP ROLE outsider`) })
	j := f.job(db)
	j.use(credentials(t, "outsider", "outsider"))
	j.mustFail(contract.VerbDump, contract.ReasonPermissionDenied, false, "GRANT CONNECT ON DATABASE")
}

func TestDatabaseThatLetsNobodyIn(t *testing.T) {
	f := newFixture(t)
	open, closed := f.pg.Database(t, `CREATE TABLE t (i int)`), f.pg.Database(t, `CREATE TABLE t (i int)`)
	f.pg.Exec(t, "postgres", "ALTER DATABASE "+quoted(closed)+" ALLOW_CONNECTIONS false")
	for _, names := range [][]string{{"template0"}, {closed}, {open, closed}} {
		last := names[len(names)-1]
		f.job(names...).mustFail(contract.VerbDump, contract.ReasonDatabaseNotConnectable, false, last, "spec.database.names",
			"ALTER DATABASE "+quoted(last)+" ALLOW_CONNECTIONS true")
	}
}

// What an interrupted DROP DATABASE left is in nobody's way but that of who names it.
func TestDatabaseThatWasHalfDropped(t *testing.T) {
	s := pgtest.Start(t, "15")
	f := newFixtureOn(t, s)
	s.Exec(t, "postgres", `CREATE DATABASE whole`, `CREATE DATABASE half`, `UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half'`)
	f.job("half").mustFail(contract.VerbDump, contract.ReasonDatabaseNotConnectable, false, "half", "DROP DATABASE")
	f.job("whole", "half").mustFail(contract.VerbDump, contract.ReasonDatabaseNotConnectable, false, "half", "DROP DATABASE")
	key := f.backup()
	if found := f.restoreJob(key).must(contract.VerbInspect).Source.Databases; !slices.Equal(found, []string{"postgres", "whole"}) {
		t.Errorf("the dump of the server holds %q", found)
	}
}

// An authority that nothing is held against is not missed.
func TestCAThatNobodyAsksFor(t *testing.T) {
	f := newFixture(t)
	j := f.job(f.pg.Database(t, `CREATE TABLE t (i int)`))
	j.task.Database.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	j.must(contract.VerbDump)
}

func TestTLSModes(t *testing.T) {
	s := pgtest.Start(t, "15")
	ca := s.EnableTLS(t)
	f := newFixtureOn(t, s)
	s.Exec(t, "postgres", `CREATE DATABASE d`)
	f.job("d").must(contract.VerbDump)
	f.checkTLSModes(t, "d", ca)
}

func TestClientProgramsThatAreNotThere(t *testing.T) {
	f := newFixture(t)
	db := f.pg.Database(t, `CREATE TABLE t (i int)`)
	key := f.backup(db)
	t.Setenv("PATH", t.TempDir())
	f.job(db).mustFail(contract.VerbDump, contract.ReasonClientMissing, false, "pg_dump", "postgres:15", "spec.database.image")
	f.restoreJob(key, db).mustFail(contract.VerbInspect, contract.ReasonClientMissing, false, "pg_restore", "spec.database.image")
}

func TestClientOlderThanTheServer(t *testing.T) {
	for _, version := range []string{"16", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			f := newFixtureOn(t, pgtest.Start(t, version))
			f.job("postgres").mustFail(contract.VerbDump, contract.ReasonClientTooOld, false, "postgres:"+version, "15.", "spec.database.image")
			f.job().mustFail(contract.VerbDump, contract.ReasonClientTooOld, false, "postgres:"+version)
		})
	}
}

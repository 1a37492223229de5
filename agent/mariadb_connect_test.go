package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
)

func TestMariaDBThatLetsNobodyIn(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (i INT)")
	for title, c := range map[string]struct {
		change    func(j *job)
		reason    string
		retryable bool
		words     []string
	}{
		"wrong password":   {func(j *job) { j.use(credentials(t, "root", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{`"root"`, "credentialsSecretRef"}},
		"unknown user":     {func(j *job) { j.use(credentials(t, "nobody here", "wrong:one")) }, contract.ReasonAuthenticationFailed, false, []string{"nobody here"}},
		"absent database":  {func(j *job) { j.task.Database.Databases = []string{"not there"} }, contract.ReasonDatabaseNotFound, false, []string{`"not there"`, "spec.database.names"}},
		"one of two":       {func(j *job) { j.task.Database.Databases = []string{name, "gone"} }, contract.ReasonDatabaseNotFound, false, []string{`"gone"`}},
		"the server's own": {func(j *job) { j.task.Database.Databases = []string{"mysql"} }, contract.ReasonDatabaseNotConnectable, false, []string{"mysql"}},
		"nothing listens":  {func(j *job) { j.task.Database.Port = 1 }, contract.ReasonServerUnreachable, true, []string{"127.0.0.1:1", "network policies"}},
		"no such host":     {func(j *job) { j.task.Database.Host = "db.invalid" }, contract.ReasonServerUnreachable, true, []string{"db.invalid"}},
		"no TLS there":     {func(j *job) { j.task.Database.TLSMode = engine.TLSRequire }, contract.ReasonServerCertificate, false, []string{"offers no TLS", "tls.mode"}},
	} {
		t.Run(title, func(t *testing.T) {
			f.t = t
			j := f.job(name)
			c.change(j)
			j.mustFail(contract.VerbDump, c.reason, c.retryable, c.words...)
		})
	}
}

func TestMariaDBPrivilegesThatAreMissing(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (i INT)", "INSERT INTO t VALUES (7)")
	f.db.Exec(t, "", "CREATE USER weak@'%' IDENTIFIED BY 'weak:pass'")
	t.Cleanup(func() { f.db.Exec(t, "", "DROP USER weak@'%'") })
	secret := credentials(t, "weak", "weak:pass")
	all := []string{"SELECT", "SHOW VIEW", "TRIGGER", "EVENT"}
	for _, lacks := range all {
		f.db.Exec(t, "", "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON "+mariadbtest.Quote(name)+".* TO weak@'%'", "REVOKE "+lacks+" ON "+mariadbtest.Quote(name)+".* FROM weak@'%'")
		j := f.job(name)
		j.use(secret)
		j.mustFail(contract.VerbDump, contract.ReasonPermissionDenied, false, "lacks "+lacks+" on", "GRANT "+lacks+" ON `"+name)
	}
	f.db.Exec(t, "", "GRANT "+strings.Join(all, ", ")+" ON "+mariadbtest.Quote(name)+".* TO weak@'%'")
	j := f.job(name)
	j.use(secret)
	j.mustFail(contract.VerbDump, contract.ReasonPermissionDenied, false, "mysql.proc")
	f.db.Exec(t, "", "GRANT SELECT ON mysql.proc TO weak@'%'")
	key := func() string {
		j := f.job(name)
		j.use(secret)
		return j.backup()
	}()
	r := f.restoreJob(key, name)
	r.use(secret)
	r.mustFail(contract.VerbInspect, contract.ReasonPermissionDenied, false, "INSERT", "GRANT ")
	f.job() // a whole server holds accounts
	j = f.job()
	j.use(secret)
	j.mustFail(contract.VerbDump, contract.ReasonPermissionDenied, false, "accounts")
	f.db.Exec(t, "", "GRANT ALL ON "+mariadbtest.Quote(name)+".* TO weak@'%'", "GRANT ALL ON `holdfast\\_%`.* TO weak@'%'", "UPDATE "+mariadbtest.Quote(name)+".t SET i = 8")
	r.must(contract.VerbInspect)
	r.fetch()
	r.must(contract.VerbLoad)
	if got := f.db.Query(t, name, "SELECT i FROM t"); got != "7" {
		t.Errorf("restored by a weak user: %s", got)
	}
}

// A password may hold every byte but NUL.
func TestMariaDBPasswordOfEveryByte(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (i INT)")
	var password strings.Builder
	for c := byte(1); c < 0x80; c++ {
		password.WriteByte(c)
	}
	password.WriteString("ßü😀 ")
	quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password.String()) + "'"
	f.db.Exec(t, "", "CREATE USER odd@'%' IDENTIFIED BY "+quoted, "GRANT ALL ON *.* TO odd@'%'")
	t.Cleanup(func() { f.db.Exec(t, "", "DROP USER odd@'%'") })
	j := f.job(name)
	j.use(credentials(t, "odd", password.String()))
	j.backup()
}

func TestMariaDBTLSModes(t *testing.T) {
	s := mariadbtest.Start(t)
	ca := s.EnableTLS(t)
	f := newMariaFixtureOn(t, s)
	s.Exec(t, "", "CREATE DATABASE d", "CREATE TABLE d.t (i INT)", "CREATE USER safe@'%' IDENTIFIED BY 'safe:pass' REQUIRE SSL", "GRANT ALL ON *.* TO safe@'%'")
	f.secret = credentials(t, "safe", "safe:pass")
	j := f.job("d")
	j.mustFail(contract.VerbDump, contract.ReasonAuthenticationFailed, false)
	f.checkTLSModes(t, "d", ca)
}

package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
)

// Without owners, what was made for another account belongs to who restores it.
func TestMariaDBOptionsLeaveDefinersOut(t *testing.T) {
	f := newMariaFixture(t)
	f.db.Exec(t, "", "CREATE USER maker@'%' IDENTIFIED BY 'maker'", "GRANT ALL ON *.* TO maker@'%'")
	name := f.db.Database(t, "CREATE TABLE t (i INT)", "CREATE DEFINER=maker@'%' VIEW v AS SELECT * FROM t", "CREATE DEFINER=maker@'%' TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.i = 1",
		"CREATE DEFINER=maker@'%' FUNCTION fu () RETURNS INT DETERMINISTIC RETURN 1", "CREATE DEFINER=maker@'%' EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2036-01-01' DO DELETE FROM t")
	key := f.backup(name)
	f.db.Exec(t, "", "DROP USER maker@'%'")
	r := f.restoreJob(key, name)
	r.fetch()
	r.mustFail(contract.VerbLoad, contract.ReasonRoleMissing, false, "maker@%", "spec.options.ownership", "was not touched")
	r.task.Restore.OmitOwnership = true
	r.must(contract.VerbLoad)
	got := f.db.Query(t, name, "SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() UNION ALL SELECT DEFINER FROM information_schema.TRIGGERS WHERE "+
		"TRIGGER_SCHEMA = DATABASE() UNION ALL SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() UNION ALL SELECT DEFINER FROM "+
		"information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()")
	if want := strings.TrimSuffix(strings.Repeat("root@%\n", 4), "\n"); got != want {
		t.Errorf("the definers are %q", got)
	}
	f.noLeftovers()
}

// A database that came to be after the inspection is not replaced: nothing holds what would be lost.
func TestMariaDBThatNobodySaved(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('old')")
	key := f.backup(name)
	f.db.Exec(t, name, "UPDATE t SET v = 'new'")
	r := f.restoreJob(key, name)
	r.fetch()
	r.task.Restore.SavedOnly = true
	r.mustFail(contract.VerbLoad, contract.ReasonTargetNotSaved, false, name, "was not touched")
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "new" {
		t.Errorf("the database says %q", got)
	}
	r.task.Restore.Saved = []string{name}
	r.must(contract.VerbLoad)
	if got := f.db.Query(t, name, "SELECT v FROM t"); got != "old" {
		t.Errorf("restored: %q", got)
	}
	f.noLeftovers()
}

// Foreign keys of others would follow the old tables, so they are told before anything is done.
func TestMariaDBForeignKeysOfOthers(t *testing.T) {
	f := newMariaFixture(t)
	name := f.db.Database(t, "CREATE TABLE t (i INT PRIMARY KEY)")
	key := f.backup(name)
	other := mariadbtest.Name(t) + "_other"
	f.db.Create(t, other, "", "CREATE TABLE c (i INT, CONSTRAINT leads FOREIGN KEY (i) REFERENCES "+mariadbtest.Quote(name)+".t (i))")
	f.restoreJob(key, name).mustFail(contract.VerbInspect, contract.ReasonSwapFailed, false, name, other+".c", "leads")
}

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestWholeServer backs up every database and the roles of a server, and restores them into another one.
func TestWholeServer(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "server")
	old, fresh := s.startPostgres("old"), s.startPostgres("new")
	appPassword := rand.String(20)
	old.newDatabase(awkwardDatabase, shopSQL)
	old.newDatabase("second", small("second"))
	old.sql("postgres", "ALTER ROLE shop_reader PASSWORD "+quoteLiteral(appPassword)+" CONNECTION LIMIT 7; "+
		"GRANT CONNECT ON DATABASE second TO shop_reader; ALTER ROLE shop_reader SET work_mem = '5MB'")
	names, roles := old.databases(), old.roles()

	b := s.newBackup("server", old.database()).create().awaitReady()
	_, key := splitURL(t, b.Status.URL)
	held := readManifest(t, s.bucket, key).Databases
	if !slices.Contains(held, awkwardDatabase) || !slices.Contains(held, "second") {
		t.Errorf("the manifest names the databases %q, want both of the server", held)
	}
	fresh.newDatabase("second", small("in the way"))
	s.newRestore("server", b.Status.URL, fresh.database()).create().awaitReady()

	if got := fresh.databases(); !slices.Equal(got, names) {
		t.Errorf("the new server has the databases %q, want %q", got, names)
	}
	mustEqual(t, "the roles", fresh.roles(), roles)
	for _, name := range []string{awkwardDatabase, "second"} {
		mustEqual(t, "the database "+name, fresh.fingerprint(name), old.fingerprint(name))
	}
	fresh.mustLogIn(t, "shop_reader", appPassword, awkwardDatabase)
	// The two servers' superusers have one name and two passwords: the new server's Secret must still be true.
	checkSecretStillOpens(t, s, fresh)
}

// TestOneDatabaseOfServer restores one of the databases of a whole server's artifact.
func TestOneDatabaseOfServer(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "one-of-many")
	db := s.startPostgres("orders-db")
	db.newDatabase("first", small("first"))
	db.newDatabase("second", small("second"))
	first, second := db.fingerprint("first"), db.fingerprint("second")
	b := s.newBackup("server", db.database()).create().awaitReady()

	changed := "UPDATE notes SET body = 'damaged'"
	db.sql("first", changed)
	db.sql("second", changed)
	damaged := db.fingerprint("first")
	s.newRestore("second", b.Status.URL, db.database("second")).create().awaitReady()
	mustEqual(t, "the database that was chosen", db.fingerprint("second"), second)
	mustEqual(t, "the database that was not chosen", db.fingerprint("first"), damaged)

	r := s.newRestore("absent", b.Status.URL, db.database("third")).attempts(0).create()
	stalled := r.awaitStalled(v1alpha1.ReasonInspectionFailed, "DatabaseNotFound")
	wantMessage(t, stalled, "third")
	if difference(damaged, first) == "" {
		t.Error("the damage does not show in the fingerprint")
	}
}

// roles of the server with all that dumps carry of them, but the password of the user that the suite works with.
func (p *postgres) roles() fingerprint {
	p.t.Helper()
	return strings.Split(p.sql("postgres", `
		SELECT 'role', rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit, rolbypassrls,
		       CASE WHEN rolname = current_user THEN '' ELSE md5(coalesce(rolpassword, '')) END
		FROM pg_authid WHERE rolname !~ '^pg_' ORDER BY rolname COLLATE "C";
		SELECT 'member', pg_get_userbyid(roleid), pg_get_userbyid(member), admin_option FROM pg_auth_members
		WHERE pg_get_userbyid(roleid) !~ '^pg_' ORDER BY 2, 3;
		SELECT 'setting', pg_get_userbyid(setrole), setconfig FROM pg_db_role_setting WHERE setdatabase = 0 ORDER BY 2`), "\n")
}

// mustLogIn opens a connection with a password, over the network as an application does.
func (p *postgres) mustLogIn(t *testing.T, user, password, database string) {
	t.Helper()
	out, err := execIn(t.Context(), p.namespace, p.pod(), strings.NewReader("SELECT current_user"),
		"env", "PGPASSWORD="+password, "PGDATABASE="+database, "psql", "-XqAt", "-h", "127.0.0.1", "-U", user)
	if err != nil || strings.TrimSpace(string(out)) != user {
		t.Errorf("%s cannot log in with its password after the restore: %q, %v", user, out, err)
	}
}

// checkSecretStillOpens logs in with what the Secret says, as the next backup will.
func checkSecretStillOpens(t *testing.T, s *space, p *postgres) {
	t.Helper()
	values, err := env.sets.CoreV1().Secrets(s.namespace).Get(t.Context(), p.name, getOptions)
	if err != nil {
		t.Fatal(err)
	}
	p.mustLogIn(t, postgresUser, string(values.Data["password"]), "postgres")
	s.newBackup("after-the-restore", p.database("second")).create().awaitReady()
}

// awaitDatabases waits until the server has just these databases.
func (p *postgres) awaitDatabases(want []string) {
	p.t.Helper()
	await(p.t, "the databases of before", patience, func(context.Context) (bool, string) {
		got := p.databases()
		return slices.Equal(got, want), strings.Join(got, ", ")
	})
}

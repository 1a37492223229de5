//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// postgresUser is the server's superuser.
const postgresUser = serverUser

// postgresKind is a small server. It syncs to disk as a real one does, since its volumes are snapshotted while it runs.
var postgresKind = serverKind{
	engine:    v1alpha1.EnginePostgreSQL,
	image:     postgresImage,
	port:      5432,
	container: postgresContainer,
	volumes:   []corev1.Volume{emptyVolume("run")},
	ping:      []string{"psql", "-XqAt", "-U", postgresUser, "-d", "postgres", "-c", "SELECT 1"},
}

func postgresContainer() corev1.Container {
	const dataDir = "/var/lib/postgresql/data"
	return corev1.Container{
		Args: []string{"postgres", "-c", "shared_buffers=16MB", "-c", "max_wal_size=128MB", "-c", "min_wal_size=32MB",
			"-c", "max_connections=40", "-c", "autovacuum_naptime=5min", "-c", "log_checkpoints=off"},
		Env: []corev1.EnvVar{
			{Name: "PGDATA", Value: dataDir + "/pgdata"},
			{Name: "POSTGRES_USER", Value: postgresUser},
			{Name: "POSTGRES_DB", Value: "postgres"},
			{Name: "POSTGRES_PASSWORD_FILE", Value: "/credentials/password"},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: dataDir},
			{Name: "run", MountPath: "/var/run/postgresql"},
		},
	}
}

// postgres is a PostgreSQL server.
type postgres struct{ server }

// startPostgres starts a server and waits until it answers.
func (s *space) startPostgres(name string) *postgres {
	s.t.Helper()
	s.secret(name, map[string]string{"username": postgresUser, "password": awkwardPassword()})
	return &postgres{s.run(postgresKind, s.set(postgresKind, name))}
}

// bootSnapshot starts a server on a claim that is made from a VolumeSnapshot of another server's claim.
func (s *space) bootSnapshot(snapshot, of string) *postgres {
	s.t.Helper()
	name := "from-snapshot"
	spec := claimSpec("1Gi")
	spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot,
	}
	s.create(&corev1.PersistentVolumeClaim{ObjectMeta: s.meta(name), Spec: spec})
	set := s.setWithoutClaim(postgresKind, name, of)
	set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		},
	})
	return &postgres{s.run(postgresKind, set)}
}

// forSubtest is the same server, seen from a subtest.
func (p *postgres) forSubtest(t *testing.T) *postgres {
	sub := *p
	sub.t = t
	return &sub
}

// trySQL runs a script in a database and returns what it printed, rows as lines and fields parted by a bar.
func (p *postgres) trySQL(ctx context.Context, database, script string) (string, error) {
	// psql takes a name with an equals sign in it for a whole connection string, but not when it comes from here.
	out, err := p.exec(ctx, strings.NewReader(script),
		"env", "PGDATABASE="+database, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-U", postgresUser)
	return strings.TrimRight(out, "\n"), err
}

func (p *postgres) sql(database, script string) string {
	p.t.Helper()
	out, err := p.trySQL(p.t.Context(), database, script)
	if err != nil {
		p.t.Fatalf("SQL in %q on %s: %v", database, p.name, err)
	}
	return out
}

// newDatabase makes a database and fills it.
func (p *postgres) newDatabase(name, script string) {
	p.t.Helper()
	p.sql("postgres", "CREATE DATABASE "+quoteIdent(name))
	p.sql(name, script)
}

// databases of the server, in order.
func (p *postgres) databases() []string {
	p.t.Helper()
	return strings.Split(p.sql("postgres", `SELECT datname FROM pg_database ORDER BY datname COLLATE "C"`), "\n")
}

func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteLiteral(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

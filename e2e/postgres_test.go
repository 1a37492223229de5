//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	postgresUID  = 999
	postgresUser = "keeper"
	dataDir      = "/var/lib/postgresql/data"
)

// postgres is a PostgreSQL server in a space, over TLS with a certificate of its own.
type postgres struct {
	t         *testing.T
	namespace string
	// name of the StatefulSet, of its Service and of the Secret with the user name and the password.
	name string
	user string
}

// awkwardPassword holds every character that ever broke a connection string.
func awkwardPassword() string {
	return rand.String(16) + `@:/%'" \#?&=+$` + "ü`{}" + rand.String(4)
}

// startPostgres starts a server whose data lie on a new claim, data-<name>-0, and waits until it answers.
func (s *space) startPostgres(name string) *postgres {
	s.t.Helper()
	s.secret(name, map[string]string{"username": postgresUser, "password": awkwardPassword()})
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec:       claimSpec("1Gi"),
	}
	set := s.postgresSet(name, name)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	return s.run(set)
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
	set := s.postgresSet(name, of)
	set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		},
	})
	return s.run(set)
}

func (s *space) run(set *appsv1.StatefulSet) *postgres {
	s.t.Helper()
	cert := newCertificate(s.t, set.Name+"."+s.namespace+".svc")
	s.secret(set.Name+"-tls", map[string]string{"tls.crt": cert.certificate, "tls.key": cert.key})
	s.secret(set.Name+"-ca", map[string]string{"ca.crt": cert.authority})
	s.create(&corev1.Service{ObjectMeta: s.meta(set.Name), Spec: corev1.ServiceSpec{
		Selector: set.Spec.Selector.MatchLabels,
		Ports:    []corev1.ServicePort{{Name: "postgres", Port: 5432}},
	}})
	s.create(set)
	p := &postgres{t: s.t, namespace: s.namespace, name: set.Name, user: postgresUser}
	p.awaitReady()
	return p
}

// forSubtest is the same server, seen from a subtest.
func (p *postgres) forSubtest(t *testing.T) *postgres {
	sub := *p
	sub.t = t
	return &sub
}

func (p *postgres) pod() string   { return p.name + "-0" }
func (p *postgres) claim() string { return "data-" + p.name + "-0" }
func (p *postgres) host() string  { return p.name + "." + p.namespace + ".svc" }

// database is the server with these databases, as a backup or a restore of its own namespace names it.
func (p *postgres) database(names ...string) v1alpha1.DatabaseSpec {
	spec := v1alpha1.DatabaseSpec{
		Engine:               v1alpha1.EnginePostgreSQL,
		Host:                 p.host(),
		CredentialsSecretRef: v1alpha1.DatabaseCredentialsRef{Name: p.name},
		TLS: v1alpha1.DatabaseTLS{
			Mode:        v1alpha1.TLSVerifyFull,
			CASecretRef: v1alpha1.SecretKeyRef{Name: p.name + "-ca"},
		},
		Image: postgresImage,
	}
	for _, name := range names {
		spec.Names = append(spec.Names, v1alpha1.DatabaseName(name))
	}
	return spec
}

func (p *postgres) awaitReady() {
	p.t.Helper()
	await(p.t, "the PostgreSQL "+p.name, patience, func(ctx context.Context) (bool, string) {
		var pod corev1.Pod
		if err := env.kube.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.pod()}, &pod); err != nil {
			return false, err.Error()
		}
		if !podReady(&pod) {
			return false, string(pod.Status.Phase) + " " + containerStates(&pod)
		}
		// The port is open before a recovery from the log has ended.
		_, err := p.trySQL(ctx, "postgres", "SELECT 1")
		return err == nil, fmt.Sprint(err)
	})
}

// scale sets whether the server runs, 1 or 0.
func (p *postgres) scale(replicas int32) {
	p.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := env.kube.Patch(p.t.Context(), set, patch); err != nil {
		p.t.Fatalf("the PostgreSQL %s cannot be scaled: %v", p.name, err)
	}
	if replicas > 0 {
		p.awaitReady()
		return
	}
	awaitGone(p.t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.pod()}})
}

// trySQL runs a script in a database and returns what it printed, rows as lines and fields parted by a bar.
func (p *postgres) trySQL(ctx context.Context, database, script string) (string, error) {
	// psql takes a name with an equals sign in it for a whole connection string, but not when it comes from here.
	out, err := execIn(ctx, p.namespace, p.pod(), strings.NewReader(script),
		"env", "PGDATABASE="+database, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-U", p.user)
	return strings.TrimRight(string(out), "\n"), err
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

func claimSpec(size string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To(volumeClass),
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	}
}

// postgresSet is a small server under the restricted pod security standard. It syncs to disk as a real one does,
// since its volumes are snapshotted while it runs.
func (s *space) postgresSet(name, credentials string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		ServiceName: name,
		Selector:    &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken:  ptr.To(false),
				TerminationGracePeriodSeconds: ptr.To(int64(30)),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(postgresUID)), FSGroup: ptr.To(int64(postgresUID)),
					// A clone of a snapshot would get group write on its data directory, and PostgreSQL refuses that.
					FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
					SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{postgresContainer()},
				Volumes: []corev1.Volume{
					secretVolume("tls", name+"-tls"), secretVolume("credentials", credentials),
					{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
			},
		},
	}}
}

func postgresContainer() corev1.Container {
	return corev1.Container{
		Name: "postgres", Image: postgresImage, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"postgres", "-c", "shared_buffers=16MB", "-c", "max_wal_size=128MB", "-c", "min_wal_size=32MB",
			"-c", "max_connections=40", "-c", "autovacuum_naptime=5min", "-c", "log_checkpoints=off"},
		Env: []corev1.EnvVar{
			{Name: "PGDATA", Value: dataDir + "/pgdata"},
			{Name: "POSTGRES_USER", Value: postgresUser},
			{Name: "POSTGRES_DB", Value: "postgres"},
			{Name: "POSTGRES_PASSWORD_FILE", Value: "/credentials/password"},
		},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5432)},
		}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: dataDir},
			{Name: "tls", MountPath: "/tls", ReadOnly: true},
			{Name: "credentials", MountPath: "/credentials", ReadOnly: true},
			{Name: "run", MountPath: "/var/run/postgresql"},
		},
	}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(int32(0o440))},
	}}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
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
	// serverUID is the user that every database server runs as.
	serverUID = 999
	// serverUser is who Holdfast, and the test, connects as.
	serverUser = "keeper"
)

// serverKind is an engine's server, as the suite runs it.
type serverKind struct {
	engine v1alpha1.Engine
	// image of the server, which carries the client tools too.
	image string
	port  int32
	// container of the pod, with the program, its arguments and its mounts.
	container func() corev1.Container
	// volumes beside data, tls and credentials.
	volumes []corev1.Volume
	// ping is a command in the pod that succeeds once the server takes statements.
	ping []string
}

// server is a database server in a space, over TLS with a certificate of its own.
type server struct {
	serverKind

	t         *testing.T
	namespace string
	// name of the StatefulSet, of its Service and of the Secret with the user name and the password.
	name string
}

// awkwardPassword holds every character that ever broke a connection string.
func awkwardPassword() string {
	return rand.String(16) + `@:/%'" \#?&=+$` + "ü`{}" + rand.String(4)
}

// run starts a server from a set that set made, and waits until it answers.
func (s *space) run(kind serverKind, set *appsv1.StatefulSet) server {
	s.t.Helper()
	cert := newCertificate(s.t, set.Name+"."+s.namespace+".svc")
	s.secret(set.Name+"-tls", map[string]string{"tls.crt": cert.certificate, "tls.key": cert.key})
	s.secret(set.Name+"-ca", map[string]string{"ca.crt": cert.authority})
	s.create(&corev1.Service{ObjectMeta: s.meta(set.Name), Spec: corev1.ServiceSpec{
		Selector: set.Spec.Selector.MatchLabels,
		Ports:    []corev1.ServicePort{{Name: "database", Port: kind.port}},
	}})
	s.create(set)
	started := server{serverKind: kind, t: s.t, namespace: s.namespace, name: set.Name}
	started.awaitReady()
	return started
}

func (s server) pod() string   { return s.name + "-0" }
func (s server) claim() string { return "data-" + s.name + "-0" }
func (s server) host() string  { return s.name + "." + s.namespace + ".svc" }

// database is the server with these databases, as a backup or a restore of its own namespace names it.
func (s server) database(names ...string) v1alpha1.DatabaseSpec {
	spec := v1alpha1.DatabaseSpec{
		Engine:               s.engine,
		Host:                 s.host(),
		CredentialsSecretRef: v1alpha1.DatabaseCredentialsRef{Name: s.name},
		TLS: v1alpha1.DatabaseTLS{
			Mode:        v1alpha1.TLSVerifyFull,
			CASecretRef: v1alpha1.SecretKeyRef{Name: s.name + "-ca"},
		},
		Image: s.image,
	}
	for _, name := range names {
		spec.Names = append(spec.Names, v1alpha1.DatabaseName(name))
	}
	return spec
}

// exec runs a command in the server's pod and returns what it printed.
func (s server) exec(ctx context.Context, stdin io.Reader, command ...string) (string, error) {
	out, err := execIn(ctx, s.namespace, s.pod(), stdin, command...)
	return string(out), err
}

func (s server) awaitReady() {
	s.t.Helper()
	await(s.t, fmt.Sprintf("the %s %s", s.engine, s.name), patience, func(ctx context.Context) (bool, string) {
		var pod corev1.Pod
		if err := env.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.pod()}, &pod); err != nil {
			return false, err.Error()
		}
		if !podReady(&pod) {
			return false, string(pod.Status.Phase) + " " + containerStates(&pod)
		}
		// The port is open before a recovery from the log has ended.
		_, err := s.exec(ctx, nil, s.ping...)
		return err == nil, fmt.Sprint(err)
	})
}

// scale sets whether the server runs, 1 or 0.
func (s server) scale(replicas int32) {
	s.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := env.kube.Patch(s.t.Context(), set, patch); err != nil {
		s.t.Fatalf("the %s %s cannot be scaled: %v", s.engine, s.name, err)
	}
	if replicas > 0 {
		s.awaitReady()
		return
	}
	awaitGone(s.t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.pod()}})
}

// set is a server under the restricted pod security standard, whose data lie on a new claim, data-<name>-0.
func (s *space) set(kind serverKind, name string) *appsv1.StatefulSet {
	set := s.setWithoutClaim(kind, name, name)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec("1Gi"),
	}}
	return set
}

func (s *space) setWithoutClaim(kind serverKind, name, credentials string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	volumes := []corev1.Volume{secretVolume("tls", name+"-tls"), secretVolume("credentials", credentials)}
	return &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		ServiceName: name,
		Selector:    &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken:  ptr.To(false),
				TerminationGracePeriodSeconds: ptr.To(int64(30)),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(serverUID)), FSGroup: ptr.To(int64(serverUID)),
					// A clone of a snapshot would get group write on its data directory, and PostgreSQL refuses that.
					FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
					SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{kind.restricted()},
				Volumes:    append(volumes, kind.volumes...),
			},
		},
	}}
}

// restricted is the kind's container with what all of them have in common.
func (k serverKind) restricted() corev1.Container {
	c := k.container()
	c.Name, c.Image, c.ImagePullPolicy = "server", k.image, corev1.PullIfNotPresent
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(k.port)},
	}}
	c.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
	c.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: "tls", MountPath: "/tls", ReadOnly: true},
		corev1.VolumeMount{Name: "credentials", MountPath: "/credentials", ReadOnly: true})
	return c
}

func claimSpec(size string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To(volumeClass),
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(int32(0o440))},
	}}
}

func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const enginesImage = "holdfast.test/engines:dev"

// engineCase is what the flow of TestEngines needs to know of an engine.
type engineCase struct {
	kind serverKind
	// setup are the files that the image's entrypoint reads, which make the user with the password.
	setup func(user, password string) map[string]string
	// client is the command in the server's pod that runs a script from its standard input in a database.
	client func(database string) []string
	// orders is the database that is backed up; copy and wayBack are names that nothing has yet.
	orders, copy, wayBack string
	// fill makes the database, damage changes it for the worse, content prints all that a restore must bring back.
	fill, damage, content string
	// write is one write that changes two counters alike, and balance prints both and no other number: equal, unless the copy is
	// of two moments.
	write, balance string
	// broken is a dump by others that goes wrong behind what can be known beforehand, and whyBroken the reason that is given.
	broken    []byte
	whyBroken string
	failures  []backupFailure
}

// engineContainer is a container of the image that has them all.
func engineContainer(name string) func() corev1.Container {
	return func() corev1.Container {
		return corev1.Container{Args: []string{name}, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	}
}

// engineServer is a server of one of the cases.
type engineServer struct {
	server
	engineCase
}

func (s *space) startEngine(c engineCase, name string) *engineServer {
	s.t.Helper()
	password := awkwardPassword()
	files := c.setup(serverUser, password)
	files["username"], files["password"] = serverUser, password
	s.secret(name, files)
	return &engineServer{s.run(c.kind, s.set(c.kind, name)), c}
}

func (e *engineServer) script(database, text string) string {
	e.t.Helper()
	out, err := e.exec(e.t.Context(), strings.NewReader(text), e.client(database)...)
	if err != nil {
		e.t.Fatalf("a script in %q on %s: %v\n%s", database, e.name, err, out)
	}
	return strings.TrimRight(out, "\n")
}

// fingerprint is what content prints.
func (e *engineServer) fingerprint(database string) fingerprint {
	e.t.Helper()
	lines := strings.Split(e.script(database, e.content), "\n")
	if len(lines) < 5 {
		e.t.Fatalf("the fingerprint of %q is too short to tell anything: %q", database, lines)
	}
	return lines
}

// keepWriting writes until the returned function is called.
func (e *engineServer) keepWriting() (stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		batch := strings.Repeat(e.write+"\n", 50)
		for ctx.Err() == nil {
			if out, err := e.exec(ctx, strings.NewReader(batch), e.client(e.orders)...); err != nil && ctx.Err() == nil {
				e.t.Errorf("the write load on %s: %v\n%s", e.name, err, out)
				return
			}
		}
	}()
	await(e.t, "the first writes", patience, func(context.Context) (bool, string) {
		counters := e.counters(e.orders)
		return counters[0] != "0", counters[0]
	})
	return sync.OnceFunc(func() { cancel(); <-done })
}

var numbers = regexp.MustCompile(`\d+`)

// counters that each write changes alike.
func (e *engineServer) counters(database string) [2]string {
	e.t.Helper()
	both := numbers.FindAllString(e.script(database, e.balance), -1)
	if len(both) != 2 {
		e.t.Fatalf("the counters of %q are %q", database, both)
	}
	return [2]string(both)
}

// runEngine is the main job of an engine, whole: a backup under write load, a damage, a restore by URL and the way back from
// it; then what must fail clearly, and lose nothing.
func runEngine(t *testing.T, c engineCase) {
	t.Parallel()
	s := newSpace(t, strings.ToLower(string(c.kind.engine)))
	db := s.startEngine(c, "orders-db")
	db.script("", c.fill)
	whole := db.fingerprint(c.orders)
	stop := db.keepWriting()
	defer stop()
	b := s.newBackup("orders", db.database(c.orders)).snapshotting(db.claim()).create().awaitReady()
	stop()
	checkArtifact(t, b)

	s.newRestore("copy", b.Status.URL, db.database(c.copy)).create().awaitReady()
	mustEqual(t, "the copy", db.fingerprint(c.copy), whole)
	if both := db.counters(c.copy); both[0] != both[1] || both[0] == "0" {
		t.Errorf("the counters of the copy are %s and %s: it is not of one moment, or nothing was written", both[0], both[1])
	}

	db.script(c.orders, c.damage)
	damaged := db.fingerprint(c.orders)
	if difference(damaged, whole) == "" {
		t.Fatal("the damage does not show in the fingerprint, which proves nothing then")
	}
	r := s.newRestore("again", b.Status.URL, db.database(c.orders)).create().awaitReady()
	mustEqual(t, "the restored database", db.fingerprint(c.orders), whole)
	s.newRestore("way-back", r.safetyBackup().Status.URL, db.database(c.wayBack)).create().awaitReady()
	mustEqual(t, "the safety artifact, restored,", db.fingerprint(c.wayBack), damaged)
	checkEngineSamples(s, db)
	checkEngineFailures(s, db, b)
	checkServerLost(s, db, b, whole)
}

// checkEngineSamples applies the engine's samples.
func checkEngineSamples(s *space, db *engineServer) {
	s.t.Helper()
	s.copySecret("orders-db-ca", "orders-ca")
	for _, sample := range samples(s.t, s, "DatabaseBackup", db.serverKind) {
		s.apply(sample.manifest)
		(&backup{s, &v1alpha1.DatabaseBackup{ObjectMeta: s.meta(sample.name)}}).awaitReady()
	}
}

// checkEngineFailures shows that what cannot succeed says why, and leaves the database as it was.
func checkEngineFailures(s *space, db *engineServer, b *backup) {
	s.t.Helper()
	whole := db.fingerprint(db.orders)
	s.secret("wrong-password", map[string]string{"username": serverUser, "password": awkwardPassword()})
	bucket, key := splitURL(s.t, b.Status.URL)
	cut := s.put("elsewhere/cut", cutHalf(readObject(s.t, bucket, key).bytes))
	broken := s.put("elsewhere/broken", db.broken)
	failures := append([]backupFailure{
		{"wrong-password", withCredentials("wrong-password"), v1alpha1.ReasonDumpFailed, "AuthenticationFailed",
			[]string{db.host(), serverUser, "credentialsSecretRef"}},
		{"wrong-authority", func(spec *v1alpha1.DatabaseBackupSpec) { spec.Database.TLS.CASecretRef.Name = "s3-ca" },
			v1alpha1.ReasonDumpFailed, "ServerCertificateRejected", []string{db.host(), "ca"}},
	}, db.failures...)
	s.t.Run("failures", func(t *testing.T) {
		for _, failure := range failures {
			t.Run(failure.name, func(t *testing.T) {
				t.Parallel()
				mine := s.forSubtest(t)
				failed := mine.newBackup(failure.name, db.database(db.orders)).edit(failure.edit).attempts(0).create()
				wantMessage(t, failed.awaitStalled(failure.stage, failure.reason), failure.says...)
				checkFailedBackup(t, failed)
			})
		}
		for name, restore := range map[string]struct{ url, reason string }{"cut": {cut, "ArtifactCorrupt"}, "broken": {broken, db.whyBroken}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := s.forSubtest(t).newRestore(name, restore.url, db.database(db.orders)).attempts(0).create()
				r.await("the end", func(now *v1alpha1.DatabaseRestore) (bool, error) { return isStalled(now.Status.Conditions) })
				checkStalled(t, r.Status.Conditions, anyStage, restore.reason)
			})
		}
	})
	mustEqual(s.t, "the database after what failed", db.fingerprint(db.orders), whole)
}

// checkServerLost takes the server away: a backup says so, and a restore that it is taken from for a moment ends with all of
// the artifact in place.
func checkServerLost(s *space, db *engineServer, b *backup, whole fingerprint) {
	s.t.Helper()
	db.scale(0)
	lost := s.newBackup("server-lost", db.database(db.orders)).attempts(0).create()
	wantMessage(s.t, lost.awaitStalled(v1alpha1.ReasonDumpFailed, "ServerUnreachable"), db.host())
	db.scale(1)
	db.script(db.orders, db.damage)
	r := s.newRestore("server-restarts", b.Status.URL, db.database(db.orders)).create()
	r.awaitStage(v1alpha1.ReasonRestoring)
	db.scale(0)
	db.scale(1)
	r.awaitReady()
	mustEqual(s.t, "the database whose server was away during its restore", db.fingerprint(db.orders), whole)
}

// copySecret lays a Secret under another name.
func (s *space) copySecret(from, to string) {
	s.t.Helper()
	secret, err := env.sets.CoreV1().Secrets(s.namespace).Get(s.t.Context(), from, getOptions)
	if err != nil {
		s.t.Fatal(err)
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(bytes.Clone(value))
	}
	s.secret(to, data)
}

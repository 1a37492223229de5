//go:build e2e

package e2e

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// hold locks a table against every reader, so that pg_dump waits for it, until the returned function is called.
func (p *postgres) hold(database, table string) (release func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends when its session is ended below.
		_, _ = p.trySQL(ctx, database, "SET application_name = 'e2e-hold'; BEGIN; LOCK TABLE "+quoteIdent(table)+
			" IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3600);")
	}()
	await(p.t, "the lock on "+table, patience, func(ctx context.Context) (bool, string) {
		n, err := p.trySQL(ctx, database, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.application_name = 'e2e-hold' AND l.mode = 'AccessExclusiveLock' AND l.granted AND a.datname = current_database()`)
		return err == nil && n != "0", n
	})
	return func() {
		end := `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'e2e-hold' AND datname = ` + quoteLiteral(database)
		_, err := p.trySQL(context.Background(), "postgres", end)
		cancel()
		<-done
		if err != nil {
			p.t.Errorf("the lock on %s cannot be released: %v", table, err)
		}
	}
}

// awaitDumpWaits waits until pg_dump waits for the table that hold locked.
func (p *postgres) awaitDumpWaits() {
	p.t.Helper()
	await(p.t, "pg_dump to wait for the lock", patience, func(ctx context.Context) (bool, string) {
		n, err := p.trySQL(ctx, "postgres", `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND application_name <> 'e2e-hold'`)
		return err == nil && n != "0", n
	})
}

// agentPods are the pods that do a stage's work for an object and have not ended.
func (s *space) agentPods(ctx context.Context, owner client.Object, stage string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := env.kube.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{
		v1alpha1.LabelOwnerUID: string(owner.GetUID()), v1alpha1.LabelStage: stage,
	})
	var active []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			active = append(active, pod)
		}
	}
	return active, err
}

// awaitAgent waits until the agent of a stage runs, and returns its pod.
func (s *space) awaitAgent(owner client.Object, stage string) *corev1.Pod {
	s.t.Helper()
	var running *corev1.Pod
	await(s.t, "a running "+stage+" pod", patience, func(ctx context.Context) (bool, string) {
		pods, err := s.agentPods(ctx, owner, stage)
		if err != nil || len(pods) == 0 {
			return false, "none"
		}
		running = &pods[0]
		return running.Status.Phase == corev1.PodRunning, string(running.Status.Phase) + " " + containerStates(running)
	})
	return running
}

// dump runs pg_dump in the server's own pod and returns what it wrote.
func (p *postgres) dump(database string, args ...string) []byte {
	p.t.Helper()
	connection := "dbname='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(database) + "'"
	out, err := execIn(p.t.Context(), p.namespace, p.pod(), nil, append([]string{"pg_dump", "-U", postgresUser, "-d", connection}, args...)...)
	if err != nil {
		p.t.Fatalf("pg_dump in the server's pod: %v", err)
	}
	return out
}

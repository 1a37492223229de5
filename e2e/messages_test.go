//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wantMessage says whether a message for people holds each of these words, and is one that can be read.
func wantMessage(t *testing.T, condition metav1.Condition, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(strings.ToLower(condition.Message), strings.ToLower(word)) {
			t.Errorf("the message of %s/%s does not say %q: %s", condition.Type, condition.Reason, word, condition.Message)
		}
	}
	if n := len(condition.Message); n < 20 || n > 2300 {
		t.Errorf("the message of %s/%s has %d characters: %s", condition.Type, condition.Reason, n, condition.Message)
	}
}

// wantWarning says whether an object of ours that failed has an event that warns of it.
func wantWarning(t *testing.T, s *space, name string, ended *metav1.Time) {
	t.Helper()
	if ended == nil {
		t.Errorf("%s failed and has no completionTime", name)
	} else if killedAround(ended.Time) {
		return
	}
	await(t, "a warning about "+name, 30*time.Second, func(ctx context.Context) (bool, string) {
		var events corev1.EventList
		if err := env.kube.List(ctx, &events, client.InNamespace(s.namespace)); err != nil {
			return false, err.Error()
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Type == corev1.EventTypeWarning && event.Message != "" {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d other events", len(events.Items))
	})
}

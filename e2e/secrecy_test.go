//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// checkSecrets fails the spec when a value of any Secret of the space stands where people without access to Secrets
// can read it: pod specs, Jobs, events, agents' logs, the status of our objects, the manager's log.
func (s *space) checkSecrets(ctx context.Context) {
	s.t.Helper()
	needles, err := s.secretValues(ctx)
	if err != nil {
		s.t.Errorf("the Secrets of %s cannot be read: %v", s.namespace, err)
	}
	places := s.recorder.everything()
	places["log of the manager"] = managerLog(ctx, 100_000)
	if places["objects of Holdfast"], err = s.ourObjects(ctx); err != nil {
		s.t.Error(err)
	}
	for place, text := range places {
		for name, needle := range needles {
			if strings.Contains(text, needle) {
				s.t.Errorf("the value of the Secret %s stands in: %s", name, place)
			}
		}
	}
}

// secretValues are the values to look for, raw and in base64. A password with awkward characters is escaped wherever
// it is written down, so its longest plain part is looked for.
func (s *space) secretValues(ctx context.Context) (map[string]string, error) {
	var secrets corev1.SecretList
	if err := env.kube.List(ctx, &secrets, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	needles := map[string]string{}
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			if !strings.Contains(strings.ToLower(key), "pass") && key != "secretAccessKey" {
				continue
			}
			name := secret.Name + "/" + key
			needles[name] = longestPlainPart(string(value))
			needles[name+" in base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString(value), "=")
		}
	}
	return needles, nil
}

func longestPlainPart(value string) string {
	longest := ""
	for _, part := range strings.FieldsFunc(value, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func (s *space) ourObjects(ctx context.Context) (string, error) {
	var backups v1alpha1.DatabaseBackupList
	var restores v1alpha1.DatabaseRestoreList
	var schedules v1alpha1.BackupScheduleList
	for _, list := range []client.ObjectList{&backups, &restores, &schedules} {
		if err := env.kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal([]any{backups, restores, schedules})
	return string(raw), err
}

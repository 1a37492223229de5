package v1alpha1_test

import (
	"strings"
	"testing"
)

const scheduleManifest = `
apiVersion: holdfast.dev/v1alpha1
kind: BackupSchedule
metadata: {name: orders, namespace: default}
spec:
  schedule: "0 2 * * *"
  template:
    spec:
      database:
        engine: PostgreSQL
        host: orders-db.shop.svc
        credentialsSecretRef: {name: orders-db}
      storage:
        s3: {provider: AWS, bucket: backups}
`

func TestScheduleRefused(t *testing.T) {
	testRefused(t, scheduleManifest, scheduleRefusals)
}

func TestScheduleTaken(t *testing.T) {
	testTaken(t, scheduleManifest, map[string]fields{
		"as it is":           {},
		"200-character name": {"metadata.name": strings.Repeat("a", 200)},
		"a name of cron":     {"spec.schedule": "'@daily'"},
		"lists and steps":    {"spec.schedule": "'*/15 0-6,22 1,15 jan-mar MON'"},
		"a zone":             {"spec.timeZone": "America/Argentina/Buenos_Aires"},
		"a zone with signs":  {"spec.timeZone": "Etc/GMT+5"},
		"all rules":          {"spec.retention": "{keepLast: 3, keepHourly: 24, keepDaily: 7, keepWeekly: 4, keepMonthly: 12, keepYearly: 10, keepWithin: 48h}"},
		"no rule":            {"spec.retention": "{keepLast: 0}"},
		"no failed history":  {"spec.failedHistoryLimit": "0"},
		"metadata":           {"spec.template.metadata": "{labels: {team: shop}, annotations: {why: nightly}}"},
	})
}

// TestScheduleChanges shows that a schedule, unlike its backups, can be edited.
func TestScheduleChanges(t *testing.T) {
	c := newClient(t)
	made := object(t, scheduleManifest, fields{"metadata.name": "changing"})
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	setField(t, made, "spec.template.spec.database.host", "other-db.shop.svc")
	setField(t, made, "spec.suspend", "true")
	if err := c.Update(t.Context(), made); err != nil {
		t.Errorf("an edit is refused: %v", err)
	}
}

package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestWhatIsTakenCanBeDecoded shows that no value which the schema lets through is one that a client cannot decode: lists fail
// as a whole, so one such object would hide all others of its kind from the operator. Whether it is refused does not matter
// here.
func TestWhatIsTakenCanBeDecoded(t *testing.T) {
	cases := []fields{
		{"spec.podTemplate": `{tolerations: [{tolerationSeconds: 1e25}]}`},
		{"spec.podTemplate": `{tolerations: [{tolerationSeconds: 9223372036854775808}]}`},
		{"spec.podTemplate": `{tolerations: [{tolerationSeconds: 1.0}]}`},
		{"spec.podTemplate": `{securityContext: {runAsUser: 18446744073709551616}}`},
		{"spec.podTemplate": `{securityContext: {supplementalGroups: [1e30]}}`},
		{"spec.podTemplate": `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3000000000, preference: {}}]}}}`},
		{"spec.podTemplate": `{resources: {requests: {cpu: 1e30}}}`},
		{"spec.podTemplate": `{resources: {requests: {cpu: 9223372036854775808}}}`},
		{"spec.podTemplate": `{resources: {requests: {cpu: "999999999999999E"}}}`},
		{"spec.podTemplate": `{resources: {requests: {cpu: 1.5}}}`},
		{"spec.staging.size": "1e30"},
		{"spec.staging.size": `"999999999999999E"`},
		{"spec.backoffLimit": "1e1"},
		{"spec.database.port": "5.432e3"},
		{"spec.compression": "{level: 3.0}"},
		{"spec.timeout": "2562047h47m16.854775807s"},
		{"spec.timeout": "0.0000000000000000000001h1ns"},
		{"spec.timeout": "99999999999999999999ns"},
		{"spec.volumeSnapshot": "{readyTimeout: 9223372036s}"},
	}
	for _, change := range cases {
		made := object(t, backupManifest, change)
		if err := create(t, made); err != nil {
			t.Logf("%v is refused: %v", change, err)
			continue
		}
		raw, err := json.Marshal(made.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &v1alpha1.DatabaseBackup{}); err != nil {
			t.Errorf("%v is taken, and cannot be decoded: %v", change, err)
		}
	}
}

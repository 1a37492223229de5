package flow_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

func restore() *v1alpha1.DatabaseRestore { return testutil.Restore("again").Build() }

// safety returns a backup that a restore made.
func safety() *v1alpha1.DatabaseBackup {
	backup := begun()
	backup.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DatabaseRestore", Name: "again", Controller: ptr.To(true),
	}}
	return backup
}

// owned returns a backup that a stranger's operator made.
func owned() *v1alpha1.DatabaseBackup {
	backup := safety()
	backup.OwnerReferences[0].APIVersion, backup.OwnerReferences[0].Kind = "apps.example.com/v1", "Shop"
	return backup
}

func scheduled() *v1alpha1.DatabaseBackup {
	backup := begun()
	backup.Labels = map[string]string{v1alpha1.LabelSchedule: "a-uid"}
	backup.Annotations = map[string]string{v1alpha1.AnnotationSchedule: "nightly"}
	return backup
}

// loading returns a restore that has come to where its target is written to.
func loading() *v1alpha1.DatabaseRestore {
	restore := restore()
	flow.MarkTrue(restore, v1alpha1.ConditionVerified, v1alpha1.ReasonSucceeded, "")
	return restore
}

func TestAFailureEndsWithWhatToDoNext(t *testing.T) {
	t.Parallel()
	const again = ": this one is not tried again"
	for name, test := range map[string]struct {
		subject flow.Subject
		said    string
		want    string
	}{
		"a backup":                {begun(), "the disk is full", "the disk is full. Once that is mended, create a new DatabaseBackup" + again},
		"a restore":               {restore(), "no such key.", "no such key. The target was not touched. Once that is mended, create a new DatabaseRestore" + again},
		"a safety backup":         {safety(), "the disk is full", "the disk is full. Once that is mended, create a new DatabaseRestore" + again},
		"a stranger's backup":     {owned(), "the disk is full", "the disk is full. Once that is mended, create a new DatabaseBackup" + again},
		"a schedule's backup":     {scheduled(), "the disk is full", "the disk is full. What to mend in spec stands in spec.template.spec of BackupSchedule nightly. This backup is not tried again: the next run makes another, or the annotation holdfast.dev/run-now of the BackupSchedule does at once"},
		"the last lines of a log": {loading(), "pg_restore: error: x.\nThe safety backup is at s3://b/k\n", "pg_restore: error: x.\nThe safety backup is at s3://b/k\nOnce that is mended, create a new DatabaseRestore" + again},
		"one that says it":        {restore(), "nothing was touched: create a new DatabaseRestore", "nothing was touched: create a new DatabaseRestore"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string
			err := flow.Run(t.Context(), test.subject, testutil.Start.Add(time.Minute), timeout, steps(&ran, flow.Stalled("StagingFull", "%s", test.said)))
			if stall, ok := flow.AsStall(err); !ok || stall.Message != test.want {
				t.Errorf("the error says %q, want %q", err, test.want)
			}
			for _, condition := range *test.subject.Progress().Conditions {
				if condition.Message != test.want && condition.Type != v1alpha1.ConditionVerified {
					t.Errorf("%s says %q, want %q", condition.Type, condition.Message, test.want)
				}
			}
		})
	}
}

func TestADeadlineEndsWithWhatToDoNextOnce(t *testing.T) {
	t.Parallel()
	for kind, subject := range map[string]flow.Subject{"DatabaseBackup": begun(), "DatabaseRestore": safety()} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var ran []string
			err := flow.Run(t.Context(), subject, testutil.Start.Add(timeout), timeout, steps(&ran, flow.Waiting(time.Second, "Job a is at work.")))
			want := "stage Dumping): Job a is at work. Mend what it waited for, or set a longer spec.timeout, and create a new " + kind
			if stall, ok := flow.AsStall(err); !ok || !strings.Contains(stall.Message, want) || strings.Count(stall.Message, "create a new") != 1 {
				t.Errorf("the error says %q, want %q, once", err, want)
			}
		})
	}
}

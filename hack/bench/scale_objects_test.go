//go:build bench

package bench

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

// labelDue tells the schedules that are due in one slot, and their backups, from the others.
const labelDue = "bench.holdfast.dev/due"

var zones = []string{"UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"}

func namespaceOf(i int) string { return fmt.Sprintf("team-%02d", i%namespaces) }

// quietSchedule is a schedule of one run a day, none of which comes within six hours, and the slot of its last one.
func quietSchedule(i int, now time.Time) (*v1alpha1.BackupSchedule, time.Time) {
	zone := zones[i%len(zones)]
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err) // the zones above are there
	}
	next := now.In(location).Add(6*time.Hour + time.Duration(i%720)*time.Minute)
	expression := fmt.Sprintf("%d %d * * *", next.Minute(), next.Hour())
	calendar, err := schedule.Parse(expression, zone)
	if err != nil {
		panic(err)
	}
	return newSchedule(fmt.Sprintf("orders-%05d", i), i, expression, zone), calendar.Latest(now)
}

// newSchedule is one as users write it, with a database of its own.
func newSchedule(name string, i int, expression, zone string) *v1alpha1.BackupSchedule {
	return testutil.Schedule(name, expression).In(namespaceOf(i)).Retention(v1alpha1.RetentionSpec{KeepLast: 7}).
		With(func(s *v1alpha1.BackupSchedule) {
			s.Spec.TimeZone = zone
			s.Spec.Template.Spec.Database.Host = fmt.Sprintf("orders-%05d-db.%s.svc", i, s.Namespace)
			s.Spec.Template.Spec.VolumeSnapshot.Claims = []string{fmt.Sprintf("data-orders-%05d-db-0", i)}
		}).Build()
}

func dueName(set string, i int) string { return fmt.Sprintf("%s-%05d", set, i) }

// dueSchedule is a schedule with one run a year. Its backups take no snapshots: there is no storage here.
func dueSchedule(set string, i int, at time.Time) *v1alpha1.BackupSchedule {
	at = at.UTC()
	s := newSchedule(dueName(set, i), i, fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), at.Month()), "UTC")
	s.Labels = map[string]string{labelDue: set}
	s.Spec.Template.Metadata.Labels = s.Labels
	s.Spec.Template.Spec.VolumeSnapshot = v1alpha1.VolumeSnapshotSpec{Mode: v1alpha1.VolumeSnapshotDisabled}
	return s
}

// backupOf is what the operator makes for a slot of a schedule.
func backupOf(s *v1alpha1.BackupSchedule, at time.Time) *v1alpha1.DatabaseBackup {
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelSchedule: string(s.UID)}
	maps.Copy(labels, s.Spec.Template.Metadata.Labels)
	backup := &v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: schedule.ChildName(s.Name, at), Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationSchedule: s.Name, v1alpha1.AnnotationSlot: at.UTC().Format(time.RFC3339)},
		},
		Spec: *s.Spec.Template.Spec.DeepCopy(),
	}
	backup.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	return backup
}

// finishedBackup is one that became Ready, with all that its status then says.
func finishedBackup(s *v1alpha1.BackupSchedule, at time.Time) *v1alpha1.DatabaseBackup {
	backup := backupOf(s, at)
	backup.Finalizers = []string{v1alpha1.Finalizer}
	claim := backup.Spec.VolumeSnapshot.Claims[0]
	key := "prod/" + backup.Namespace + "/" + backup.Name + "/" + at.UTC().Format("20060102T150405Z") + "-3f2a91c0.pgdump.zst"
	backup.Status = v1alpha1.DatabaseBackupStatus{
		URL: "s3://backups/" + key,
		Artifact: &v1alpha1.ArtifactStatus{
			Key: key, SizeBytes: 424_673_280, UncompressedBytes: 889_192_448, SHA256: strings.Repeat("3f2a91c0", 8), Format: "pgdump",
			Compression: v1alpha1.CompressionZstd, ServerVersion: "16.4 (Debian 16.4-1.pgdg120+1)", ToolVersion: "pg_dump (PostgreSQL) 16.4",
		},
		VolumeSnapshots: []v1alpha1.VolumeSnapshotStatus{{
			Name: backup.Name + "-" + claim, Claim: claim, SnapshotHandle: "snap-0a1b2c3d4e5f60718", CreationTime: ptr.To(metav1.NewTime(at)),
			RestoreSize: ptr.To(resource.MustParse("20Gi")),
		}},
		StartTime: ptr.To(metav1.NewTime(at)), ObservedGeneration: 1,
	}
	flow.MarkTrue(backup, v1alpha1.ConditionDumped, v1alpha1.ReasonSucceeded, "dumped orders: 889192448 bytes, compressed to 424673280")
	flow.MarkTrue(backup, v1alpha1.ConditionSnapshotted, v1alpha1.ReasonSucceeded, "1 VolumeSnapshots are ready to use")
	flow.MarkTrue(backup, v1alpha1.ConditionUploaded, v1alpha1.ReasonSucceeded, "the store holds the artifact and its manifest")
	flow.Complete(backup, at.Add(90*time.Second), "the backup can be restored from "+backup.Status.URL)
	return backup
}

// startedStatus is what the operator writes into a schedule's status when it has made a backup.
func startedStatus(s *v1alpha1.BackupSchedule, backup *v1alpha1.DatabaseBackup, at time.Time) {
	next := metav1.NewTime(at.AddDate(1, 0, 0))
	s.Status.Active = []v1alpha1.BackupRef{{Name: backup.Name}}
	s.Status.LastScheduleTime, s.Status.DecidedUntil = ptr.To(metav1.NewTime(at)), ptr.To(metav1.NewTime(at))
	s.Status.NextScheduleTime = &next
	s.Status.ObservedCalendar, s.Status.ObservedGeneration = s.Spec.Schedule+" UTC", 1
	flow.MarkTrue(s, v1alpha1.ConditionReady, v1alpha1.ReasonScheduled, "the next run starts at "+next.UTC().Format(time.RFC3339))
}

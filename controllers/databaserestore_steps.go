package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

const (
	kindRestore = "DatabaseRestore"
	// leastStaging and stagingRoom size a restore's staging claim beside the artifact itself.
	leastStaging = 1 << 30
	stagingRoom  = 256 << 20
	// maxNames is how many databases an object may name.
	maxNames = 64
)

// restoreWork is one look at one restore.
type restoreWork struct {
	*RestoreReconciler
	restore *v1alpha1.DatabaseRestore

	// Found by the steps, for those behind them.
	image  string
	first  *v1alpha1.DatabaseRestore // that comes before this one
	bucket v1alpha1.S3Bucket
	key    string
	target *contract.Target
}

// findSource finds out where the artifact lies: by its URL, or by the backup that is named.
func (w *restoreWork) findSource(ctx context.Context) error {
	var err error
	if w.image, err = w.imageFor(w.restore.Spec.Database); err != nil {
		return err
	}
	if flow.IsTrue(w.restore, v1alpha1.ConditionVerified) {
		return nil // the artifact is here: what becomes of its backup's object matters no more
	}
	if name := w.restore.Spec.Source.BackupRef.Name; name != "" {
		err = w.findBackup(ctx, name)
	} else {
		w.bucket, w.key, err = sourceBucket(w.restore.Spec.Source)
	}
	if err != nil || flow.Has(w.restore, v1alpha1.ConditionSafetyBackupTaken) {
		return err
	}
	_, err = w.Cluster.StorageClass(ctx, w.restore.Spec.Staging.StorageClassName)
	return err
}

func (w *restoreWork) findBackup(ctx context.Context, name string) error {
	if w.restore.Status.Source != nil && w.restore.Status.Source.URL != "" {
		return w.foundBefore(ctx, name)
	}
	backup, err := w.sourceBackup(ctx, name)
	if err != nil {
		return err
	}
	return w.useBackup(backup)
}

// foundBefore keeps to the artifact that this restore began with.
func (w *restoreWork) foundBefore(ctx context.Context, name string) error {
	backup, err := w.sourceBackup(ctx, name)
	if err != nil {
		return err
	}
	if backup.Status.URL != w.restore.Status.Source.URL {
		return flow.Stalled(v1alpha1.ReasonInvalidSource, "DatabaseBackup %s was replaced while this restore was at work: "+
			"it began with %s and now finds %s. Nothing was touched; create a new DatabaseRestore", name,
			w.restore.Status.Source.URL, backup.Status.URL)
	}
	return w.useBackup(backup)
}

// readBackup reads a backup from the cache, and from the API server where the cache has none: one that was created a
// moment ago must not count as absent, which would end the restore.
func (w *restoreWork) readBackup(ctx context.Context, name string) (*v1alpha1.DatabaseBackup, error) {
	backup := &v1alpha1.DatabaseBackup{}
	key := client.ObjectKey{Namespace: w.restore.Namespace, Name: name}
	err := w.Client.Get(ctx, key, backup)
	if apierrors.IsNotFound(err) {
		err = w.Live.Get(ctx, key, backup)
	}
	return backup, err
}

func (w *restoreWork) sourceBackup(ctx context.Context, name string) (*v1alpha1.DatabaseBackup, error) {
	backup, err := w.readBackup(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, flow.Stalled(v1alpha1.ReasonSourceNotFound, "DatabaseBackup %s/%s, named in spec.source.backupRef, does not "+
			"exist. If its artifact does, restore from it with spec.source.url", w.restore.Namespace, name)
	case err != nil:
		return nil, fmt.Errorf("reading DatabaseBackup %s: %w", name, err)
	case flow.IsTrue(backup, v1alpha1.ConditionStalled):
		return nil, flow.Stalled(v1alpha1.ReasonSourceNotReady, "DatabaseBackup %s/%s failed (%s), so there is nothing to "+
			"restore from: choose one that is Ready", backup.Namespace, name, flow.ReasonOf(backup, v1alpha1.ConditionStalled))
	case !flow.IsTrue(backup, v1alpha1.ConditionReady):
		return nil, flow.Waiting(poll, "DatabaseBackup %s is not Ready yet (%s)", name, flow.ReasonOf(backup, v1alpha1.ConditionReady))
	}
	return backup, nil
}

func (w *restoreWork) useBackup(backup *v1alpha1.DatabaseBackup) error {
	_, key, err := storage.ParseURL(backup.Status.URL)
	if err != nil {
		return flow.Stalled(v1alpha1.ReasonInvalidSource, "status.url of DatabaseBackup %s: %v", backup.Name, err)
	}
	w.bucket, w.key = *backup.Spec.Storage.S3, key
	return nil
}

// inspect runs the inspect Job, which looks at the artifact and at the target before a long safety backup is taken.
func (w *restoreWork) inspect(ctx context.Context) error {
	if flow.IsTrue(w.restore, v1alpha1.ConditionSafetyBackupTaken) || w.restore.Status.SafetyBackupName != "" {
		return nil
	}
	result, err := w.Jobs.Run(ctx, w.inspection())
	if err != nil {
		return err
	}
	if result.Source == nil || result.Target == nil {
		return flow.Stalled(v1alpha1.ReasonJobFailed, "the inspect Job reported success without its findings")
	}
	w.target = result.Target
	w.restore.Status.Source = &v1alpha1.RestoreSourceStatus{
		URL: storage.URL(w.bucket.Bucket, w.key), SHA256: result.Source.SHA256, SizeBytes: result.Source.SizeBytes,
		// A whole server may have more databases than status takes.
		Databases: result.Target.Databases[:min(len(result.Target.Databases), maxNames)],
	}
	return nil
}

// inspection is the blueprint of a Job that looks at the artifact and at the target.
func (w *restoreWork) inspection() jobs.Blueprint {
	blueprint := w.bare(contract.VerbInspect)
	withDatabase(&blueprint, w.restore.Spec.Database, w.image)
	withStore(&blueprint, w.bucket)
	blueprint.Task.Key = w.key
	blueprint.Task.Restore = w.options()
	return blueprint
}

// fetch runs the fetch Job: download to the staging claim, verify.
func (w *restoreWork) fetch(ctx context.Context) error {
	blueprint, err := w.blueprint(ctx, contract.VerbFetch)
	if err != nil {
		return err
	}
	withStore(&blueprint, w.bucket)
	blueprint.Task.Key = w.key
	blueprint.Task.Engine = engine.Name(w.restore.Spec.Database.Engine)
	source := w.restore.Status.Source
	blueprint.Task.Expect = &contract.Source{SizeBytes: source.SizeBytes, SHA256: source.SHA256}
	result, err := w.Jobs.Run(ctx, blueprint)
	if err != nil {
		return err
	}
	if result.Source == nil {
		return flow.Stalled(v1alpha1.ReasonJobFailed, "the fetch Job reported success without its findings")
	}
	source.SHA256, source.SizeBytes = result.Source.SHA256, result.Source.SizeBytes
	flow.MarkTrue(w.restore, v1alpha1.ConditionVerified, v1alpha1.ReasonSucceeded, strings.TrimSpace(
		fmt.Sprintf("%d bytes, SHA-256 %s. %s", source.SizeBytes, source.SHA256, result.Note)))
	return nil
}

// load runs the load Job: restore into fresh databases, check, swap.
func (w *restoreWork) load(ctx context.Context) error {
	blueprint, err := w.blueprint(ctx, contract.VerbLoad)
	if err != nil {
		return err
	}
	withDatabase(&blueprint, w.restore.Spec.Database, w.image)
	if blueprint.Task.Restore, err = w.loadOptions(ctx); err != nil {
		return err
	}
	result, err := w.Jobs.Run(ctx, blueprint)
	if stall, stalled := flow.AsStall(err); stalled && w.restore.Status.URL != "" {
		return flow.Stalled(stall.Reason, "%s\nThe safety backup of the state before this restore is at %s", stall.Message, w.restore.Status.URL)
	}
	if err != nil {
		return err
	}
	flow.MarkTrue(w.restore, v1alpha1.ConditionRestored, v1alpha1.ReasonSucceeded, strings.TrimSpace(
		"in place: "+strings.Join(w.restore.Status.Source.Databases, ", ")+". "+result.Note))
	return nil
}

func (w *restoreWork) success() string {
	text := fmt.Sprintf("restored from %s", w.restore.Status.Source.URL)
	if w.restore.Status.URL != "" {
		text += "; the state before is at " + w.restore.Status.URL
	}
	return text
}

// loadOptions also say which databases the safety backup holds: one that came to be since then must not be replaced.
func (w *restoreWork) loadOptions(ctx context.Context) (*engine.RestoreOptions, error) {
	options := w.options()
	if w.restore.Spec.SafetyBackup.Mode == v1alpha1.SafetyBackupDisabled {
		return options, nil
	}
	if w.restore.Status.SafetyBackupName == "" {
		options.SavedOnly = true
		return options, nil
	}
	backup, err := w.readBackup(ctx, w.restore.Status.SafetyBackupName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the safety backup: %w", err)
	}
	// Without names it holds every database of the server. Its artifact stays when its object goes.
	options.Saved = databaseNames(backup.Spec.Database)
	options.SavedOnly = len(options.Saved) > 0
	return options, nil
}

func (w *restoreWork) options() *engine.RestoreOptions {
	return &engine.RestoreOptions{
		OmitOwnership:  w.restore.Spec.Options.Ownership == v1alpha1.ItemOmit,
		OmitPrivileges: w.restore.Spec.Options.Privileges == v1alpha1.ItemOmit,
	}
}

// blueprint of a Job that works on the staging claim, which is made if it is not there.
func (w *restoreWork) blueprint(ctx context.Context, verb contract.Verb) (jobs.Blueprint, error) {
	return w.onStaging(ctx, w.bare(verb), w.restore.Spec.Staging, w.stagingSize())
}

// stagingSize is what the user says, else room for the artifact.
func (w *restoreWork) stagingSize() resource.Quantity {
	if size := w.restore.Spec.Staging.Size; !size.IsZero() {
		return size
	}
	artifact := w.restore.Status.Source.SizeBytes
	return *resource.NewQuantity(slices.Max([]int64{leastStaging, artifact + artifact/16 + stagingRoom}), resource.BinarySI)
}

// bare is a blueprint without a staging claim.
func (w *restoreWork) bare(verb contract.Verb) jobs.Blueprint {
	spec := w.restore.Spec
	return w.blueprintFor(w.restore, kindRestore, verb, restoreTimeout(w.restore), spec.BackoffLimit, spec.PodTemplate)
}

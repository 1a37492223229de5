package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
)

// loaded marks on the staging claim that the restored databases are in place.
type loaded struct {
	ObjectUID string    `json:"objectUID"`
	Time      time.Time `json:"time"`
}

// load restores the staged artifact.
func (w *work) load(ctx context.Context) (contract.Result, error) {
	eng, access, err := w.database()
	if err != nil {
		return contract.Result{}, err
	}
	if w.task.Restore == nil {
		return contract.Result{}, invalidTask("it does not say what to restore")
	}
	record, err := w.readStaged()
	if err != nil {
		return contract.Result{}, err
	}
	if record == nil || record.Source == nil || w.fileSize(artifactFile) != record.Source.SizeBytes {
		return contract.Result{}, permanent(contract.ReasonStagedArtifactDamaged, "no whole artifact of this restore lies on the staging claim: "+
			"the claim was replaced or written to; start a new restore")
	}
	restoration := engine.Restoration{Artifact: w.artifact(ctx, record.Source), Options: *w.task.Restore, Swapped: w.wasLoaded(),
		OnSwapped: func() error { return w.keep(loadedFile, loaded{ObjectUID: w.task.Object.UID, Time: time.Now().UTC()}) }}
	if !restoration.Swapped {
		if err := w.sameHash(ctx, record.Source.SHA256); err != nil {
			return contract.Result{}, err
		}
	}
	note, err := eng.Restore(ctx, access, restoration)
	return contract.Result{Note: note}, w.loadError(ctx, err)
}

// loadError tells a staged file that cannot be read from a server that does not take it.
func (w *work) loadError(ctx context.Context, err error) error {
	if _, known := errors.AsType[*engine.Error](err); err == nil || known || ctx.Err() != nil {
		return err
	}
	return transient(contract.ReasonRestoreToolFailed, "the restore failed: %w", err)
}

func (w *work) artifact(ctx context.Context, source *contract.Source) engine.Artifact {
	return engine.Artifact{Format: source.Format, Databases: source.Databases, ServerVersion: source.ServerVersion,
		Open: func() (io.ReadCloser, error) {
			progress := w.progress("restore", source.SizeBytes)
			dump, err := openDump(ctx, w.path(artifactFile), source.Compression, progress)
			if err != nil {
				progress.end()
				return nil, err
			}
			return &opened{Reader: dump, closers: []io.Closer{dump, progress}}, nil
		}}
}

// Close ends the progress of a stream.
func (p *progress) Close() error {
	p.end()
	return nil
}

// wasLoaded tells whether an earlier run put the databases in place and noted it down.
func (w *work) wasLoaded() bool {
	raw, err := os.ReadFile(w.path(loadedFile))
	if err != nil {
		return false
	}
	var mark loaded
	return json.Unmarshal(raw, &mark) == nil && mark.ObjectUID == w.task.Object.UID
}

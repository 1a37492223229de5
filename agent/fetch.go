package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// fetch downloads the artifact of a restore to the staging claim and verifies it.
func (w *work) fetch(ctx context.Context) (contract.Result, error) {
	if w.task.Expect == nil {
		return contract.Result{}, invalidTask("it does not say what the inspection found")
	}
	if earlier := w.earlierFetch(ctx); earlier != nil {
		w.log.Info("the artifact was fetched by an earlier run")
		return contract.Result{Source: earlier.Source}, nil
	}
	store, err := w.store(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	if err := w.clean(artifactFile, resultFile, loadedFile); err != nil {
		return contract.Result{}, err
	}
	source, err := w.inspectAgain(ctx, store)
	if err != nil {
		return contract.Result{}, err
	}
	if err := w.fetchRoom(source.SizeBytes); err != nil {
		return contract.Result{}, err
	}
	if err := w.stageFetched(ctx, store, source); err != nil {
		return contract.Result{}, err
	}
	result := contract.Result{Version: contract.Version, Verb: contract.VerbFetch, Source: source}
	return result, w.keep(resultFile, staged{Result: result, ObjectUID: w.task.Object.UID, Databases: source.Databases, StartTime: w.begun})
}

// inspectAgain tells what lies in the store, which must still be what the inspection found before the safety backup.
func (w *work) inspectAgain(ctx context.Context, store storage.Store) (*contract.Source, error) {
	eng, err := engine.For(w.task.Engine)
	if err != nil {
		return nil, err
	}
	var source *contract.Source
	err = w.patiently(ctx, "inspect", func() error {
		source, _, err = w.inspectSource(ctx, store, eng)
		return err
	})
	if err != nil {
		return nil, err
	}
	expect := w.task.Expect
	if source.SizeBytes != expect.SizeBytes || expect.SHA256 != "" && source.SHA256 != expect.SHA256 {
		return nil, permanent(contract.ReasonArtifactCorrupt, "%s was replaced while it was being restored (%d bytes, SHA-256 %q; inspected were "+
			"%d bytes, SHA-256 %q): start a new restore; the database was not touched", w.url(), source.SizeBytes, source.SHA256,
			expect.SizeBytes, expect.SHA256)
	}
	return source, nil
}

// stageFetched downloads under a temporary name, verifies, and gives the file its name.
func (w *work) stageFetched(ctx context.Context, store storage.Store, source *contract.Source) (err error) {
	defer removeOnError(w.path(partialFile), &err)
	sum, err := w.download(ctx, store, source)
	if err != nil {
		return err
	}
	if source.SHA256 != "" && source.SHA256 != sum {
		return permanent(contract.ReasonArtifactCorrupt, "%s has SHA-256 %s and its manifest says %s: it was damaged or replaced, and cannot be "+
			"restored from; the database was not touched", w.url(), sum, source.SHA256)
	}
	source.SHA256 = sum
	if source.Foreign {
		if err := w.verifyForeign(ctx, source); err != nil {
			return err
		}
	}
	if err := os.Rename(w.path(partialFile), w.path(artifactFile)); err != nil {
		return w.stagingError(err)
	}
	return nil
}

func (w *work) earlierFetch(ctx context.Context) *staged {
	record, err := w.readStaged()
	if err != nil || record == nil || record.Source == nil || w.fileSize(artifactFile) != record.Source.SizeBytes {
		return nil
	}
	if sum, err := w.hashFile(ctx, artifactFile); err != nil || sum != record.Source.SHA256 {
		return nil
	}
	return record
}

func (w *work) fetchRoom(size int64) error {
	free, err := w.free()
	if err != nil {
		return err
	}
	if free < size {
		return w.stagingFull(0, size)
	}
	return nil
}

// download writes the object into the partial file and returns its SHA-256. A transfer that breaks off goes on where
// it ended, as long as the store still holds the same object.
func (w *work) download(ctx context.Context, store storage.Store, source *contract.Source) (string, error) {
	file, err := createHashed(w.path(partialFile))
	if err != nil {
		return "", w.stagingError(err)
	}
	progress := w.progress("download", source.SizeBytes)
	defer progress.end()
	for begun, pause := time.Now(), firstPause; ; {
		before := file.size
		err = w.downloadRest(ctx, store, source, file, progress)
		if err == nil || !errors.Is(err, storage.ErrUnreachable) || ctx.Err() != nil {
			break
		}
		if file.size > before { // it moves: patience begins anew
			begun, pause = time.Now(), firstPause
		}
		if time.Since(begun) > w.StorePatience {
			break
		}
		w.log.Warn("the download broke off, going on", "bytes", file.size, "error", err.Error())
		if err = engine.Pause(ctx, pause); err != nil {
			break
		}
		pause = min(2*pause, longestPause)
	}
	if err == nil {
		err = file.file.Sync()
	}
	if err = errors.Join(err, file.file.Close()); err != nil {
		return "", w.downloadError(err, source)
	}
	return file.digest(), nil
}

func (w *work) downloadError(err error, source *contract.Source) error {
	if isFull(err) {
		return w.stagingFull(0, source.SizeBytes)
	}
	return err
}

// downloadRest reads the object from where the file ends.
func (w *work) downloadRest(ctx context.Context, store storage.Store, source *contract.Source, file *hashedFile, p *progress) error {
	content, info, err := store.Get(ctx, w.task.Key, file.size)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if info.SizeBytes != source.SizeBytes || source.ETag != "" && info.ETag != source.ETag {
		return permanent(contract.ReasonArtifactCorrupt, "%s was replaced while it was being restored (%d bytes, ETag %s; inspected were %d bytes, "+
			"ETag %s): start a new restore; the database was not touched", w.url(), info.SizeBytes, info.ETag, source.SizeBytes, source.ETag)
	}
	if _, err := io.CopyBuffer(file, p.reader(onlyReader{content}), make([]byte, copyBuffer)); err != nil {
		return err
	}
	if file.size != source.SizeBytes {
		return fmt.Errorf("%w: the download of %s ended after %d of %d bytes", storage.ErrUnreachable, w.url(), file.size, source.SizeBytes)
	}
	return nil
}

// verifyForeign reads an artifact without a manifest once to its end: a cut or damaged one must fail here.
func (w *work) verifyForeign(ctx context.Context, source *contract.Source) error {
	progress := w.progress("decode once", source.SizeBytes)
	defer progress.end()
	dump, err := openDump(ctx, w.path(partialFile), source.Compression, progress)
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	eng, err := engine.For(w.task.Engine)
	if err != nil {
		return err
	}
	counted := &countedReader{in: dump, done: new(atomic.Int64)}
	if err := eng.Check(ctx, w.tools(), source.Format, counted); err != nil {
		return w.foreignError(ctx, err)
	}
	source.UncompressedBytes = counted.done.Load()
	return nil
}

func (w *work) foreignError(ctx context.Context, err error) error {
	if _, known := errors.AsType[*engine.Error](err); known || ctx.Err() != nil {
		return err
	}
	return permanent(contract.ReasonArtifactCorrupt, "%s cannot be restored from: %w; the database was not touched", w.url(), err)
}

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// Bounds of the pauses between two tries of an unreachable store.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// patiently tries again for as long as the store is only unreachable, within the agent's patience.
func (w *work) patiently(ctx context.Context, what string, try func() error) error {
	begun, pause := time.Now(), firstPause
	for {
		err := try()
		if err == nil || !errors.Is(err, storage.ErrUnreachable) || ctx.Err() != nil || time.Since(begun) > w.StorePatience {
			return err
		}
		w.log.Warn("the store is unreachable, trying again", "step", what, "pause", pause.String(), "error", err.Error())
		if err := engine.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// upload brings the staged artifact into the store, proves that it is there, and commits it with its manifest.
func (w *work) upload(ctx context.Context) (contract.Result, error) {
	record, err := w.readStaged()
	if err != nil {
		return contract.Result{}, err
	}
	if record == nil || record.Artifact == nil || w.fileSize(artifactFile) != record.Artifact.SizeBytes {
		return contract.Result{}, permanent(contract.ReasonStagedArtifactDamaged, "no whole artifact of this backup lies on the staging claim: "+
			"the claim was replaced or written to; start a new backup")
	}
	store, err := w.store(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	manifest := w.manifest(record)
	result := contract.Result{Artifact: record.Artifact, URL: w.url()}
	committed, err := w.committed(ctx, store, manifest)
	if err != nil || committed {
		return result, err
	}
	err = w.patiently(ctx, "upload", func() error { return w.uploadOnce(ctx, store, manifest) })
	if err != nil {
		return contract.Result{}, err
	}
	return result, w.patiently(ctx, "commit", func() error { return w.commit(ctx, store, manifest) })
}

func (w *work) manifest(record *staged) storage.Manifest {
	a := record.Artifact
	return storage.Manifest{
		Version: storage.ManifestVersion, Key: w.task.Key, SizeBytes: a.SizeBytes, UncompressedBytes: a.UncompressedBytes,
		SHA256: a.SHA256, Format: a.Format, Compression: a.Compression, Engine: string(record.Engine), ServerVersion: a.ServerVersion,
		ToolVersion: a.ToolVersion, Databases: record.Databases, Object: w.task.Object, Snapshots: w.task.Snapshots, StartTime: record.StartTime,
	}
}

// committed tells whether an earlier run of this task did all of it. A manifest of another object is not ours to
// replace; one of ours with other content, from a dump that was made anew, is taken away before its artifact is.
func (w *work) committed(ctx context.Context, store storage.Store, wanted storage.Manifest) (done bool, err error) {
	err = w.patiently(ctx, "look for a manifest", func() error {
		there, err := storage.ReadManifest(ctx, store, w.task.Key)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case err != nil:
			return err
		case there.Object.UID != w.task.Object.UID:
			return permanent(contract.ReasonNotOurs, "%s belongs to %s %s/%s (UID %s), and is not replaced: choose another prefix",
				w.url(), there.Object.Kind, there.Object.Namespace, there.Object.Name, there.Object.UID)
		case there.SHA256 != wanted.SHA256:
			return store.Delete(ctx, storage.ManifestKey(w.task.Key))
		}
		info, err := store.Stat(ctx, w.task.Key)
		if errors.Is(err, storage.ErrNotFound) {
			return store.Delete(ctx, storage.ManifestKey(w.task.Key))
		}
		done = err == nil && info.SizeBytes == wanted.SizeBytes
		return err
	})
	return done, err
}

// uploadOnce uploads the staged file, while it is hashed once more beside: the claim is not trusted to have kept it.
func (w *work) uploadOnce(ctx context.Context, store storage.Store, manifest storage.Manifest) error {
	if err := store.AbortUploads(ctx, w.task.Key); err != nil {
		return err
	}
	file, err := os.Open(w.path(artifactFile))
	if err != nil {
		return fmt.Errorf("open the staged artifact: %w", err)
	}
	defer func() { _ = file.Close() }()
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hashed := make(chan error, 1)
	go func() {
		err := w.sameHash(both, manifest.SHA256)
		if err != nil {
			cancel(err)
		}
		hashed <- err
	}()
	info, err := w.put(both, store, file, manifest.SizeBytes)
	if err != nil {
		cancel(err)
		if damaged := <-hashed; damaged != nil && !errors.Is(damaged, err) {
			return damaged
		}
		return err
	}
	if err := <-hashed; err != nil {
		return w.discard(ctx, store, err)
	}
	return w.proven(ctx, store, info, manifest)
}

func (w *work) put(ctx context.Context, store storage.Store, file *os.File, size int64) (storage.Info, error) {
	progress := w.progress("upload", size)
	defer progress.end()
	return store.Put(ctx, w.task.Key, countedReaderAt{file, progress}, size)
}

// countedReaderAt counts what an upload reads; parts that are sent again count again.
type countedReaderAt struct {
	file     *os.File
	progress *progress
}

func (c countedReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.file.ReadAt(p, offset)
	c.progress.done.Add(int64(n))
	return n, err
}

// sameHash fails when the staged file is not what the dump reported.
func (w *work) sameHash(ctx context.Context, want string) error {
	sum, err := w.hashFile(ctx, artifactFile)
	if err != nil {
		return fmt.Errorf("read the staged artifact: %w", err)
	}
	if sum != want {
		return permanent(contract.ReasonStagedArtifactDamaged, "the artifact on the staging claim changed since it was dumped (SHA-256 %s, was %s): "+
			"its volume is faulty or something else wrote to it; start a new backup", sum, want)
	}
	return nil
}

// proven makes sure that what the store holds is what was sent: by the checksums that the store itself made, else by
// reading it back.
func (w *work) proven(ctx context.Context, store storage.Store, info storage.Info, manifest storage.Manifest) error {
	if info.ChecksumsAgree && info.SizeBytes == manifest.SizeBytes {
		return nil
	}
	content, _, err := store.Get(ctx, w.task.Key, 0)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	progress := w.progress("read back", manifest.SizeBytes)
	defer progress.end()
	sum := sha256.New()
	n, err := io.CopyBuffer(onlyWriter{sum}, progress.reader(onlyReader{content}), make([]byte, copyBuffer))
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != manifest.SizeBytes || got != manifest.SHA256 {
		return w.discard(ctx, store, transient(contract.ReasonUploadMismatch, "the store does not hold what was sent to %s: %d bytes with SHA-256 %s "+
			"instead of %d bytes with %s: it was deleted again", w.url(), n, got, manifest.SizeBytes, manifest.SHA256))
	}
	return nil
}

// discard deletes an artifact that is not good, and returns why.
func (w *work) discard(ctx context.Context, store storage.Store, why error) error {
	if err := store.Delete(context.WithoutCancel(ctx), w.task.Key); err != nil {
		w.log.Warn("could not delete the artifact", "error", err.Error())
	}
	return why
}

// commit writes the manifest and reads it back.
func (w *work) commit(ctx context.Context, store storage.Store, manifest storage.Manifest) error {
	manifest.CompletionTime = time.Now().UTC()
	if err := storage.WriteManifest(ctx, store, manifest); err != nil {
		return err
	}
	there, err := storage.ReadManifest(ctx, store, manifest.Key)
	if err != nil {
		return err
	}
	if there.SHA256 != manifest.SHA256 || there.Object != manifest.Object || there.SizeBytes != manifest.SizeBytes {
		return transient(contract.ReasonUploadMismatch, "the manifest of %s is not what was written", w.url())
	}
	return nil
}

// delete removes the artifact, its manifest and what is unfinished of its uploads.
func (w *work) delete(ctx context.Context) (contract.Result, error) {
	store, err := w.store(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	var result contract.Result
	err = w.patiently(ctx, "delete", func() error {
		result.Note, err = storage.DeleteArtifact(ctx, store, w.task.Key, w.task.Object.UID, w.task.Uncommitted)
		return err
	})
	return result, err
}

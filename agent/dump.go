package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
)

// hopeless is how many times smaller than the database a claim's free space may be for a dump to be tried: no dump
// is compressed that well.
const hopeless = 50

// dump stages an artifact.
func (w *work) dump(ctx context.Context) (contract.Result, error) {
	eng, access, err := w.database()
	if err != nil {
		return contract.Result{}, err
	}
	if w.task.Compression == nil {
		return contract.Result{}, invalidTask("it names no compression")
	}
	if earlier := w.earlierDump(ctx); earlier != nil {
		w.log.Info("the artifact was staged by an earlier run")
		return *earlier, nil
	}
	if err := w.clean(artifactFile, resultFile, loadedFile); err != nil {
		return contract.Result{}, err
	}
	server, err := eng.Probe(ctx, access)
	if err != nil {
		return contract.Result{}, err
	}
	w.log.Info("server", "version", server.Version, "tool", server.ToolVersion, "databases", len(server.Databases), "bytes", server.SizeBytes)
	if err := w.room(server); err != nil {
		return contract.Result{}, err
	}
	return w.stageDump(ctx, eng, access, server)
}

// stageDump writes the artifact under a temporary name, proves that it is whole, and gives it its name.
func (w *work) stageDump(ctx context.Context, eng engine.Engine, access engine.Access, server engine.Server) (contract.Result, error) {
	artifact, err := w.writeArtifact(ctx, eng, access, server)
	if err != nil {
		return contract.Result{}, err
	}
	if err := w.verifyArtifact(ctx, eng, w.path(partialFile), artifact); err != nil {
		_ = os.Remove(w.path(partialFile))
		return contract.Result{}, err
	}
	if err := os.Rename(w.path(partialFile), w.path(artifactFile)); err != nil {
		return contract.Result{}, w.stagingError(err)
	}
	result := contract.Result{Version: contract.Version, Verb: contract.VerbDump, Artifact: artifact, Note: server.Note}
	record := staged{Result: result, ObjectUID: w.task.Object.UID, Engine: access.Engine, Databases: server.Databases, StartTime: w.begun}
	return result, w.keep(resultFile, record)
}

// earlierDump returns the result of an earlier run of this very task, when its artifact lies there and is undamaged.
func (w *work) earlierDump(ctx context.Context) *contract.Result {
	record, err := w.readStaged()
	if err != nil || record == nil || record.Artifact == nil || w.fileSize(artifactFile) != record.Artifact.SizeBytes {
		return nil
	}
	if sum, err := w.hashFile(ctx, artifactFile); err != nil || sum != record.Artifact.SHA256 {
		return nil
	}
	return &record.Result
}

func (w *work) hashFile(ctx context.Context, name string) (string, error) {
	file, err := os.Open(w.path(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{sum}, contextReader{ctx, file}, make([]byte, copyBuffer)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// room refuses a dump that cannot fit.
func (w *work) room(server engine.Server) error {
	free, err := w.free()
	if err != nil {
		return err
	}
	if free < server.SizeBytes/hopeless {
		w.log.Error("no room", "free", free, "database", server.SizeBytes)
		return w.dumpTooLarge(0, server)
	}
	return nil
}

// roomError makes a full disk's error one that says how much is needed.
func (w *work) roomError(err error, written int64, server engine.Server) error {
	if isFull(err) {
		return w.dumpTooLarge(written, server)
	}
	return err
}

// dumpTooLarge guesses what a dump needs: dumps are commonly smaller than their databases even uncompressed, and a
// size that surely suffices beats one that fails again.
func (w *work) dumpTooLarge(written int64, server engine.Server) error {
	return permanent(contract.ReasonStagingFull, "the staging claim (%s) is too small for the dump: %s were written, and the databases have "+
		"%s on the server: set spec.staging.size to %s or more", bytesText(w.task.StagingSizeBytes), bytesText(written),
		bytesText(server.SizeBytes), quantity(max(server.SizeBytes+64<<20, written*2, w.task.StagingSizeBytes*2)))
}

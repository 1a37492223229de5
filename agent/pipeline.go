package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
)

// writebackStep is after how many bytes the kernel is asked to begin writing them to the disk, so that the sync at
// the end has little left to wait for.
const writebackStep = 16 << 20

// hashedFile writes a file and hashes it on the way.
type hashedFile struct {
	file    *os.File
	sum     hash.Hash
	size    int64
	started int64 // up to where writeback was begun
}

func createHashed(path string) (*hashedFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &hashedFile{file: file, sum: sha256.New()}, nil
}

func (h *hashedFile) Write(p []byte) (int, error) {
	n, err := h.file.Write(p)
	h.sum.Write(p[:n])
	h.size += int64(n)
	if h.size-h.started >= writebackStep {
		// where the file system knows no such hint, the sync takes longer
		_ = unix.SyncFileRange(int(h.file.Fd()), h.started, h.size-h.started, unix.SYNC_FILE_RANGE_WRITE)
		h.started = h.size
	}
	return n, err
}

func (h *hashedFile) digest() string { return hex.EncodeToString(h.sum.Sum(nil)) }

// checkWriter lets an engine follow a dump while it is written.
type checkWriter struct {
	pipe *io.PipeWriter
	done chan struct{} // closed when err is final
	err  error
}

func newCheckWriter(ctx context.Context, eng engine.Engine, tools engine.Runner, format string) *checkWriter {
	reader, writer := io.Pipe()
	c := &checkWriter{pipe: writer, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if c.err = eng.Check(ctx, tools, format, reader); c.err != nil {
			_ = reader.CloseWithError(incomplete(c.err))
		} else {
			// whatever comes now would stand behind the end
			_ = reader.CloseWithError(incomplete(errors.New("it goes on behind its end")))
		}
	}()
	return c
}

func (c *checkWriter) Write(p []byte) (int, error) { return c.pipe.Write(p) }

// finish tells the end of the dump and returns whether it was whole.
func (c *checkWriter) finish() error {
	_ = c.pipe.Close()
	<-c.done
	if c.err != nil {
		return incomplete(c.err)
	}
	return nil
}

// abort ends the check of a dump that failed.
func (c *checkWriter) abort(err error) {
	_ = c.pipe.CloseWithError(err)
	<-c.done
}

// incomplete is the failure of a dump that its check does not accept.
func incomplete(err error) error {
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	return transient(contract.ReasonDumpIncomplete, "the dump is not whole, though the dump program ended well: %w", err)
}

// dumpPipe is what a dump flows through: check, compression, hash and file. Each stage's failure is an error of
// Write, which ends the dump program.
type dumpPipe struct {
	check    *checkWriter
	compress io.WriteCloser
	file     *hashedFile
	progress *progress
}

func (p *dumpPipe) Write(b []byte) (int, error) {
	if _, err := p.check.Write(b); err != nil {
		return 0, err
	}
	if _, err := p.compress.Write(b); err != nil {
		return 0, fmt.Errorf("compress: %w", err)
	}
	p.progress.done.Add(int64(len(b)))
	return len(b), nil
}

// finish ends a dump whose program ended well. The file is on the disk then.
func (p *dumpPipe) finish() error {
	if err := p.check.finish(); err != nil {
		return err
	}
	if err := p.compress.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return errors.Join(p.file.file.Sync(), p.file.file.Close())
}

// abort ends a dump that failed.
func (p *dumpPipe) abort(err error) {
	p.check.abort(err)
	_ = p.compress.Close()
	_ = p.file.file.Close()
}

// writeArtifact dumps into the partial file and returns what the artifact is like. No partial file is left on an error.
func (w *work) writeArtifact(ctx context.Context, eng engine.Engine, access engine.Access, server engine.Server) (_ *contract.Artifact, err error) {
	compression := *w.task.Compression
	file, err := createHashed(w.path(partialFile))
	if err != nil {
		return nil, err
	}
	defer removeOnError(w.path(partialFile), &err)
	compress, err := compressor(file, compression)
	if err != nil {
		return nil, errors.Join(err, file.file.Close())
	}
	pipe := &dumpPipe{check: newCheckWriter(ctx, eng, access.Tools, server.Format), compress: compress, file: file,
		progress: w.progress("dump", server.SizeBytes)}
	defer pipe.progress.end()
	if err := eng.Dump(ctx, access, server, pipe); err != nil {
		pipe.abort(err)
		return nil, w.roomError(err, file.size, server)
	}
	if err := pipe.finish(); err != nil {
		return nil, w.roomError(err, file.size, server)
	}
	return &contract.Artifact{SizeBytes: file.size, UncompressedBytes: pipe.progress.done.Load(), SHA256: file.digest(),
		Format: server.Format, Compression: compression.Algorithm, ServerVersion: server.Version, ToolVersion: server.ToolVersion,
		Extension: eng.Formats()[server.Format] + extensions[compression.Algorithm]}, nil
}

// verifyArtifact reads a staged file once from the disk to its end: decompressed it must have its size and be whole.
func (w *work) verifyArtifact(ctx context.Context, eng engine.Engine, path string, artifact *contract.Artifact) error {
	progress := w.progress("decode once", artifact.SizeBytes)
	defer progress.end()
	dump, err := openDump(ctx, path, artifact.Compression, progress)
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	counted := &countedReader{in: dump, done: new(atomic.Int64)}
	if err := eng.Check(ctx, w.tools(), artifact.Format, counted); err != nil {
		return incomplete(err)
	}
	if n := counted.done.Load(); n != artifact.UncompressedBytes {
		return transient(contract.ReasonDumpIncomplete, "the artifact decodes to %d bytes, the dump had %d", n, artifact.UncompressedBytes)
	}
	return nil
}

// openDump opens a staged file as the dump that it holds. Reading ends when ctx does.
func openDump(ctx context.Context, path, compression string, p *progress) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the staged artifact: %w", err)
	}
	decoder, err := decompressor(p.reader(contextReader{ctx, file}), compression)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &opened{Reader: decoder, closers: []io.Closer{decoder, file}}, nil
}

// contextReader fails once its context has ended.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.in.Read(p)
}

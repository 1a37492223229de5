package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// headBytes of a foreign artifact are read to recognise it, and as much of what it holds when it is compressed.
const headBytes = 1 << 20

// accepted says what can be restored.
func accepted(eng engine.Engine) string {
	return strings.Join(append(eng.ForeignFormats(), "or an artifact of Holdfast"), ", ") + ", each bare or compressed with gzip or zstd"
}

// inspect looks at the source and the target of a restore and changes nothing.
func (w *work) inspect(ctx context.Context) (contract.Result, error) {
	eng, access, err := w.database()
	if err != nil {
		return contract.Result{}, err
	}
	store, err := w.store(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	var (
		source *contract.Source
		tool   string
	)
	err = w.patiently(ctx, "inspect", func() error {
		source, tool, err = w.inspectSource(ctx, store, eng)
		return err
	})
	if err != nil {
		return contract.Result{}, err
	}
	target, err := eng.ProbeTarget(ctx, access, engine.Artifact{Format: source.Format, Databases: source.Databases,
		ServerVersion: source.ServerVersion, ToolVersion: tool})
	if err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Source: source, Target: &contract.Target{ServerVersion: target.Version, ToolVersion: target.ToolVersion,
		Databases: target.Databases, Existing: target.Existing}}, nil
}

// inspectSource tells what lies in the store, by its manifest or else by its first bytes. tool is the version of the
// program that dumped it, where that is known.
func (w *work) inspectSource(ctx context.Context, store storage.Store, eng engine.Engine) (source *contract.Source, tool string, err error) {
	info, err := store.Stat(ctx, w.task.Key)
	if err != nil {
		return nil, "", err
	}
	if strings.HasSuffix(w.task.Key, storage.ManifestSuffix) {
		return nil, "", permanent(contract.ReasonFormatNotRecognised, "%s is the manifest of an artifact: give the URL of the artifact, which has "+
			"no %s at its end", w.url(), storage.ManifestSuffix)
	}
	if info.SizeBytes == 0 {
		return nil, "", permanent(contract.ReasonArtifactCorrupt, "%s is empty: choose another artifact", w.url())
	}
	manifest, err := storage.ReadManifest(ctx, store, w.task.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return w.inspectForeign(ctx, store, eng, info)
	}
	if errors.Is(err, storage.ErrManifest) {
		return nil, "", fmt.Errorf("%s cannot be restored from: %w", w.url(), err)
	}
	if err != nil {
		return nil, "", err
	}
	source = &contract.Source{SizeBytes: info.SizeBytes, ETag: info.ETag, UncompressedBytes: manifest.UncompressedBytes, SHA256: manifest.SHA256,
		Format: manifest.Format, Compression: manifest.Compression, ServerVersion: manifest.ServerVersion, Databases: manifest.Databases}
	return source, manifest.ToolVersion, w.agrees(manifest, info, eng)
}

// agrees holds the manifest against the object and the engine.
func (w *work) agrees(manifest storage.Manifest, info storage.Info, eng engine.Engine) error {
	if info.SizeBytes != manifest.SizeBytes {
		return permanent(contract.ReasonArtifactCorrupt, "%s has %d bytes and its manifest says %d: it was cut or replaced, and cannot be restored "+
			"from; the database was not touched", w.url(), info.SizeBytes, manifest.SizeBytes)
	}
	if manifest.Engine != string(eng.Name()) {
		return permanent(contract.ReasonInvalidTask, "%s is a dump of %s, and spec.database.engine is %s", w.url(), manifest.Engine, eng.Name())
	}
	if eng.Formats()[manifest.Format] == "" || !slices.Contains([]string{compressionZstd, compressionGzip, compressionNone}, manifest.Compression) {
		return permanent(contract.ReasonFormatNotRecognised, "%s has format %q with compression %q, which this version of Holdfast does not know",
			w.url(), manifest.Format, manifest.Compression)
	}
	return nil
}

// inspectForeign recognises an artifact that has no manifest by its first bytes.
func (w *work) inspectForeign(ctx context.Context, store storage.Store, eng engine.Engine, info storage.Info) (*contract.Source, string, error) {
	content, _, err := store.Get(ctx, w.task.Key, 0)
	if err != nil {
		return nil, "", err
	}
	head, err := io.ReadAll(io.LimitReader(content, headBytes))
	_ = content.Close()
	if err != nil {
		return nil, "", err
	}
	source := &contract.Source{SizeBytes: info.SizeBytes, ETag: info.ETag, Foreign: true, Compression: compressionOf(head)}
	plain, err := plainHead(head, source.Compression)
	if len(plain) == 0 && err != nil {
		return nil, "", permanent(contract.ReasonArtifactCorrupt, "%s begins like %s but cannot be decompressed: %w; the database was not touched",
			w.url(), source.Compression, err)
	}
	format, known := eng.Sniff(plain)
	if !known {
		return nil, "", permanent(contract.ReasonFormatNotRecognised, "%s has no manifest, and its first bytes are not those of a dump of %s: "+
			"what can be restored is %s", w.url(), eng.Name(), accepted(eng))
	}
	contents, err := eng.Inspect(format, bytes.NewReader(plain))
	if err != nil {
		return nil, "", permanent(contract.ReasonArtifactCorrupt, "%s begins like a dump in the format %s but is none: %w; the database was not touched",
			w.url(), format, err)
	}
	source.Format, source.Databases, source.ServerVersion = format, contents.Databases, contents.ServerVersion
	return source, contents.ToolVersion, nil
}

// plainHead decompresses as much of a head as is there. A head is cut, so an error says something only when nothing
// came of it.
func plainHead(head []byte, compression string) ([]byte, error) {
	decoder, err := decompressor(bytes.NewReader(head), compression)
	if err != nil {
		return nil, err
	}
	defer func() { _ = decoder.Close() }()
	return io.ReadAll(io.LimitReader(decoder, headBytes))
}

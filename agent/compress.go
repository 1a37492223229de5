package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-dev/holdfast/contract"
)

// Names of compressions, as the API spells them.
const (
	compressionZstd = "Zstd"
	compressionGzip = "Gzip"
	compressionNone = "None"
)

// zstdWindow bounds the memory of both sides: 8 MiB is what the zstd program uses at its middle levels.
const zstdWindow = 8 << 20

// extensions of the compressions.
var extensions = map[string]string{compressionZstd: ".zst", compressionGzip: ".gz", compressionNone: ""}

// compressor returns a writer that compresses to out. Close ends the stream, and leaves out open.
func compressor(out io.Writer, compression contract.Compression) (io.WriteCloser, error) {
	switch compression.Algorithm {
	case compressionZstd:
		if compression.Level < 1 || compression.Level > 19 {
			return nil, invalidTask("zstd has the levels 1 to 19, not %d", compression.Level)
		}
		return zstd.NewWriter(out, zstd.WithEncoderLevel(zstdLevel(compression.Level)),
			zstd.WithEncoderConcurrency(min(4, runtime.GOMAXPROCS(0)+1)), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(true))
	case compressionGzip:
		if compression.Level < 1 || compression.Level > 9 {
			return nil, invalidTask("gzip has the levels 1 to 9, not %d", compression.Level)
		}
		return gzip.NewWriterLevel(out, compression.Level)
	case compressionNone:
		return nopCloser{out}, nil
	}
	return nil, invalidTask("compression %q is none of Zstd, Gzip and None", compression.Algorithm)
}

// zstdLevel maps the levels of the zstd program onto the four of the encoder, by speed: up to 3 is the fastest.
func zstdLevel(level int) zstd.EncoderLevel {
	switch {
	case level <= 3:
		return zstd.SpeedFastest
	case level <= 7:
		return zstd.SpeedDefault
	case level <= 12:
		return zstd.SpeedBetterCompression
	}
	return zstd.SpeedBestCompression
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

var (
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	gzipMagic = []byte{0x1f, 0x8b}
)

// compressionOf tells a compression by the first bytes.
func compressionOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, zstdMagic):
		return compressionZstd
	case bytes.HasPrefix(head, gzipMagic):
		return compressionGzip
	}
	return compressionNone
}

// decompressor returns what a stream held before it was compressed. A cut or damaged stream is an error of Read and
// never its end. Close frees its memory.
func decompressor(in io.Reader, compression string) (io.ReadCloser, error) {
	switch compression {
	case compressionZstd:
		decoder, err := zstd.NewReader(bufio.NewReaderSize(in, copyBuffer), zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("read zstd: %w", err)
		}
		return &decoded{Reader: decoder, close: decoder.Close}, nil
	case compressionGzip:
		decoder, err := gzip.NewReader(bufio.NewReaderSize(in, copyBuffer))
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", unexpected(err))
		}
		return &decoded{Reader: decoder, close: func() { _ = decoder.Close() }}, nil
	case compressionNone:
		return io.NopCloser(in), nil
	}
	return nil, permanent(contract.ReasonFormatNotRecognised, "compression %q is none of Zstd, Gzip and None", compression)
}

// decoded closes its decoder.
type decoded struct {
	io.Reader
	close func()
}

func (w *decoded) Close() error {
	w.close()
	return nil
}

// unexpected turns the end of a stream in its header into an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

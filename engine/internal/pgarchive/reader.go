// Package pgarchive reads PostgreSQL's custom archive format (pg_dump --format=custom) as a stream: its header, its
// table of contents and its data blocks. It decodes no data, it only proves that all of it is there.
//
// An archive is a header, a table of contents (TOC) and then one block for each TOC entry that has data. A block is
// a run of chunks, each led by its length; a chunk of length nought ends it. Nothing marks the end of the archive
// but that: so a whole one is one whose every promised block is there and ended, with nothing behind the last.
package pgarchive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// Magic is what a custom-format archive begins with.
const Magic = "PGDMP"

// Archive versions that this package reads: from PostgreSQL 9.0's to 18's.
const (
	oldestMinor = 12
	newestMinor = 16
)

// maxString bounds one string of the TOC: the longest definition that is believed.
const maxString = 64 << 20

const bufferBytes = 256 << 10

// Kinds of errors.
var (
	// ErrCut says that the archive ends before it is whole.
	ErrCut = errors.New("the archive is cut short")
	// ErrMalformed says that something stands where nothing such may stand.
	ErrMalformed = errors.New("the archive is damaged")
	// ErrNewerVersion says that the archive's format is newer than this package knows.
	ErrNewerVersion = errors.New("the archive's format is newer than this program knows")
)

// Header of an archive.
type Header struct {
	// Major, Minor and Revision of the archive format, not of PostgreSQL.
	Major, Minor, Revision int
	// Database that was dumped.
	Database string
	// ServerVersion and ToolVersion, as pg_dump wrote them.
	ServerVersion, ToolVersion string

	intSize, offsetSize int
}

// Entry of the TOC.
type Entry struct {
	ID        int
	HasData   bool
	Tag       string
	Desc      string
	Defn      string
	Namespace string
	// Tablespace is empty for the database's default.
	Tablespace string
	Owner      string
}

// Reader reads one archive from front to back.
type Reader struct {
	Header  Header
	in      *bufio.Reader
	pending map[int]string // entries whose block has not come yet
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	a := &Reader{in: bufio.NewReaderSize(r, bufferBytes), pending: map[int]string{}}
	if err := a.readHeader(); err != nil {
		return nil, cut(err)
	}
	return a, nil
}

// Check reads a whole archive and returns its header. visit, which may be nil, sees each TOC entry.
func Check(r io.Reader, visit func(Entry)) (Header, error) {
	a, err := NewReader(r)
	if err != nil {
		return Header{}, err
	}
	if err := a.ReadTOC(visit); err != nil {
		return a.Header, err
	}
	return a.Header, a.ReadBlocks()
}

// Newer tells whether the first bytes of an archive, the magic and three more, say a version that this package does
// not know.
func Newer(head []byte) bool {
	return bytes.HasPrefix(head, []byte(Magic)) && len(head) > len(Magic)+1 && (head[5] != 1 || head[6] > newestMinor)
}

// cut tells the end of the stream inside something from other errors.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

func (a *Reader) readHeader() error {
	lead := make([]byte, len(Magic)+3)
	if _, err := io.ReadFull(a.in, lead); err != nil {
		return err
	}
	if !bytes.HasPrefix(lead, []byte(Magic)) {
		return malformed("it does not begin with %s", Magic)
	}
	h := &a.Header
	h.Major, h.Minor, h.Revision = int(lead[5]), int(lead[6]), int(lead[7])
	if h.Major != 1 || h.Minor > newestMinor {
		return fmt.Errorf("%w: version %d.%d", ErrNewerVersion, h.Major, h.Minor)
	}
	if h.Minor < oldestMinor {
		return malformed("format version %d.%d is older than PostgreSQL 9.0", h.Major, h.Minor)
	}
	if err := a.readSizes(); err != nil {
		return err
	}
	if err := a.skipCompressionAndTime(); err != nil {
		return err
	}
	return a.readStrings(&h.Database, &h.ServerVersion, &h.ToolVersion)
}

func (a *Reader) readSizes() error {
	var sizes [3]byte
	if _, err := io.ReadFull(a.in, sizes[:]); err != nil {
		return err
	}
	a.Header.intSize, a.Header.offsetSize = int(sizes[0]), int(sizes[1])
	if a.Header.intSize < 1 || a.Header.intSize > 8 || a.Header.offsetSize < 1 || a.Header.offsetSize > 8 {
		return malformed("impossible integer sizes %d and %d", sizes[0], sizes[1])
	}
	if sizes[2] != 1 {
		return malformed("archive format %d is not the custom format", sizes[2])
	}
	return nil
}

func (a *Reader) skipCompressionAndTime() error {
	if a.Header.Minor >= 15 { // one byte names the algorithm
		if _, err := a.in.ReadByte(); err != nil {
			return err
		}
	} else if _, err := a.readInt(); err != nil { // the level
		return err
	}
	for range 7 { // second, minute, hour, day, month, year, daylight saving
		if _, err := a.readInt(); err != nil {
			return err
		}
	}
	return nil
}

// readInt reads a sign byte and the magnitude, least significant byte first.
func (a *Reader) readInt() (int, error) {
	raw, err := a.in.Peek(1 + a.Header.intSize)
	if err != nil {
		return 0, err
	}
	var magnitude uint64
	for i := len(raw) - 1; i > 0; i-- {
		magnitude = magnitude<<8 | uint64(raw[i])
	}
	if magnitude > math.MaxInt64/2 || raw[0] > 1 {
		return 0, malformed("an impossible integer")
	}
	negative := raw[0] == 1
	if _, err := a.in.Discard(len(raw)); err != nil {
		return 0, err
	}
	if negative {
		return -int(magnitude), nil
	}
	return int(magnitude), nil
}

// readString reads a string; absent tells a null one.
func (a *Reader) readString() (s string, absent bool, err error) {
	length, err := a.readInt()
	if err != nil || length < 0 {
		return "", true, err
	}
	if length > maxString {
		return "", false, malformed("a string of %d bytes in the table of contents", length)
	}
	if length <= a.in.Buffered() {
		raw, err := a.in.Peek(length)
		if err != nil {
			return "", false, err
		}
		s = string(raw)
		_, err = a.in.Discard(length)
		return s, false, err
	}
	var text bytes.Buffer // grows with what really comes, whatever the length claims
	n, err := io.Copy(&text, io.LimitReader(a.in, int64(length)))
	if err == nil && n < int64(length) {
		err = io.ErrUnexpectedEOF
	}
	return text.String(), false, err
}

func (a *Reader) readStrings(into ...*string) error {
	for _, target := range into {
		s, _, err := a.readString()
		if err != nil {
			return err
		}
		*target = s
	}
	return nil
}

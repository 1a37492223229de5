package mongoarchive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// Reader reads an archive and holds it against its own rules: each collection that the prelude announces must end, with the
// checksum of its documents, and nothing else may be in it.
type Reader struct {
	Prelude Prelude

	in     *bufio.Reader
	offset int64
	buffer []byte
	known  map[Namespace]int     // where in the prelude a collection is
	open   map[Namespace]*stream // by the name in blocks
	block  *stream               // that is being read
	ended  bool                  // the block ends a collection
	done   []bool                // the collections that ended
}

// stream is what was read of one collection.
type stream struct {
	collection int // in the prelude
	block      string
	sum        uint64
}

// Document is one document of a collection. Bytes are valid until the next one is read.
type Document struct {
	Collection Collection
	// Block is the collection's name in blocks, which is another one for the documents of a time series.
	Block string
	Bytes []byte
	// End tells that the collection ends here. Bytes is nil then.
	End bool
}

// NewReader reads the prelude. Where that is cut, what there is of it is returned with the error.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10), known: map[Namespace]int{}, open: map[Namespace]*stream{}}
	head, err := r.in.Peek(4)
	if err != nil && len(head) < 4 {
		return nil, cutError(err)
	}
	if !HasMagic(head) {
		return nil, errors.New("the stream does not begin like an archive of mongodump")
	}
	if _, err := r.in.Discard(4); err != nil {
		return nil, err
	}
	r.offset = 4
	err = r.readPrelude()
	return r, err
}

func cutError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

func (r *Reader) readPrelude() error {
	document, err := r.next()
	if err == nil && document == nil {
		err = errors.New("the prelude has no header")
	}
	if err == nil {
		err = bson.Unmarshal(document, &r.Prelude.Header)
	}
	if err != nil {
		return r.at(err)
	}
	for {
		document, err := r.next()
		if err != nil {
			return r.at(err)
		}
		if document == nil {
			break
		}
		if err := r.announce(document); err != nil {
			return r.at(err)
		}
	}
	r.done = make([]bool, len(r.Prelude.Collections))
	return nil
}

func (r *Reader) announce(document []byte) error {
	var c Collection
	if err := bson.Unmarshal(document, &c); err != nil {
		return err
	}
	if c.Name == "" {
		return errors.New("the prelude announces a collection that has no name")
	}
	if _, twice := r.known[c.Namespace()]; twice {
		return fmt.Errorf("the prelude announces collection %s twice", c.Namespace())
	}
	r.known[c.Namespace()] = len(r.Prelude.Collections)
	r.Prelude.Collections = append(r.Prelude.Collections, c)
	return nil
}

// at adds where in the archive something is wrong.
func (r *Reader) at(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	return fmt.Errorf("%w (at byte %d)", err, r.offset)
}

// next reads a document, or nil for a terminator. io.EOF stands only before one.
func (r *Reader) next() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r.in, prefix[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(prefix[:])
	if size == terminator {
		r.offset += 4
		return nil, nil
	}
	if size < minDocument || size > maxDocument {
		return nil, fmt.Errorf("%d is no size of a document", size)
	}
	if int(size) > cap(r.buffer) {
		r.buffer = make([]byte, max(int(size), 4<<10))
	}
	document := r.buffer[:size]
	copy(document, prefix[:])
	if _, err := io.ReadFull(r.in, document[4:]); err != nil {
		return nil, fmt.Errorf("%w", cutError(err))
	}
	if document[size-1] != 0 {
		return nil, errors.New("a document has no end")
	}
	r.offset += int64(size)
	return document, nil
}

// Next returns the next document, or io.EOF behind the last of a whole archive.
func (r *Reader) Next() (Document, error) {
	for {
		if r.block == nil {
			if err := r.beginBlock(); err != nil {
				return Document{}, err
			}
		}
		bytes, err := r.next()
		if err != nil {
			return Document{}, r.at(err)
		}
		found := Document{Collection: r.Prelude.Collections[r.block.collection], Block: r.block.block, Bytes: bytes, End: r.ended}
		switch {
		case bytes != nil && r.ended:
			return Document{}, r.at(errors.New("documents stand behind the end of their collection"))
		case bytes != nil:
			r.block.sum = crc64.Update(r.block.sum, crcTable, bytes)
			return found, nil
		}
		r.block, r.ended = nil, false
		if found.End {
			return found, nil
		}
	}
}

// beginBlock reads the header of a block. The end of the archive may stand in its place.
func (r *Reader) beginBlock() error {
	document, err := r.next()
	if errors.Is(err, io.EOF) && !errors.Is(err, ErrCut) {
		return r.complete()
	}
	if err == nil && document == nil {
		err = errors.New("a block has no header")
	}
	if err != nil {
		return r.at(err)
	}
	header, err := parseBlockHeader(document)
	if err != nil {
		return r.at(err)
	}
	s, err := r.streamOf(header)
	if err != nil {
		return r.at(err)
	}
	if header.end {
		if s.sum != header.sum {
			return r.at(fmt.Errorf("the documents of collection %s do not have their checksum: the archive is damaged", header.Namespace))
		}
		r.done[s.collection] = true
	}
	r.block, r.ended = s, header.end
	return nil
}

func (r *Reader) streamOf(header blockHeader) (*stream, error) {
	s := r.open[header.Namespace]
	if s == nil {
		at, known := r.find(header.Namespace)
		if !known {
			return nil, fmt.Errorf("collection %s was not announced", header.Namespace)
		}
		s = &stream{collection: at, block: header.Name}
		r.open[header.Namespace] = s
	}
	if r.done[s.collection] {
		return nil, fmt.Errorf("collection %s goes on behind its end", header.Namespace)
	}
	return s, nil
}

// find returns which collection of the prelude a block is of.
func (r *Reader) find(block Namespace) (int, bool) {
	if at, known := r.known[block]; known {
		return at, true
	}
	name, buckets := strings.CutPrefix(block.Name, bucketPrefix)
	at, known := r.known[Namespace{block.Database, name}]
	return at, known && buckets && r.Prelude.Collections[at].Type == typeTimeSeries
}

// complete fails unless all that was announced has ended.
func (r *Reader) complete() error {
	var missing []string
	for i, c := range r.Prelude.Collections {
		if !r.done[i] {
			missing = append(missing, c.Namespace().String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: it has no end of %s", r.at(ErrCut), strings.Join(missing[:min(5, len(missing))], ", "))
	}
	return io.EOF
}

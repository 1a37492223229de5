// Package mongoarchive reads and writes archives of mongodump: a prelude that announces collections, and blocks of their
// documents, of several collections at once.
//
//	magic number
//	header document, one document a collection, terminator            the prelude
//	header {db, collection, EOF: false}, documents…, terminator       a block, any number of each collection
//	header {db, collection, EOF: true, CRC}, terminator               the end of a collection
package mongoarchive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	magic      = 0x8199e26d
	terminator = 0xffffffff
	// maxDocument is MongoDB's limit, and what an entry of the oplog may have beyond it.
	maxDocument = 16<<20 + 16<<10
	minDocument = 5
	// bucketPrefix stands before the name of the collection that holds a time series' documents.
	bucketPrefix = "system.buckets."
	// OplogName is the collection, of no database, that the operations during a dump are in.
	OplogName = "oplog"
)

// ErrCut tells an archive that ends too early.
var ErrCut = errors.New("the archive is cut")

// HasMagic tells whether bytes begin like an archive.
func HasMagic(head []byte) bool {
	return len(head) >= 4 && binary.LittleEndian.Uint32(head) == magic
}

// Header is the first document of an archive.
type Header struct {
	Parallel      int32  `bson:"concurrent_collections"`
	FormatVersion string `bson:"version"`
	ServerVersion string `bson:"server_version"`
	ToolVersion   string `bson:"tool_version"`
}

// Collection is announced by the prelude.
type Collection struct {
	Database string `bson:"db"`
	Name     string `bson:"collection"`
	Metadata string `bson:"metadata"`
	Size     int32  `bson:"size"`
	Type     string `bson:"type"`
}

// Namespace is a collection of a database.
type Namespace struct{ Database, Name string }

func (n Namespace) String() string { return n.Database + "." + n.Name }

// Namespace of the collection.
func (c Collection) Namespace() Namespace { return Namespace{c.Database, c.Name} }

// IsOplog tells whether these are the operations during the dump.
func (c Collection) IsOplog() bool { return c.Database == "" && c.Name == OplogName }

// Metadata is what an archive holds of a collection beside its documents.
type Metadata struct {
	Options bson.D   `bson:"options"`
	Indexes []bson.D `bson:"indexes"`
	UUID    string   `bson:"uuid"`
}

// Parse reads the metadata, which is empty where an archive has none.
func (c Collection) Parse() (Metadata, error) {
	var m Metadata
	if c.Metadata == "" {
		return m, nil
	}
	if err := bson.UnmarshalExtJSON([]byte(c.Metadata), true, &m); err != nil {
		return m, fmt.Errorf("the metadata of collection %s cannot be read: %w", c.Namespace(), err)
	}
	return m, nil
}

// Prelude is the beginning of an archive.
type Prelude struct {
	Header      Header
	Collections []Collection
}

// Databases of the archive, in its order.
func (p Prelude) Databases() []string {
	var names []string
	known := map[string]bool{"": true} // the oplog's
	for _, c := range p.Collections {
		if !known[c.Database] {
			known[c.Database] = true
			names = append(names, c.Database)
		}
	}
	return names
}

// Encode writes a prelude.
func (p Prelude) Encode() ([]byte, error) {
	out := binary.LittleEndian.AppendUint32(nil, magic)
	documents := []any{p.Header}
	for _, c := range p.Collections {
		documents = append(documents, c)
	}
	for _, document := range documents {
		raw, err := bson.Marshal(document)
		if err != nil {
			return nil, err
		}
		out = append(out, raw...)
	}
	return binary.LittleEndian.AppendUint32(out, terminator), nil
}

// blockHeader begins a block.
type blockHeader struct {
	Namespace
	end bool
	sum uint64
}

func (h blockHeader) encode() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "db", Value: h.Database}, {Key: "collection", Value: h.Name}, {Key: "EOF", Value: h.end},
		{Key: "CRC", Value: int64(h.sum)}}) //nolint:gosec // the format's own: the bits of an unsigned number
}

// parseBlockHeader takes nothing but what mongodump writes: here, a damaged byte has no checksum that would tell.
func parseBlockHeader(document []byte) (blockHeader, error) {
	wrong := errors.New("a block does not begin with a header")
	elements, err := bson.Raw(document).Elements()
	if err != nil {
		return blockHeader{}, fmt.Errorf("%w: %w", wrong, err)
	}
	if len(elements) != 4 || elements[0].Key() != "db" || elements[1].Key() != "collection" || elements[2].Key() != "EOF" || elements[3].Key() != "CRC" {
		return blockHeader{}, wrong
	}
	database, ok1 := elements[0].Value().StringValueOK()
	name, ok2 := elements[1].Value().StringValueOK()
	end, ok3 := elements[2].Value().BooleanOK()
	sum, ok4 := elements[3].Value().Int64OK()
	if !ok1 || !ok2 || !ok3 || !ok4 || !end && sum != 0 {
		return blockHeader{}, wrong
	}
	h := blockHeader{Namespace{database, name}, end, uint64(sum)} //nolint:gosec // as above
	if same, err := h.encode(); err != nil || !bytes.Equal(same, document) {
		return blockHeader{}, wrong
	}
	return h, nil
}

// typeTimeSeries is the type of a collection whose documents are in another, its buckets.
const typeTimeSeries = "timeseries"

// IsTimeSeries tells whether the collection is a time series.
func (c Collection) IsTimeSeries() bool { return c.Type == typeTimeSeries }

// IsView tells whether the collection is a view, which has no documents of its own.
func (c Collection) IsView() bool { return c.Type == "view" }

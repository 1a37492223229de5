package mongoarchive

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"io"
	"strings"
)

// Route says where a collection of an archive goes. Not ok: it is left out.
type Route func(c Collection) (to Namespace, ok bool)

// Rewrite copies those collections of an archive that have a route to another archive, under the names that they get.
type Rewrite struct {
	Route Route
	// Oplog translates one operation during the dump; none are copied without it. No bytes: it is left out. The bytes are
	// valid until the next call.
	Oplog func(document []byte) ([]byte, error)
	// Counts of the documents that were copied, by the collection's name in the archive that is read.
	Counts map[Namespace]int64
}

// Copy reads the archive to its end, and fails unless it is whole.
func (w *Rewrite) Copy(r *Reader, out io.Writer) error {
	prelude := Prelude{Header: r.Prelude.Header}
	routes := map[Namespace]Namespace{}
	for _, c := range r.Prelude.Collections {
		to, ok := w.route(c)
		if !ok {
			continue
		}
		routes[c.Namespace()] = to
		c.Database, c.Name = to.Database, to.Name
		prelude.Collections = append(prelude.Collections, c)
	}
	head, err := prelude.Encode()
	if err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	w.Counts = map[Namespace]int64{}
	blocks := &blockWriter{out: out, sums: map[Namespace]uint64{}}
	return w.copyBlocks(r, routes, blocks)
}

func (w *Rewrite) route(c Collection) (Namespace, bool) {
	if c.IsOplog() {
		return c.Namespace(), w.Oplog != nil
	}
	return w.Route(c)
}

func (w *Rewrite) copyBlocks(r *Reader, routes map[Namespace]Namespace, blocks *blockWriter) error {
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, ErrCut) {
			return nil
		}
		if err != nil {
			return err
		}
		to, ok := routes[d.Collection.Namespace()]
		if !ok {
			continue
		}
		if d.Block != d.Collection.Name && strings.HasPrefix(d.Block, bucketPrefix) {
			to.Name = bucketPrefix + to.Name
		}
		if err := w.copyDocument(d, to, blocks); err != nil {
			return err
		}
	}
}

func (w *Rewrite) copyDocument(d Document, to Namespace, blocks *blockWriter) error {
	if d.End {
		return blocks.end(to)
	}
	bytes := d.Bytes
	if d.Collection.IsOplog() {
		var err error
		if bytes, err = w.Oplog(bytes); err != nil || len(bytes) == 0 {
			return err
		}
	}
	w.Counts[d.Collection.Namespace()]++
	return blocks.document(to, bytes)
}

// blockWriter writes blocks. A block stays open until another collection's turn comes.
type blockWriter struct {
	out  io.Writer
	open Namespace // none: the zero value
	sums map[Namespace]uint64
}

func (b *blockWriter) header(h blockHeader) error {
	raw, err := h.encode()
	if err != nil {
		return err
	}
	_, err = b.out.Write(raw)
	return err
}

func (b *blockWriter) close() error {
	if b.open == (Namespace{}) {
		return nil
	}
	b.open = Namespace{}
	_, err := b.out.Write(binary.LittleEndian.AppendUint32(nil, terminator))
	return err
}

// begin opens a block.
func (b *blockWriter) begin(to Namespace) error {
	if b.open == to {
		return nil
	}
	if err := b.close(); err != nil {
		return err
	}
	b.open = to
	return b.header(blockHeader{Namespace: to})
}

func (b *blockWriter) document(to Namespace, document []byte) error {
	if err := b.begin(to); err != nil {
		return err
	}
	b.sums[to] = crc64.Update(b.sums[to], crcTable, document)
	_, err := b.out.Write(document)
	return err
}

// end ends a collection. One without documents has a block all the same, as mongodump writes it: mongorestore does not see
// the end of an oplog that has none.
func (b *blockWriter) end(to Namespace) error {
	if _, begun := b.sums[to]; !begun {
		if err := b.begin(to); err != nil {
			return err
		}
	}
	if err := b.close(); err != nil {
		return err
	}
	if err := b.header(blockHeader{Namespace: to, end: true, sum: b.sums[to]}); err != nil {
		return err
	}
	b.open = to
	return b.close()
}

package pgarchive

import "io"

// ReadTOC reads the table of contents. visit, which may be nil, sees each entry.
func (a *Reader) ReadTOC(visit func(Entry)) error {
	count, err := a.readInt()
	if err != nil {
		return cut(err)
	}
	if count < 1 {
		return malformed("a table of contents of %d entries", count)
	}
	for range count {
		entry, err := a.readEntry()
		if err != nil {
			return cut(err)
		}
		if entry.HasData {
			if _, double := a.pending[entry.ID]; double {
				return malformed("two entries have the number %d", entry.ID)
			}
			a.pending[entry.ID] = entry.Desc + " " + entry.Namespace + "." + entry.Tag
		}
		if visit != nil {
			visit(entry)
		}
	}
	return nil
}

func (a *Reader) readEntry() (Entry, error) {
	var (
		e    Entry
		err  error
		junk string
	)
	if e.ID, err = a.readInt(); err != nil {
		return e, err
	}
	hasData, err := a.readInt()
	if err != nil {
		return e, err
	}
	e.HasData = hasData != 0
	// catalogue numbers of the object, its tag and kind
	if err := a.readStrings(&junk, &junk, &e.Tag, &e.Desc); err != nil {
		return e, err
	}
	if _, err := a.readInt(); err != nil { // section
		return e, err
	}
	// definition, drop statement, COPY statement, schema, tablespace
	if err := a.readStrings(&e.Defn, &junk, &junk, &e.Namespace, &e.Tablespace); err != nil {
		return e, err
	}
	if err := a.skipAccessMethod(); err != nil {
		return e, err
	}
	if err := a.readStrings(&e.Owner, &junk); err != nil { // and whether it has OIDs
		return e, err
	}
	if err := a.skipDependencies(); err != nil {
		return e, err
	}
	return e, a.skipOffset()
}

func (a *Reader) skipAccessMethod() error {
	if a.Header.Minor >= 14 {
		if _, _, err := a.readString(); err != nil {
			return err
		}
	}
	if a.Header.Minor >= 16 { // relkind
		_, err := a.readInt()
		return err
	}
	return nil
}

func (a *Reader) skipDependencies() error {
	for {
		if _, absent, err := a.readString(); err != nil || absent {
			return err
		}
	}
}

// skipOffset skips where the entry's block lies: a flag byte and a file offset. A dump that was written to a pipe
// does not know it, so nothing may depend on it.
func (a *Reader) skipOffset() error {
	_, err := a.in.Discard(1 + a.Header.offsetSize)
	return err
}

// Kinds of data blocks.
const (
	blockData         = 1
	blockLargeObjects = 3
)

// ReadBlocks reads the data blocks to the end of the stream. It fails when one that the TOC promised is missing or
// not ended, or when anything else is there.
func (a *Reader) ReadBlocks() error {
	for {
		kind, err := a.in.ReadByte()
		if err == io.EOF {
			return a.allCame()
		}
		if err != nil {
			return err
		}
		if err := a.readBlock(kind); err != nil {
			return cut(err)
		}
	}
}

func (a *Reader) allCame() error {
	for _, name := range a.pending {
		return &MissingData{Entries: len(a.pending), Example: name}
	}
	return nil
}

// MissingData is an ErrCut that ends between two blocks.
type MissingData struct {
	Entries int
	Example string
}

func (m *MissingData) Error() string {
	return ErrCut.Error() + ": the data of " + m.Example + " is missing"
}

// Unwrap makes it an ErrCut.
func (m *MissingData) Unwrap() error { return ErrCut }

func (a *Reader) readBlock(kind byte) error {
	id, err := a.readInt()
	if err != nil {
		return err
	}
	if _, promised := a.pending[id]; !promised {
		return malformed("a data block of entry %d, which has none or had it already", id)
	}
	switch kind {
	case blockData:
		err = a.skipChunks()
	case blockLargeObjects:
		err = a.skipLargeObjects()
	default:
		err = malformed("a data block of unknown kind %d", kind)
	}
	delete(a.pending, id)
	return err
}

func (a *Reader) skipChunks() error {
	for {
		length, err := a.readInt()
		if err != nil || length == 0 {
			return err
		}
		if length < 0 {
			return malformed("a chunk of %d bytes", length)
		}
		if _, err := a.in.Discard(length); err != nil {
			return err
		}
	}
}

func (a *Reader) skipLargeObjects() error {
	for {
		oid, err := a.readInt()
		if err != nil || oid == 0 {
			return err
		}
		if err := a.skipChunks(); err != nil {
			return err
		}
	}
}

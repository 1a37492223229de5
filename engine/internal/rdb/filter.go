package rdb

import (
	"bufio"
	"encoding/binary"
	"io"
)

// Selection says what of a file is kept.
type Selection struct {
	// Database tells whether the keys of a database are.
	Database func(database uint64) bool
	// Functions says whether libraries of functions are.
	Functions bool
}

// Filter copies a file with what is selected of it, and gives the copy a checksum of its own once the file's was found right.
// It returns what stands behind the file in the stream.
func Filter(in io.Reader, out io.Writer, selection Selection) (*bufio.Reader, error) {
	r := newReader(in, Handler{})
	f := &filter{reader: r, selection: selection, out: out, on: true}
	r.sink = f
	_, err := r.head()
	if err == nil {
		err = r.records(f.begin)
	}
	if err != nil {
		return r.in, cut(err)
	}
	return r.in, f.end()
}

// filter is a reader's sink that lets through what is selected.
type filter struct {
	*reader
	selection Selection
	out       io.Writer
	outSum    uint64
	// on says that what is read now is kept; wanted, that the keys of this database are.
	on, wanted bool
	// choosing says that what is read now tells the database, and is held back until that is known.
	choosing bool
	held     []byte
}

func (f *filter) Write(p []byte) (int, error) {
	switch {
	case f.choosing:
		f.held = append(f.held, p...)
	case f.on:
		return len(p), f.put(p)
	}
	return len(p), nil
}

func (f *filter) put(p []byte) error {
	f.outSum = Sum(f.outSum, p)
	_, err := f.out.Write(p)
	return err
}

// begin decides on the record that begins.
func (f *filter) begin(code byte) error {
	if f.choosing {
		f.choosing, f.wanted = false, f.selection.Database(f.database)
		if f.wanted {
			if err := f.put(f.held); err != nil {
				return err
			}
		}
		f.held = f.held[:0]
	}
	switch code {
	case opSelect:
		f.choosing = true
	case opAux, opModuleAux:
		f.on = true
	case opFunction:
		f.on = f.selection.Functions
	case opEnd:
		f.on = false
	default:
		f.on = f.wanted
	}
	return nil
}

func (f *filter) end() error {
	if err := f.put([]byte{opEnd}); err != nil || f.version < 5 {
		return err
	}
	return f.put(binary.LittleEndian.AppendUint64(nil, f.outSum))
}

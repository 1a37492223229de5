package rdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Codes of records that are no key. A lower code is the type of a key's value.
const (
	opSlotImport   = 243
	opSlotInfo     = 244
	opFunction     = 245
	opFunctionPre  = 246
	opModuleAux    = 247
	opIdle         = 248
	opFrequency    = 249
	opAux          = 250
	opResize       = 251
	opExpireMillis = 252
	opExpire       = 253
	opSelect       = 254
	opEnd          = 255
)

// longestKey is the longest key, name and text of a file's head that is taken: the server's own bound of a string.
const longestKey = 512 << 20

var (
	// ErrCut says that a file ends before its end mark.
	ErrCut = errors.New("the RDB file is cut")
	// ErrUnknown says that a file holds something of a form that this program does not read.
	ErrUnknown = errors.New("this program does not read it: the server that wrote it is newer")
)

// Head is what a file says of itself.
type Head struct {
	// Version of the format.
	Version int
	// Valkey says that value types from 22 on are Valkey's.
	Valkey bool
	// Length of the head in bytes.
	Length int
}

// ParseHead reads the first bytes of a file. ok is false where they are no file's.
func ParseHead(raw []byte) (head Head, ok bool) {
	for _, magic := range []string{"REDIS", "VALKEY"} {
		if len(raw) < 9 || !strings.HasPrefix(string(raw), magic) {
			continue
		}
		version, err := strconv.ParseUint(string(raw[len(magic):9]), 10, 16)
		return Head{Version: int(version), Valkey: magic == "VALKEY", Length: 9}, err == nil && version > 0
	}
	return Head{}, false
}

// Key is one key of a file.
type Key struct {
	Database uint64
	Name     []byte
	// Type of the value.
	Type byte
	// ExpireAt is the time at which the key goes, in milliseconds since 1970; 0: never.
	ExpireAt int64
}

// Handler is told what stands in a file. Each function may be nil; an error ends the reading and is returned as it is.
type Handler struct {
	// Aux is a field that the server noted down, such as redis-ver.
	Aux func(name, value string)
	// Function is the code of a library of functions.
	Function func(code []byte) error
	// Key is called before a value is read. The value goes to what it returns, if that is not nil.
	Key func(key Key) (value io.Writer, err error)
	// Value is called behind each value.
	Value func(key Key) error
}

// reader reads a file from its beginning.
type reader struct {
	in      *bufio.Reader
	sum     uint64
	version int
	valkey  bool
	handler Handler
	// sink takes a copy of every byte that is read; nil: none does.
	sink     io.Writer
	database uint64
	small    [16]byte
	chunk    []byte
}

// Read reads a file to its end, which must be the stream's, and holds it against its own checksum.
func Read(in io.Reader, handler Handler) (Head, error) {
	head, rest, err := ReadPart(in, handler)
	if err != nil {
		return head, err
	}
	if _, err := rest.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more bytes stand behind the end of the RDB file")
		}
		return head, err
	}
	return head, nil
}

// ReadPart reads a file to its end and returns what stands behind it in the stream.
func ReadPart(in io.Reader, handler Handler) (Head, *bufio.Reader, error) {
	r := newReader(in, handler)
	head, err := r.head()
	if err == nil {
		err = r.records(nil)
	}
	return head, r.in, cut(err)
}

func newReader(in io.Reader, handler Handler) *reader {
	return &reader{in: bufio.NewReaderSize(in, 256<<10), handler: handler, chunk: make([]byte, 32<<10)}
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before its end mark", ErrCut)
	}
	return err
}

func (r *reader) head() (Head, error) {
	raw, err := r.bytes(9)
	if err != nil {
		return Head{}, err
	}
	head, ok := ParseHead(raw)
	if !ok {
		return Head{}, fmt.Errorf("it begins with %q, as no RDB file does", raw)
	}
	r.version, r.valkey = head.Version, head.Valkey
	return head, nil
}

// records reads records up to the end and the checksum. begin, which may be nil, is told of each before the sink gets any of it.
func (r *reader) records(begin func(code byte) error) error {
	var expireAt int64
	for {
		code, err := r.in.ReadByte()
		if err == nil && begin != nil {
			err = begin(code)
		}
		if err != nil {
			return err
		}
		r.small[0] = code
		if err := r.took(r.small[:1]); err != nil {
			return err
		}
		switch code {
		case opEnd:
			return r.end()
		case opExpire, opExpireMillis:
			expireAt, err = r.expiry(code)
		case opFrequency, opIdle, opResize, opSlotInfo, opAux, opFunction, opModuleAux, opSelect:
			err = r.other(code)
		case opFunctionPre, opSlotImport:
			err = fmt.Errorf("it holds a record of the type %d: %w", code, ErrUnknown)
		default:
			err = r.key(Key{Database: r.database, Type: code, ExpireAt: expireAt})
			expireAt = 0
		}
		if err != nil {
			return err
		}
	}
}

// end reads the checksum, which is zero where the server makes none (rdbchecksum no), and absent before version 5.
func (r *reader) end() error {
	if r.version < 5 {
		return nil
	}
	want := r.sum
	raw, err := r.bytes(8)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(raw); got != want && got != 0 {
		return fmt.Errorf("its checksum is %016x and its content has %016x: it is damaged", got, want)
	}
	return nil
}

func (r *reader) expiry(code byte) (int64, error) {
	if code == opExpire {
		raw, err := r.bytes(4)
		if err != nil {
			return 0, err
		}
		return int64(binary.LittleEndian.Uint32(raw)) * 1000, nil
	}
	raw, err := r.bytes(8)
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(raw)), nil //nolint:gosec // the server writes a signed number
}

// other reads a record that is no key.
func (r *reader) other(code byte) error {
	switch code {
	case opSelect:
		database, err := r.length()
		r.database = database
		return err
	case opFrequency:
		return r.skip(1)
	case opIdle:
		return r.lengths(1)
	case opResize:
		return r.lengths(2)
	case opSlotInfo:
		return r.lengths(3)
	case opModuleAux:
		return r.moduleAux()
	case opAux:
		return r.aux()
	}
	library, err := r.text()
	if err == nil && r.handler.Function != nil {
		err = r.handler.Function(library)
	}
	return err
}

func (r *reader) aux() error {
	name, err := r.text()
	if err != nil {
		return err
	}
	value, err := r.text()
	if err == nil && r.handler.Aux != nil {
		r.handler.Aux(string(name), string(value))
	}
	return err
}

func (r *reader) key(key Key) error {
	var err error
	if key.Name, err = r.text(); err != nil {
		return err
	}
	outer := r.sink
	if r.handler.Key != nil {
		value, err := r.handler.Key(key)
		if err != nil {
			return err
		}
		if value != nil {
			r.sink = value
		}
	}
	err = r.value(key.Type)
	r.sink = outer
	if err != nil {
		return fmt.Errorf("key %.100q of database %d: %w", key.Name, key.Database, err)
	}
	if r.handler.Value != nil {
		return r.handler.Value(key)
	}
	return nil
}

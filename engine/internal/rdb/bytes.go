package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// took accounts for bytes that were read.
func (r *reader) took(p []byte) error {
	r.sum = Sum(r.sum, p)
	if r.sink == nil {
		return nil
	}
	_, err := r.sink.Write(p)
	return err
}

func (r *reader) byte() (byte, error) {
	raw, err := r.bytes(1)
	if err != nil {
		return 0, err
	}
	return raw[0], nil
}

// bytes reads up to 16 bytes, which are valid until the next call.
func (r *reader) bytes(n int) ([]byte, error) {
	raw := r.small[:n]
	if _, err := io.ReadFull(r.in, raw); err != nil {
		return nil, err
	}
	return raw, r.took(raw)
}

// skip reads n bytes that are of no further use here.
func (r *reader) skip(n uint64) error {
	for n > 0 {
		part := r.chunk[:min(n, uint64(len(r.chunk)))]
		if _, err := io.ReadFull(r.in, part); err != nil {
			return err
		}
		if err := r.took(part); err != nil {
			return err
		}
		n -= uint64(len(part))
	}
	return nil
}

// Ways in which a string may be written instead of its bytes.
const (
	encodedInt8  = 0
	encodedInt16 = 1
	encodedInt32 = 2
	encodedLZF   = 3
)

// lengthOrEncoding reads a length; encoded says that it is one of the above instead.
func (r *reader) lengthOrEncoding() (length uint64, encoded bool, err error) {
	first, err := r.byte()
	if err != nil {
		return 0, false, err
	}
	switch {
	case first>>6 == 0:
		return uint64(first), false, nil
	case first>>6 == 1:
		second, err := r.byte()
		return uint64(first&0x3f)<<8 | uint64(second), false, err
	case first>>6 == 3:
		return uint64(first & 0x3f), true, nil
	case first == 0x80:
		raw, err := r.bytes(4)
		if err != nil {
			return 0, false, err
		}
		return uint64(binary.BigEndian.Uint32(raw)), false, nil
	case first == 0x81:
		raw, err := r.bytes(8)
		if err != nil {
			return 0, false, err
		}
		return binary.BigEndian.Uint64(raw), false, nil
	}
	return 0, false, fmt.Errorf("a length begins with %#x: it is damaged", first)
}

func (r *reader) length() (uint64, error) {
	length, encoded, err := r.lengthOrEncoding()
	if err == nil && encoded {
		err = errors.New("a length is no number: it is damaged")
	}
	return length, err
}

// lengths reads some that are of no further use here.
func (r *reader) lengths(n int) error {
	for range n {
		if _, err := r.length(); err != nil {
			return err
		}
	}
	return nil
}

// skipString reads a string that is of no further use here.
func (r *reader) skipString() error {
	length, encoded, err := r.lengthOrEncoding()
	switch {
	case err != nil:
		return err
	case !encoded:
		return r.skip(length)
	case length <= encodedInt32:
		return r.skip(1 << length)
	case length == encodedLZF:
		packed, err := r.length()
		if err != nil {
			return err
		}
		if err := r.lengths(1); err != nil {
			return err
		}
		return r.skip(packed)
	}
	return fmt.Errorf("a string has the encoding %d, which this program does not read", length)
}

// text reads a string whole.
func (r *reader) text() ([]byte, error) {
	length, encoded, err := r.lengthOrEncoding()
	switch {
	case err != nil:
		return nil, err
	case !encoded:
		return r.read(length)
	case length <= encodedInt32:
		return r.number(1 << length)
	case length == encodedLZF:
		return r.packed()
	}
	return nil, fmt.Errorf("a string has the encoding %d, which this program does not read", length)
}

// read reads n bytes. It takes memory as they come, so that a damaged length asks for none.
func (r *reader) read(n uint64) ([]byte, error) {
	if n > longestKey {
		return nil, fmt.Errorf("a text has %d bytes: it is damaged", n)
	}
	text := make([]byte, 0, min(n, uint64(len(r.chunk))))
	for uint64(len(text)) < n {
		part := r.chunk[:min(n-uint64(len(text)), uint64(len(r.chunk)))]
		if _, err := io.ReadFull(r.in, part); err != nil {
			return nil, err
		}
		if err := r.took(part); err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	return text, nil
}

// number reads a string that is written as an integer of 1, 2 or 4 bytes.
func (r *reader) number(size int) ([]byte, error) {
	raw, err := r.bytes(size)
	if err != nil {
		return nil, err
	}
	var value int64
	switch size {
	case 1:
		value = int64(int8(raw[0])) //nolint:gosec // as the server reads it
	case 2:
		value = int64(int16(binary.LittleEndian.Uint16(raw))) //nolint:gosec // as the server reads it
	default:
		value = int64(int32(binary.LittleEndian.Uint32(raw))) //nolint:gosec // as the server reads it
	}
	return strconv.AppendInt(nil, value, 10), nil
}

func (r *reader) packed() ([]byte, error) {
	packed, err := r.length()
	if err != nil {
		return nil, err
	}
	plain, err := r.length()
	if err != nil {
		return nil, err
	}
	if plain > longestKey {
		return nil, fmt.Errorf("a text has %d bytes: it is damaged", plain)
	}
	raw, err := r.read(packed)
	if err != nil {
		return nil, err
	}
	return unpackLZF(raw, int(plain)) //nolint:gosec // below longestKey
}

// unpackLZF decompresses what LibLZF compressed.
func unpackLZF(packed []byte, plain int) ([]byte, error) {
	damaged := errors.New("a compressed text cannot be decompressed: it is damaged")
	out := make([]byte, 0, min(plain, 1<<20))
	for i := 0; i < len(packed); {
		control := int(packed[i])
		i++
		if control < 32 { // so many bytes and one, as they are
			if i+control >= len(packed) {
				return nil, damaged
			}
			out = append(out, packed[i:i+control+1]...)
			i += control + 1
			continue
		}
		length := control >> 5
		if length == 7 {
			if i >= len(packed) {
				return nil, damaged
			}
			length += int(packed[i])
			i++
		}
		if i >= len(packed) {
			return nil, damaged
		}
		from := len(out) - (control&0x1f)<<8 - int(packed[i]) - 1
		i++
		if from < 0 || len(out)+length+2 > plain {
			return nil, damaged
		}
		for range length + 2 { // it may repeat what it writes itself
			out = append(out, out[from])
			from++
		}
	}
	if len(out) != plain {
		return nil, damaged
	}
	return out, nil
}

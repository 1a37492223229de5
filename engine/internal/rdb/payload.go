package rdb

import "encoding/binary"

// Payload is a value in the form that RESTORE takes, and DUMP gives: its type, the value as it stands in a file, the version
// of the format and a checksum.
type Payload struct {
	sum    uint64
	length uint64
}

// NewPayload begins a payload with the type of its value.
func NewPayload(valueType byte) Payload { return Payload{Sum(0, []byte{valueType}), 1} }

// Write accounts for more of the value.
func (p *Payload) Write(value []byte) (int, error) {
	p.sum = Sum(p.sum, value)
	p.length += uint64(len(value))
	return len(value), nil
}

// footerLength is that of what stands behind the value: two bytes for the version and eight for the checksum.
const footerLength = 10

// Length of the whole payload in bytes.
func (p Payload) Length() uint64 { return p.length + footerLength }

// Footer ends a payload for servers that read this version of the format.
func (p Payload) Footer(version int) []byte {
	footer := binary.LittleEndian.AppendUint16(make([]byte, 0, footerLength), uint16(version)) //nolint:gosec // ParseHead bounds it
	return binary.LittleEndian.AppendUint64(footer, Sum(p.sum, footer))
}

// VersionOf a payload that DUMP gave; 0 where it is none.
func VersionOf(payload []byte) int {
	if len(payload) <= footerLength {
		return 0
	}
	return int(binary.LittleEndian.Uint16(payload[len(payload)-footerLength:]))
}

package rdb

import (
	"encoding/binary"
	"hash/crc64"
)

// jones are tables of the CRC-64 that Redis uses, whose polynomial is 0xad93d23594c935a9 (here reversed, as hash/crc64 has it). The
// first is of one byte; the others are of bytes that stand so many places further left, so that eight are taken at once. hash/crc64
// does that for other polynomials' long inputs only, and a file has many short ones.
var jones = tables(crc64.MakeTable(0x95ac9329ac4bc9b5))

func tables(first *crc64.Table) *[8]crc64.Table {
	all := &[8]crc64.Table{*first}
	for i := range 256 {
		sum := first[i]
		for place := 1; place < 8; place++ {
			sum = first[byte(sum)] ^ sum>>8
			all[place][i] = sum
		}
	}
	return all
}

// Sum continues a checksum, which begins with 0. Redis inverts its checksum neither before nor after.
func Sum(sum uint64, p []byte) uint64 {
	for len(p) >= 8 {
		sum ^= binary.LittleEndian.Uint64(p)
		sum = jones[7][byte(sum)] ^ jones[6][byte(sum>>8)] ^ jones[5][byte(sum>>16)] ^ jones[4][byte(sum>>24)] ^
			jones[3][byte(sum>>32)] ^ jones[2][byte(sum>>40)] ^ jones[1][byte(sum>>48)] ^ jones[0][byte(sum>>56)]
		p = p[8:]
	}
	for _, b := range p {
		sum = jones[0][byte(sum)^b] ^ sum>>8
	}
	return sum
}

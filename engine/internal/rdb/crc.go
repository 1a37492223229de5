package rdb

import (
	"encoding/binary"
	"hash/crc64"
)

// jones are the tables of the CRC-64 that Redis uses: the polynomial 0xad93d23594c935a9 in the reversed form of hash/crc64, for
// eight bytes at once. hash/crc64 would make these anew for each text of some length, and not use them for shorter ones.
var jones = func() (tables [8]crc64.Table) {
	tables[0] = *crc64.MakeTable(0x95ac9329ac4bc9b5)
	for i := range tables[0] {
		sum := tables[0][i]
		for further := 1; further < len(tables); further++ {
			sum = tables[0][byte(sum)] ^ sum>>8
			tables[further][i] = sum
		}
	}
	return tables
}()

// Sum continues a checksum, which begins with 0.
func Sum(sum uint64, p []byte) uint64 {
	for ; len(p) >= 8; p = p[8:] {
		sum ^= binary.LittleEndian.Uint64(p)
		sum = jones[7][byte(sum)] ^ jones[6][byte(sum>>8)] ^ jones[5][byte(sum>>16)] ^ jones[4][byte(sum>>24)] ^
			jones[3][byte(sum>>32)] ^ jones[2][byte(sum>>40)] ^ jones[1][byte(sum>>48)] ^ jones[0][byte(sum>>56)]
	}
	for _, c := range p {
		sum = jones[0][byte(sum)^c] ^ sum>>8
	}
	return sum
}

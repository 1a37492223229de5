package rdb

import "hash/crc64"

// jones is the table of the CRC-64 that Redis uses: the polynomial 0xad93d23594c935a9 in the reversed form of hash/crc64.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// Sum continues a checksum, which begins with 0. Redis inverts its checksum neither before nor after, as hash/crc64 does.
func Sum(sum uint64, p []byte) uint64 { return ^crc64.Update(^sum, jones, p) }

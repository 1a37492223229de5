// Package rdb reads the snapshot files of Redis and Valkey, key by key and without decoding the values: a value stands in the
// file as the command RESTORE takes it.
//
// The format has no specification but its sources: rdb.h and rdb.c of Redis up to 8.4 (RDB versions 1 to 12), with the streams of
// 8.6 and 8.8 (versions 13 and 14), and of Valkey up to 9.1 (version 80, whose files begin with VALKEY, and whose value types from 22 on are others).
package rdb

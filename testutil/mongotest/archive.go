package mongotest

import (
	"encoding/binary"
	"hash/crc64"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Collection of an archive.
type Collection struct {
	Database, Name string
	Type           string // collection, view or timeseries
	Metadata       string // in extended JSON
	Documents      []bson.D
}

// Archive is what mongodump --archive would write of collections, also of such as the server cannot hold.
func Archive(tb testing.TB, collections ...Collection) []byte {
	tb.Helper()
	out := binary.LittleEndian.AppendUint32(nil, 0x8199e26d)
	document := func(d bson.D) []byte {
		raw, err := bson.Marshal(d)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, raw...)
		return raw
	}
	terminate := func() { out = append(out, 0xff, 0xff, 0xff, 0xff) }
	document(bson.D{{Key: "concurrent_collections", Value: int32(4)}, {Key: "version", Value: "0.1"}, {Key: "server_version", Value: "7.0.42"},
		{Key: "tool_version", Value: "100.12.0"}})
	for _, c := range collections {
		document(bson.D{{Key: "db", Value: c.Database}, {Key: "collection", Value: c.Name}, {Key: "metadata", Value: c.Metadata}, {Key: "size", Value: int32(0)},
			{Key: "type", Value: c.Type}})
	}
	terminate()
	header := func(c Collection, end bool, sum uint64) {
		name := c.Name
		if c.Type == "timeseries" {
			name = "system.buckets." + name
		}
		document(bson.D{{Key: "db", Value: c.Database}, {Key: "collection", Value: name}, {Key: "EOF", Value: end}, {Key: "CRC", Value: int64(sum)}})
	}
	for _, c := range collections {
		sum := uint64(0)
		if len(c.Documents) > 0 {
			header(c, false, 0)
			for _, d := range c.Documents {
				sum = crc64.Update(sum, crc64.MakeTable(crc64.ECMA), document(d))
			}
			terminate()
		}
		header(c, true, sum)
		terminate()
	}
	return out
}

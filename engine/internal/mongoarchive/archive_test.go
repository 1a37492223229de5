package mongoarchive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// builder writes archives byte by byte as the format is described, not by this package.
type builder struct {
	t   testing.TB
	out []byte
}

func (b *builder) document(v any) []byte {
	b.t.Helper()
	raw, err := bson.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

func (b *builder) prelude(collections ...bson.D) *builder {
	b.out = binary.LittleEndian.AppendUint32(b.out, 0x8199e26d)
	b.out = append(b.out, b.document(bson.D{{Key: "concurrent_collections", Value: int32(4)}, {Key: "version", Value: "0.1"},
		{Key: "server_version", Value: "8.0.4"}, {Key: "tool_version", Value: "100.12.0"}})...)
	for _, c := range collections {
		b.out = append(b.out, b.document(c)...)
	}
	return b.terminator()
}

func (b *builder) terminator() *builder {
	b.out = append(b.out, 0xff, 0xff, 0xff, 0xff)
	return b
}

func collection(database, name, kind string) bson.D {
	return bson.D{{Key: "db", Value: database}, {Key: "collection", Value: name}, {Key: "metadata", Value: `{"indexes":[]}`},
		{Key: "size", Value: int32(0)}, {Key: "type", Value: kind}}
}

func (b *builder) header(database, name string, end bool, sum uint64) *builder {
	b.out = append(b.out, b.document(bson.D{{Key: "db", Value: database}, {Key: "collection", Value: name}, {Key: "EOF", Value: end}, {Key: "CRC", Value: int64(sum)}})...)
	return b
}

// block writes some documents of a collection.
func (b *builder) block(database, name string, documents ...[]byte) *builder {
	b.header(database, name, false, 0)
	for _, d := range documents {
		b.out = append(b.out, d...)
	}
	return b.terminator()
}

func (b *builder) end(database, name string, documents ...[]byte) *builder {
	return b.header(database, name, true, crc64.Checksum(bytes.Join(documents, nil), crc64.MakeTable(crc64.ECMA))).terminator()
}

// sample is an archive of interleaved collections, a view, a time series and an oplog.
func sample(t testing.TB) []byte {
	b := &builder{t: t}
	d := make([][]byte, 6)
	for i := range d {
		d[i] = b.document(bson.D{{Key: "_id", Value: i}, {Key: "v", Value: strings.Repeat("x", i*10)}})
	}
	b.prelude(collection("shop", "orders", "collection"), collection("shop", "view", "view"), collection("shop", "ticks", "timeseries"),
		collection("crm", "people", "collection"), collection("", "oplog", ""))
	b.block("shop", "orders", d[0], d[1]).block("crm", "people", d[2]).end("shop", "view").block("shop", "orders", d[3])
	b.end("crm", "people", d[2]).block("shop", "system.buckets.ticks", d[4]).end("shop", "system.buckets.ticks", d[4]).end("shop", "orders", d[0], d[1], d[3])
	b.block("", "oplog", d[5]).end("", "oplog", d[5])
	return b.out
}

// read reads an archive to its end.
func read(archive []byte) (counts map[string]int, err error) {
	r, err := NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	counts = map[string]int{}
	for {
		d, err := r.Next()
		if err == io.EOF {
			return counts, nil
		}
		if err != nil {
			return counts, err
		}
		if !d.End {
			counts[d.Collection.Database+"."+d.Block]++
		}
	}
}

func TestReadsAWholeArchive(t *testing.T) {
	counts, err := read(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(counts); got != "map[.oplog:1 crm.people:1 shop.orders:3 shop.system.buckets.ticks:1]" {
		t.Errorf("the documents are %s", got)
	}
	r, err := NewReader(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Prelude.Databases(); !slices.Equal(got, []string{"shop", "crm"}) || r.Prelude.Header.ServerVersion != "8.0.4" {
		t.Errorf("the prelude is %v, %+v", got, r.Prelude.Header)
	}
}

// A cut archive is one at every byte.
func TestRefusesAnArchiveCutAnywhere(t *testing.T) {
	whole := sample(t)
	for n := range whole {
		if _, err := read(whole[:n]); !errors.Is(err, ErrCut) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}

// A changed byte is found wherever it is behind the prelude, whose texts have no checksum.
func TestRefusesADamagedArchive(t *testing.T) {
	whole := sample(t)
	r, err := NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	for n := int(r.offset); n < len(whole); n++ {
		damaged := slices.Clone(whole)
		damaged[n] ^= 0x20
		counts, err := read(damaged)
		if err == nil {
			t.Errorf("byte %d of %d changed, and all was well: %v", n, len(whole), counts)
		}
	}
}

func TestRefusesWhatIsNoArchive(t *testing.T) {
	b := func() *builder { return &builder{t: t} }
	orders := collection("shop", "orders", "collection")
	d := b().document(bson.D{{Key: "_id", Value: 1}})
	for name, c := range map[string]struct {
		archive []byte
		words   string
	}{
		"nothing":                 {nil, "cut"},
		"text":                    {[]byte("-- PostgreSQL database dump"), "does not begin"},
		"no end":                  {b().prelude(orders).block("shop", "orders", d).out, "no end of shop.orders"},
		"only a prelude":          {b().prelude(orders).out, "no end of shop.orders"},
		"not announced":           {b().prelude(orders).block("shop", "other", d).out, "was not announced"},
		"buckets of no series":    {b().prelude(orders).block("shop", "system.buckets.orders", d).out, "was not announced"},
		"announced twice":         {b().prelude(orders, orders).out, "twice"},
		"goes on":                 {b().prelude(orders).end("shop", "orders").block("shop", "orders", d).out, "behind its end"},
		"ends twice":              {b().prelude(orders).end("shop", "orders").end("shop", "orders").out, "behind its end"},
		"wrong checksum":          {b().prelude(orders).block("shop", "orders", d).end("shop", "orders").out, "checksum"},
		"a document is missing":   {b().prelude(orders).block("shop", "orders", d).end("shop", "orders", d, d).out, "checksum"},
		"documents in an end":     {slices.Concat(b().prelude(orders).header("shop", "orders", true, 0).out, d), "behind the end"},
		"a block without header":  {b().prelude(orders).terminator().out, "no header"},
		"a size that is none":     {slices.Concat(b().prelude(orders).out, []byte{3, 0, 0, 0}), "no size"},
		"a size beyond MongoDB's": {slices.Concat(b().prelude(orders).out, []byte{0, 0, 0, 0x7f}), "no size"},
		"a header of other kind":  {slices.Concat(b().prelude(orders).out, d), "does not begin with a header"},
		"a message in its midst":  {slices.Concat(b().prelude(orders).block("shop", "orders", d).out, []byte("2026-12-01 lost connection")), "no size"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(c.archive); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestRewritesNamesAndLeavesOut(t *testing.T) {
	r, err := NewReader(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := Rewrite{Route: func(c Collection) (Namespace, bool) {
		return Namespace{"target", "new_" + c.Name}, c.Database == "shop"
	}, Oplog: func(d []byte) ([]byte, error) { return d, nil }}
	if err := w.Copy(r, &out); err != nil {
		t.Fatal(err)
	}
	counts, err := read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(counts); got != "map[.oplog:1 target.new_orders:3 target.system.buckets.new_ticks:1]" {
		t.Errorf("the documents are %s", got)
	}
	if got := w.Counts[Namespace{"shop", "orders"}]; got != 3 {
		t.Errorf("counted %d", got)
	}
}

// mongorestore does not see the end of an oplog without a block.
func TestRewriteGivesAnEmptyCollectionABlock(t *testing.T) {
	r, err := NewReader(bytes.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := Rewrite{Route: func(Collection) (Namespace, bool) { return Namespace{}, false }, Oplog: func([]byte) ([]byte, error) { return nil, nil }}
	if err := w.Copy(r, &out); err != nil {
		t.Fatal(err)
	}
	want := (&builder{t: t}).prelude(collection("", "oplog", "")).block("", "oplog").end("", "oplog").out
	if got := out.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("the archive is\n%q\nwant\n%q", got, want)
	}
}

func TestRewriteFailsOnACutArchive(t *testing.T) {
	whole := sample(t)
	r, err := NewReader(bytes.NewReader(whole[:len(whole)-1]))
	if err != nil {
		t.Fatal(err)
	}
	w := Rewrite{Route: func(Collection) (Namespace, bool) { return Namespace{}, false }}
	if err := w.Copy(r, io.Discard); !errors.Is(err, ErrCut) {
		t.Errorf("the error is %v", err)
	}
}

// The prelude is recognised however its bytes come in, and what follows goes on untouched.
func TestPreludeWriterTakesAnyPieces(t *testing.T) {
	whole := sample(t)
	for _, size := range []int{1, 3, 100, 1 << 20} {
		var rest bytes.Buffer
		w := &PreludeWriter{Rest: &rest, Accept: func(Prelude) error { return nil }}
		for piece := range slices.Chunk(whole, size) {
			if n, err := w.Write(piece); err != nil || n != len(piece) {
				t.Fatalf("pieces of %d: %d, %v", size, n, err)
			}
		}
		head, err := w.Prelude.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(append(head, rest.Bytes()...), whole) {
			t.Errorf("pieces of %d: the archive is another one", size)
		}
		_, err = (&PreludeWriter{}).Write(whole)
		if !errors.Is(err, ErrPreludeRead) {
			t.Errorf("the prelude alone: %v", err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte{0x6d, 0xe2, 0x99, 0x81})
	f.Fuzz(func(t *testing.T, archive []byte) {
		counts, err := read(archive)
		if err != nil {
			return
		}
		// what is whole can be rewritten, and is whole again
		r, err := NewReader(bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := Rewrite{Route: func(c Collection) (Namespace, bool) { return c.Namespace(), true }, Oplog: func(d []byte) ([]byte, error) { return d, nil }}
		if err := w.Copy(r, &out); err != nil {
			t.Fatal(err)
		}
		again, err := read(out.Bytes())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(counts) {
			t.Errorf("rewritten: %v, %v, was %v", again, err, counts)
		}
	})
}

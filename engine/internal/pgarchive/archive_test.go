package pgarchive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// writer writes archives as pg_dump of some format version does.
type writer struct {
	bytes.Buffer
	minor int
}

func (w *writer) int(n int) {
	sign := byte(0)
	if n < 0 {
		sign, n = 1, -n
	}
	w.Write([]byte{sign, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

func (w *writer) strings(values ...string) {
	for _, value := range values {
		w.int(len(value))
		w.WriteString(value)
	}
}

func (w *writer) null() { w.int(-1) }

func (w *writer) header() {
	w.WriteString(Magic)
	w.Write([]byte{1, byte(w.minor), 0, 4, 8, 1})
	if w.minor >= 15 {
		w.WriteByte(0)
	} else {
		w.int(0)
	}
	for i := range 7 {
		w.int(i)
	}
	w.strings("orders", "15.18", "15.18 (Debian)")
}

func (w *writer) entry(id int, hasData bool, desc, tag string) {
	w.int(id)
	if hasData {
		w.int(1)
	} else {
		w.int(0)
	}
	w.strings("1259", "16384", tag, desc)
	w.int(2)
	w.strings("CREATE something;", "DROP something;")
	w.null() // COPY statement
	w.strings("public", "")
	if w.minor >= 14 {
		w.strings("heap")
	}
	if w.minor >= 16 {
		w.int('r')
	}
	w.strings("owner", "false", "7", "8")
	w.null() // end of the dependencies
	w.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
}

func (w *writer) chunks(contents ...string) {
	w.strings(contents...)
	w.int(0)
}

// archive returns a small archive and the offsets at which one of its blocks ends.
func archive(minor int) (whole []byte, ends []int) {
	w := &writer{minor: minor}
	w.header()
	w.int(4)
	w.entry(10, false, "TABLE", "t")
	w.entry(11, true, "TABLE DATA", "t")
	w.entry(12, true, "TABLE DATA", "empty")
	w.entry(13, true, "BLOBS", "BLOBS")
	end := func() { ends = append(ends, w.Len()) }
	end()
	w.WriteByte(blockData)
	w.int(11)
	w.chunks("1\tone\n", "2\ttwo\n")
	end()
	w.WriteByte(blockData)
	w.int(12)
	w.chunks()
	end()
	w.WriteByte(blockLargeObjects)
	w.int(13)
	w.int(4711)
	w.chunks("content")
	w.int(4712)
	w.chunks()
	w.int(0)
	return w.Bytes(), ends
}

func TestWholeArchives(t *testing.T) {
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		t.Run(fmt.Sprintf("1.%d", minor), func(t *testing.T) {
			whole, _ := archive(minor)
			var entries []Entry
			header, err := Check(iotest.OneByteReader(bytes.NewReader(whole)), func(e Entry) { entries = append(entries, e) })
			if err != nil {
				t.Fatal(err)
			}
			if header.Database != "orders" || header.ServerVersion != "15.18" || header.ToolVersion != "15.18 (Debian)" || header.Minor != minor {
				t.Errorf("header %+v", header)
			}
			want := Entry{ID: 11, HasData: true, Tag: "t", Desc: "TABLE DATA", Defn: "CREATE something;", Namespace: "public", Owner: "owner"}
			if len(entries) != 4 || entries[1] != want {
				t.Errorf("entries %+v", entries)
			}
		})
	}
}

// A cut archive never passes, wherever it is cut, between two blocks least of all.
func TestCutArchives(t *testing.T) {
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		whole, ends := archive(minor)
		for n := range whole {
			_, err := Check(bytes.NewReader(whole[:n]), nil)
			if !errors.Is(err, ErrCut) {
				t.Fatalf("version 1.%d, %d of %d bytes (at the end of a block: %v): %v", minor, n, len(whole), slices.Contains(ends, n), err)
			}
		}
	}
}

func TestMissingDataIsNamed(t *testing.T) {
	whole, ends := archive(14)
	_, err := Check(bytes.NewReader(whole[:ends[2]]), nil)
	missing, ok := errors.AsType[*MissingData](err)
	if !ok || missing.Entries != 1 || missing.Example != "BLOBS public.BLOBS" {
		t.Errorf("%v", err)
	}
}

func TestMoreThanAnArchive(t *testing.T) {
	whole, ends := archive(14)
	for name, raw := range map[string][]byte{
		"a byte behind it":   append(bytes.Clone(whole), 0),
		"a block twice":      append(bytes.Clone(whole), whole[ends[0]:ends[1]]...),
		"itself once more":   append(bytes.Clone(whole), whole...),
		"zeroes behind it":   append(bytes.Clone(whole), make([]byte, 4096)...),
		"an unknown kind":    append(bytes.Clone(whole[:ends[1]]), append([]byte{9}, whole[ends[1]+1:]...)...),
		"another number":     append(bytes.Clone(whole[:ends[1]]), append([]byte{1, 0, 99}, whole[ends[1]+3:]...)...),
		"no magic":           append([]byte("PGDUMP"), whole[6:]...),
		"the tar format":     append(bytes.Clone(whole[:10]), append([]byte{3}, whole[11:]...)...),
		"integers of size 0": append(bytes.Clone(whole[:8]), append([]byte{0}, whole[9:]...)...),
	} {
		if _, err := Check(bytes.NewReader(raw), nil); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrCut) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersionsThatAreNotRead(t *testing.T) {
	whole, _ := archive(newestMinor)
	for minor, want := range map[byte]error{newestMinor + 1: ErrNewerVersion, oldestMinor - 1: ErrMalformed, 0: ErrMalformed} {
		raw := bytes.Clone(whole)
		raw[6] = minor
		if _, err := NewReader(bytes.NewReader(raw)); !errors.Is(err, want) {
			t.Errorf("1.%d: %v", minor, err)
		}
		if Newer(raw[:8]) != (want == ErrNewerVersion) {
			t.Errorf("1.%d: Newer says %v", minor, Newer(raw[:8]))
		}
	}
}

// What fails to be read is no cut archive: the error of the source must come through.
func TestErrorsOfTheSource(t *testing.T) {
	whole, _ := archive(14)
	broken := errors.New("broken")
	for n := range whole {
		source := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		if _, err := Check(source, nil); !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

func TestLongStringIsNotBelieved(t *testing.T) {
	w := &writer{minor: 14}
	w.header()
	w.int(1)
	w.int(1)
	w.int(0)
	w.int(maxString + 1)
	if _, err := Check(bytes.NewReader(w.Bytes()), nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v", err)
	}
}

func FuzzCheck(f *testing.F) {
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		whole, ends := archive(minor)
		f.Add(whole)
		f.Add(whole[:ends[1]])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := Check(bytes.NewReader(raw), func(Entry) {}); err != nil {
			return
		}
		if _, err := Check(bytes.NewReader(raw[:len(raw)-1]), nil); err == nil {
			t.Error("the archive passes without its last byte too")
		}
	})
}

package rdb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

// The check value of the CRC-64 "Jones" as Redis prints it in crc64.c.
func TestSum(t *testing.T) {
	if got := rdb.Sum(0, []byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("got %x", got)
	}
	if rdb.Sum(rdb.Sum(0, []byte("1234")), []byte("56789")) != rdb.Sum(0, []byte("123456789")) {
		t.Error("a sum in two parts is another one")
	}
	long := []byte(strings.Repeat("a text of some length that differs\x00\xff", 100))
	for at := range 70 {
		got := rdb.Sum(rdb.Sum(0, long[:at]), long[at:])
		if want := ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), long); got != want {
			t.Errorf("divided at %d: got %x, want %x", at, got, want)
		}
	}
}

// file builds an RDB file out of records.
func file(magic string, records ...string) []byte {
	raw := []byte(magic + strings.Join(records, "") + "\xff")
	return binary.LittleEndian.AppendUint64(raw, rdb.Sum(0, raw))
}

// str is a string with a short length before it.
func str(s string) string {
	if len(s) > 63 {
		panic("too long")
	}
	return string(rune(len(s))) + s
}

// everyType has a value of each type, in the shapes that servers write.
var everyType = []string{
	"\xfa" + str("redis-ver") + str("7.2.4"), "\xfa" + str("ctime") + "\xc2\x01\x02\x03\x04", "\xf7\x81" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x02\x01\x05" + str("aux") + "\x00",
	"\xf5" + str("#!lua name=lib\n"), "\xfe\x00", "\xfb\x05\x01", "\xf4\x01\x02\x03",
	"\x00" + str("int8") + "\xc0\xff", "\x00" + str("int16") + "\xc1\x00\x80", "\x00" + str("int32") + "\xc2\x01\x00\x00\x80", "\x00" + str("lzf") + "\xc3\x06\x0b\x01ab\xe0\x00\x01", "\x00\xc3\x06\x0b\x01ab\xe0\x00\x01" + str("a packed key"),
	"\x00\xc0\x07" + str("a number as a key"), "\x00" + "\x40\x46" + strings.Repeat("k", 70) + "\x80\x00\x00\x00\x03abc", "\x00" + str("len64") + "\x81\x00\x00\x00\x00\x00\x00\x00\x02ab",
	"\x01" + str("list") + "\x02" + str("a") + str("b"), "\x02" + str("set") + "\x01" + str("m"), "\x03" + str("zset") + "\x03" + str("a") + "\x011" + str("b") + "\xfe" + str("c") + "\xff",
	"\x04" + str("hash") + "\x01" + str("f") + str("v"), "\x05" + str("zset2") + "\x01" + str("a") + "12345678",
	"\x07" + str("module") + "\x05" + "\x01\x07" + "\x02\x07" + "\x03" + "4444" + "\x04" + "88888888" + "\x05" + str("s") + "\x00",
	"\x09" + str("zipmap") + str("z"), "\x0a" + str("ziplist") + str("z"), "\x0b" + str("intset") + str("z"), "\x0c" + str("zsetzl") + str("z"), "\x0d" + str("hashzl") + str("z"),
	"\xfd\x01\x02\x03\x04" + "\x0e" + str("quicklist") + "\x01" + str("z"), "\xfc\x01\x02\x03\x04\x05\x06\x07\x08" + "\xf8\x09" + "\x10" + str("hashlp") + str("z"), "\xf9\x03" + "\x11" + str("zsetlp") + str("z"),
	"\x12" + str("quicklist2") + "\x02" + "\x01" + str("plain") + "\x02" + str("packed"), "\x14" + str("setlp") + str("z"),
	stream(15), stream(19), stream(21), stream(26), stream(27),
	"\x18" + str("hash ttl") + "12345678" + "\x01\x00" + str("f") + str("v"), "\x19" + str("hash ttl lp") + "12345678" + str("z"),
	"\x16" + str("hash ttl pre") + "\x01\x05" + str("f") + str("v"), "\x17" + str("hash ttl lp pre") + str("z"),
	"\xfe\x03", "\x00" + str("elsewhere") + str("v"),
}

func stream(valueType byte) string {
	counters, group, times := "\x01\x02\x03", "\x01\x02", "77777777"
	if valueType > 15 {
		counters, group = counters+"\x04\x05\x06\x07\x08", group+"\x03"
	}
	if valueType > 19 {
		times += times
	}
	id := strings.Repeat("i", 16)
	behind := ""
	if valueType > 26 {
		behind = "\x01" + id
	}
	if valueType > 25 {
		behind += "\x01\x02" + "\x01" + str("producer") + "\x01" + str("entry") + "\x40\x50\x03" + "\x04\x05"
	}
	return string(rune(valueType)) + str(fmt.Sprint("stream", valueType)) + "\x01" + str(id) + str("listpack") + counters +
		"\x01" + str("group") + group + "\x01" + id + "88888888" + "\x03" + "\x01" + str("consumer") + times + "\x01" + id + behind
}

func TestEveryType(t *testing.T) {
	t.Parallel()
	whole := file("REDIS0012", everyType...)
	seen := map[string]rdb.Key{}
	var aux, functions []string
	head, err := rdb.Read(bytes.NewReader(whole), rdb.Handler{
		Aux:      func(name, value string) { aux = append(aux, name+"="+value) },
		Function: func(code []byte) error { functions = append(functions, string(code)); return nil },
		Value:    func(key rdb.Key) error { seen[string(key.Name)] = key; return nil },
	})
	if err != nil || head.Version != 12 || head.Valkey {
		t.Fatalf("%+v: %v", head, err)
	}
	if got := strings.Join(aux, ","); got != "redis-ver=7.2.4,ctime=67305985" {
		t.Errorf("aux: %s", got)
	}
	if len(functions) != 1 || len(seen) != 34 || seen["abababababa"].Name == nil {
		t.Errorf("%d libraries and %d keys", len(functions), len(seen))
	}
	if got := seen["quicklist"].ExpireAt; got != 0x04030201*1000 {
		t.Errorf("seconds: %d", got)
	}
	if got := seen["hashlp"].ExpireAt; got != 0x0807060504030201 {
		t.Errorf("milliseconds: %d", got)
	}
	if seen["zsetlp"].ExpireAt != 0 || seen["elsewhere"].Database != 3 || seen["7"].Type != 0 {
		t.Errorf("%+v", seen)
	}
}

// A file that ends at any other place, or has any other byte, is refused: the promise that a restore begins with.
func TestCutAndDamaged(t *testing.T) {
	t.Parallel()
	whole := file("REDIS0012", everyType...)
	for at := range whole {
		if _, err := rdb.Read(bytes.NewReader(whole[:at]), rdb.Handler{}); !errors.Is(err, rdb.ErrCut) {
			t.Errorf("cut at %d: %v", at, err)
		}
		for _, bit := range []byte{1, 0x80} {
			damaged := bytes.Clone(whole)
			damaged[at] ^= bit
			if _, err := rdb.Read(bytes.NewReader(damaged), rdb.Handler{}); err == nil {
				t.Errorf("a bit flipped at %d passes", at)
			}
		}
	}
	if _, err := rdb.Read(bytes.NewReader(append(bytes.Clone(whole), 'x')), rdb.Handler{}); err == nil {
		t.Error("a byte behind the end passes")
	}
}

func TestBrandsDiffer(t *testing.T) {
	t.Parallel()
	own := "\x16" + str("hash") + "\x01" + str("f") + str("v") + "12345678"
	if head, err := rdb.Read(bytes.NewReader(file("VALKEY080", "\xfe\x00", own)), rdb.Handler{}); err != nil || !head.Valkey || head.Version != 80 {
		t.Errorf("%+v: %v", head, err)
	}
	if _, err := rdb.Read(bytes.NewReader(file("REDIS0012", "\xfe\x00", own)), rdb.Handler{}); err == nil {
		t.Error("Valkey's value is read as Redis's")
	}
	_, err := rdb.Read(bytes.NewReader(file("REDIS0012", "\xfe\x00", "\x20"+str("new")+str("v"))), rdb.Handler{})
	if !errors.Is(err, rdb.ErrUnknown) || !strings.Contains(err.Error(), "newer") || !strings.Contains(err.Error(), `"new"`) {
		t.Errorf("a type of the future: %v", err)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	aux, library, select0, select3 := "\xfa"+str("a")+str("b"), "\xf5"+str("lib"), "\xfe\x00\xfb\x01\x01", "\xfe\x03\xfb\x01\x00"
	key, gone := "\xfd\x01\x02\x03\x04\x00"+str("k")+str("v"), "\x00"+str("g")+str("v")
	whole := file("REDIS0011", aux, library, select0, gone, select3, key)
	for _, test := range []struct {
		name      string
		selection rdb.Selection
		want      []byte
	}{
		{"all", rdb.Selection{Database: func(uint64) bool { return true }, Functions: true}, whole},
		{"one", rdb.Selection{Database: func(n uint64) bool { return n == 3 }}, file("REDIS0011", aux, select3, key)},
		{"none", rdb.Selection{Database: func(uint64) bool { return false }, Functions: true}, file("REDIS0011", aux, library)},
	} {
		var out bytes.Buffer
		rest, err := rdb.Filter(bytes.NewReader(append(bytes.Clone(whole), "rest"...)), &out, test.selection)
		if err != nil || !bytes.Equal(out.Bytes(), test.want) {
			t.Errorf("%s: %v:\n%q\nwant\n%q", test.name, err, out.Bytes(), test.want)
			continue
		}
		if behind, _ := io.ReadAll(rest); string(behind) != "rest" {
			t.Errorf("%s: %q stands behind it", test.name, behind)
		}
	}
	for at := range whole {
		if _, err := rdb.Filter(bytes.NewReader(whole[:at]), io.Discard, rdb.Selection{Database: func(uint64) bool { return true }}); err == nil {
			t.Errorf("a file cut at %d is copied as if it were whole", at)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file("REDIS0012", everyType...))
	f.Add(file("VALKEY080", "\xfe\x00", "\x16"+str("hash")+"\x01"+str("f")+str("v")+"12345678"))
	f.Add([]byte("REDIS0010\xfe\x00\x00\xc3\x7f\xff\xff\x81\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys := 0
		_, err := rdb.Read(bytes.NewReader(raw), rdb.Handler{Value: func(rdb.Key) error { keys++; return nil }})
		if err == nil && keys > len(raw) {
			t.Errorf("%d keys in %d bytes", keys, len(raw))
		}
		var out bytes.Buffer
		_, copied := rdb.Filter(bytes.NewReader(raw), &out, rdb.Selection{Database: func(uint64) bool { return true }, Functions: true})
		if err == nil && copied == nil {
			if _, err := rdb.Read(&out, rdb.Handler{}); err != nil {
				t.Errorf("the copy of a good file is not one: %v", err)
			}
		}
	})
}

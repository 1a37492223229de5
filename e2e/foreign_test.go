//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var getOptions = metav1.GetOptions{}

// TestForeignDumps restores dumps that Holdfast did not make: in PostgreSQL's custom format and as plain SQL, each bare
// and compressed with gzip and zstd. Their names say nothing of what they are.
func TestForeignDumps(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "foreign")
	db := s.startPostgres("orders-db")
	db.newDatabase("source", shopSQL)
	want := db.fingerprint("source").without("database").without("database setting")
	dumps := map[string][]byte{
		"custom": db.dump("source", "-Fc", "-Z0"),
		"plain":  db.dump("source"),
	}
	pack := map[string]func(*testing.T, []byte) []byte{
		"bare": func(_ *testing.T, raw []byte) []byte { return raw }, "gzip": packGzip, "zstd": packZstd,
	}
	db.newDatabase("plain-gzip", small("in the way"))

	t.Run("group", func(t *testing.T) {
		for format, raw := range dumps {
			for packing, pack := range pack {
				name := format + "-" + packing
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					mine, server := s.forSubtest(t), db.forSubtest(t)
					url := mine.put("elsewhere/"+name, pack(t, raw))
					mine.newRestore(name, url, server.database(name)).create().awaitReady()
					got := server.fingerprint(name).without("database").without("database setting")
					mustEqual(t, "the database restored from a foreign dump", got, want)
				})
			}
		}
	})
}

func packGzip(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	packer := gzip.NewWriter(&out)
	if _, err := packer.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func packZstd(t *testing.T, raw []byte) []byte {
	t.Helper()
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer packer.Close()
	return packer.EncodeAll(raw, nil)
}

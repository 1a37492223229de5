package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const goodSum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func goodManifest(key, uid string) Manifest {
	return Manifest{
		Version: ManifestVersion, Key: key, SizeBytes: 7, UncompressedBytes: 70, SHA256: goodSum,
		Format: "Custom", Compression: "Zstd", Engine: "PostgreSQL", ServerVersion: "16.4", ToolVersion: "16.4",
		Databases:      []string{"orders", `aw"kward ü`},
		Object:         ObjectReference{Kind: "DatabaseBackup", Namespace: "shop", Name: "orders", UID: uid},
		Snapshots:      []Snapshot{{Name: "s", Claim: "c", Handle: "h"}},
		StartTime:      time.Date(2026, 11, 30, 21, 15, 0, 0, time.UTC),
		CompletionTime: time.Date(2026, 11, 30, 21, 16, 0, 0, time.UTC),
	}
}

func TestManifestSurvivesEncoding(t *testing.T) {
	want := goodManifest("prod/a.zst", "u")
	raw, err := EncodeManifest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestEncodeManifestWritesOurVersion(t *testing.T) {
	m := goodManifest("a", "u")
	m.Version = 0
	raw, err := EncodeManifest(m)
	if err != nil || !strings.Contains(string(raw), fmt.Sprintf(`"version": %d`, ManifestVersion)) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestManifestOfUnknownFieldsIsRead(t *testing.T) {
	raw, err := json.Marshal(goodManifest("a", "u"))
	if err != nil {
		t.Fatal(err)
	}
	withMore := strings.Replace(string(raw), "{", `{"later": {"x": [1]}, `, 1)
	if _, err := DecodeManifest([]byte(withMore)); err != nil {
		t.Error(err)
	}
}

func TestBadManifestIsRefused(t *testing.T) {
	cases := map[string]struct {
		change  func(*Manifest)
		problem string
	}{
		"newer":             {func(m *Manifest) { m.Version = ManifestVersion + 1 }, "use a newer Holdfast"},
		"no version":        {func(m *Manifest) { m.Version = 0 }, "no version"},
		"no key":            {func(m *Manifest) { m.Key = "" }, "no key"},
		"no engine":         {func(m *Manifest) { m.Engine = "" }, "no engine"},
		"no sum":            {func(m *Manifest) { m.SHA256 = "" }, "sha256"},
		"short sum":         {func(m *Manifest) { m.SHA256 = goodSum[1:] }, "sha256"},
		"sum of other kind": {func(m *Manifest) { m.SHA256 = goodSum[1:] + "g" }, "sha256"},
		"sum and newline":   {func(m *Manifest) { m.SHA256 = goodSum + "\n" }, "sha256"},
		"negative size":     {func(m *Manifest) { m.SizeBytes = -1 }, "sizeBytes"},
		"size too large":    {func(m *Manifest) { m.SizeBytes = MaxObjectSize + 1 }, "sizeBytes"},
		"negative original": {func(m *Manifest) { m.UncompressedBytes = -1 }, "uncompressedBytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := goodManifest("a", "u")
			c.change(&m)
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeManifest(raw); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v, want one of %q", err, c.problem)
			}
		})
	}
}

func TestBytesThatAreNoManifest(t *testing.T) {
	good, err := EncodeManifest(goodManifest("a", "u"))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]byte{
		"empty":      {},
		"cut":        good[:len(good)/2],
		"two in one": append(append([]byte{}, good...), good...),
		"null":       []byte("null"),
		"list":       []byte("[]"),
		"too large":  append(append([]byte{}, good...), make([]byte, maxManifestBytes)...),
		"HTML":       []byte("<html>not found</html>"),
		"wide type":  []byte(strings.Replace(string(good), `"sizeBytes": 7`, `"sizeBytes": 1e99`, 1)),
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			if m, err := DecodeManifest(raw); !errors.Is(err, ErrManifest) || m.Key != "" {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
}

func TestEncodeManifestRefusesWhatDecodeWould(t *testing.T) {
	bad := goodManifest("a", "u")
	bad.SHA256 = "?"
	if _, err := EncodeManifest(bad); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
	huge := goodManifest("a", "u")
	huge.Databases = []string{strings.Repeat("x", maxManifestBytes)}
	if _, err := EncodeManifest(huge); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	good, err := EncodeManifest(goodManifest("prod/a.zst", "u"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"key":"a","engine":"x","sha256":"` + goodSum + `","sizeBytes":-0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := DecodeManifest(raw)
		if err != nil {
			if !errors.Is(err, ErrManifest) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again, err := EncodeManifest(m)
		if err != nil && len(raw) < maxManifestBytes/8 {
			t.Fatalf("read but not written: %v", err)
		}
		if err == nil {
			if _, err := DecodeManifest(again); err != nil {
				t.Fatalf("written but not read: %v", err)
			}
		}
	})
}

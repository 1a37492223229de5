package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

var uploadSizes = map[string]int{
	"empty":                   0,
	"one byte":                1,
	"one part":                testPart,
	"one part and a byte":     testPart + 1,
	"three parts":             3 * testPart,
	"seven of unequal parts":  6*testPart + 12345,
	"small but over 1 MiB":    2*mebi + 7, // asks before it sends
	"first step of a stream":  3*testPart + 1,
	"second step of a stream": 7 * testPart,
}

func TestPutAndReadBack(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		for name, size := range uploadSizes {
			f.Run(name, func(t *testing.T) {
				want := content(size)
				info, err := f.open().Put(t.Context(), testKey, bytes.NewReader(want), int64(size))
				f.assertStored(t, info, err, want)
			})
		}
	})
}

// An artifact of the part sizes that users get, with the last part short.
func TestPutInPartsOfTheUsualSize(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.tune = defaultTuning
		want := content(70*mebi + 1)
		info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(len(want)))
		f.assertStored(f.T, info, err, want)
		if !strings.HasSuffix(info.ETag, "-5") {
			f.Errorf("ETag %s: it has not 5 parts of 16 MiB", info.ETag)
		}
	})
}

func TestPutStreamAndReadBack(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		for name, size := range uploadSizes {
			f.Run(name, func(t *testing.T) {
				want := content(size)
				// A source that returns little at a time, as a pipe does.
				info, err := f.open().PutStream(t.Context(), testKey, &dribble{bytes.NewReader(want)})
				f.assertStored(t, info, err, want)
			})
		}
	})
}

type dribble struct{ io.Reader }

func (d *dribble) Read(p []byte) (int, error) { return d.Reader.Read(p[:min(len(p), 64<<10)]) }

// assertStored checks what the store holds with an independent client and through the store itself.
func (f *fixture) assertStored(t *testing.T, info Info, err error, want []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if info.SizeBytes != int64(len(want)) || info.ETag == "" || info.ChecksumsAgree {
		t.Errorf("got %+v", info)
	}
	assertSame(t, "independent client", f.object(testKey), want)
	reader, found, err := f.open().Get(t.Context(), testKey, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	assertSame(t, "read back", got, want)
	if found != info {
		t.Errorf("Get says %+v, the upload said %+v", found, info)
	}
	f.assertNoUploads()
}

func TestPartChecksums(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.PartChecksums = true
		want := content(3*testPart + 5)
		for _, size := range []int{0, 100, len(want)} {
			info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(size))
			if err != nil || !info.ChecksumsAgree {
				f.Errorf("Put of %d bytes: %+v, %v", size, info, err)
			}
			assertSame(f.T, "Put", f.object(testKey), want[:size])
			info, err = f.open().PutStream(f.Context(), testKey, bytes.NewReader(want[:size]))
			if err != nil || !info.ChecksumsAgree {
				f.Errorf("PutStream of %d bytes: %+v, %v", size, info, err)
			}
			assertSame(f.T, "PutStream", f.object(testKey), want[:size])
		}
	})
}

// A store that computes another SHA-256 than was sent has received other bytes.
func TestPartChecksumThatDisagrees(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.PartChecksums = true
		f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil && r.Method == http.MethodPut {
					answer.Header.Set(headerSHA256, base64Of(make([]byte, sha256.Size)))
				}
				return answer, err
			})
		}
		_, err := f.open().Put(f.Context(), testKey, bytes.NewReader(content(2*testPart)), 2*testPart)
		assertKind(f.T, err, ErrStore)
		f.assertNothing()
	})
}

func TestGetFromAnOffset(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		want := "0123456789"
		f.server.Put(f.T, f.config.Bucket, testKey, want)
		s := f.open()
		for _, offset := range []int64{0, 1, 9, 10} {
			reader, info, err := s.Get(f.Context(), testKey, offset)
			if err != nil {
				f.Fatalf("offset %d: %v", offset, err)
			}
			got, err := io.ReadAll(reader)
			if err != nil || string(got) != want[offset:] || info.SizeBytes != 10 || info.ETag == "" {
				f.Errorf("offset %d: %q, %+v, %v", offset, got, info, err)
			}
			if err := reader.Close(); err != nil {
				f.Error(err)
			}
		}
		for _, offset := range []int64{-1, 11} {
			_, _, err := s.Get(f.Context(), testKey, offset)
			assertKind(f.T, err, ErrStore)
		}
	})
}

func TestStat(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "12345")
		info, err := f.open().Stat(f.Context(), testKey)
		if err != nil || info.SizeBytes != 5 || info.ETag == "" || strings.Contains(info.ETag, `"`) {
			f.Errorf("%+v, %v", info, err)
		}
	})
}

func TestObjectThatIsNotThere(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		s := f.open()
		_, err := s.Stat(f.Context(), testKey)
		assertKind(f.T, err, ErrNotFound)
		_, _, err = s.Get(f.Context(), testKey, 0)
		assertKind(f.T, err, ErrNotFound)
		_, _, err = s.Get(f.Context(), testKey, 5)
		assertKind(f.T, err, ErrNotFound)
		if err := s.AbortUploads(f.Context(), testKey); err != nil {
			f.Error(err)
		}
	})
}

func TestDeleteTwice(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.server.Put(f.T, f.config.Bucket, testKey, "x")
		f.server.Put(f.T, f.config.Bucket, testKey+".other", "x")
		for range 2 {
			if err := f.open().Delete(f.Context(), testKey); err != nil {
				f.Fatal(err)
			}
			if keys := f.server.Keys(f.T, f.config.Bucket); !slices.Equal(keys, []string{testKey + ".other"}) {
				f.Errorf("left: %q", keys)
			}
		}
	})
}

func TestAbortUploadsOfExactlyOneKey(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		longer := testKey + ".other"
		kept := f.server.StartUpload(f.T, f.config.Bucket, longer)
		for range 2 {
			f.server.StartUpload(f.T, f.config.Bucket, testKey)
		}
		if err := f.open().AbortUploads(f.Context(), testKey); err != nil {
			f.Fatal(err)
		}
		if ids := f.server.Uploads(f.T, f.config.Bucket, testKey); len(ids) > 0 {
			f.Errorf("left: %q", ids)
		}
		if ids := f.server.Uploads(f.T, f.config.Bucket, longer); !slices.Equal(ids, []string{kept}) {
			f.Errorf("of another key: %q", ids)
		}
		if err := f.open().AbortUploads(f.Context(), longer); err != nil {
			f.Fatal(err)
		}
		f.assertNothing()
	})
}

func TestAwkwardKeys(t *testing.T) {
	keys := []string{"a b/c+d%20e%/f&g=h;i", "ünï/日本語/💾.zst", `quo"te's/<x>/[y]{z}`, "a#b?c=d/~e!*()", "s3:/x",
		"trailing.dots.../..x/.hidden", strings.Repeat("long/", 180) + "end"}
	eachProvider(t, func(f *fixture) {
		s := f.open()
		for _, key := range keys {
			if _, err := s.Put(f.Context(), key, strings.NewReader(key), int64(len(key))); err != nil {
				f.Errorf("%q: %v", key, err)
				continue
			}
			if got := f.object(key); string(got) != key {
				f.Errorf("%q: holds %q", key, got)
			}
			f.server.StartUpload(f.T, f.config.Bucket, key)
			if err := errors.Join(s.AbortUploads(f.Context(), key), s.Delete(f.Context(), key)); err != nil {
				f.Errorf("%q: %v", key, err)
			}
		}
		f.assertNothing()
	})
}

func TestKeysThatAreRefused(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		s := f.open()
		for _, key := range []string{"", "/a", "a//b", "a/../b", "..", "a/", "a\nb", "\xff", strings.Repeat("k", 1025)} {
			_, err := s.Put(f.Context(), key, strings.NewReader(""), 0)
			assertKind(f.T, err, ErrInvalidConfig)
			_, err = s.PutStream(f.Context(), key, strings.NewReader(""))
			assertKind(f.T, err, ErrInvalidConfig)
			_, _, err = s.Get(f.Context(), key, 0)
			assertKind(f.T, err, ErrInvalidConfig)
			_, err = s.Stat(f.Context(), key)
			assertKind(f.T, err, ErrInvalidConfig)
			assertKind(f.T, s.Delete(f.Context(), key), ErrInvalidConfig)
			assertKind(f.T, s.AbortUploads(f.Context(), key), ErrInvalidConfig)
		}
	})
}

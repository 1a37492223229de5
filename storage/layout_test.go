package storage

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var started = time.Date(2026, 11, 30, 22, 15, 0, 0, time.FixedZone("CET", 3600))

func TestArtifactKey(t *testing.T) {
	const uid = "3f2a91c0-7d55-4e0a-9b0e-2f1f0d6a4c11"
	cases := map[string]struct{ prefix, want string }{
		"prefix":          {"prod", "prod/shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst"},
		"deep prefix":     {"/team a/prod/", "team a/prod/shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst"},
		"no prefix":       {"", "shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst"},
		"slash as prefix": {"/", "shop/orders/20261130T211500Z-3f2a91c0.pgdump.zst"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ArtifactKey(c.prefix, "shop", "orders", started, uid, ".pgdump.zst")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if problem := keyProblem(got); problem != "" {
				t.Error(problem)
			}
		})
	}
}

func TestManifestKey(t *testing.T) {
	if got := ManifestKey("a/b.zst"); got != "a/b.zst.manifest.json" {
		t.Error(got)
	}
}

func TestLongestKeyFits(t *testing.T) {
	key := ArtifactKey(strings.Repeat("p", 512), strings.Repeat("n", 63), strings.Repeat("o", 253), started,
		"3f2a91c0-7d55", ".pgdump.zst")
	if problem := keyProblem(ManifestKey(key)); problem != "" {
		t.Error(problem)
	}
}

func TestKeyNamesOwner(t *testing.T) {
	const uid = "3f2a91c0-7d55-4e0a-9b0e-2f1f0d6a4c11"
	key := ArtifactKey("p-3f2a91c0", "shop", "orders", started, uid, ".pgdump.zst")
	cases := map[string]struct {
		key, uid string
		want     bool
	}{
		"its own":              {key, uid, true},
		"another UID":          {key, "99999999-7d55-4e0a-9b0e-2f1f0d6a4c11", false},
		"no UID":               {key, "", false},
		"UID in a folder only": {"p/x-3f2a91c0.d/20261130T211500Z-99999999.pgdump.zst", uid, false},
		"a longer number":      {"p/20261130T211500Z-3f2a91c0ff.zst", uid, false},
		"a foreign name":       {"dumps/orders.dump", uid, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := keyNamesOwner(c.key, c.uid); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestParseURL(t *testing.T) {
	cases := map[string]struct{ url, bucket, key, problem string }{
		"plain": {url: "s3://backups/prod/a.zst", bucket: "backups", key: "prod/a.zst"},
		"nothing is escaped": {url: "s3://backups/a%20b+c d?e#f&g/ü.zst", bucket: "backups",
			key: "a%20b+c d?e#f&g/ü.zst"},
		"old bucket":     {url: "s3://Old_Bucket.eu/k", bucket: "Old_Bucket.eu", key: "k"},
		"empty":          {url: "", problem: "does not begin with s3://"},
		"other scheme":   {url: "https://minio/backups/a", problem: "does not begin with s3://"},
		"capital scheme": {url: "S3://backups/a", problem: "does not begin with s3://"},
		"no bucket":      {url: "s3:///a", problem: "no bucket is named"},
		"bucket alone":   {url: "s3://backups", problem: "no object in it"},
		"bucket, slash":  {url: "s3://backups/", problem: "no object in it"},
		"bad bucket":     {url: "s3://b ad/a", problem: "no name of a bucket"},
		"port in bucket": {url: "s3://minio:9000/a", problem: "no name of a bucket"},
		"password":       {url: "s3://key:secret@backups/a", problem: "no name of a bucket"},
		"dots in bucket": {url: "s3://a..b/a", problem: "no name of a bucket"},
		"folder":         {url: "s3://backups/prod/", problem: "names a folder"},
		"two slashes":    {url: "s3://backups//prod", problem: "two in a row"},
		"parent":         {url: "s3://backups/a/../b", problem: `".."`},
		"dot":            {url: "s3://backups/./b", problem: `"."`},
		"line break":     {url: "s3://backups/a\n", problem: "control character"},
		"space at end":   {url: "s3://backups/a ", problem: "white space"},
		"manifest":       {url: "s3://backups/a.manifest.json", problem: "leave out .manifest.json"},
		"not UTF-8":      {url: "s3://backups/\xff", problem: "UTF-8"},
		"too long":       {url: "s3://backups/" + strings.Repeat("a", 1025), problem: "1025 bytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bucket, key, err := ParseURL(c.url)
			if bucket != c.bucket || key != c.key {
				t.Errorf("got bucket %q, key %q", bucket, key)
			}
			if c.problem == "" && err == nil {
				return
			}
			if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got error %v, want one of %q", err, c.problem)
			}
		})
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"s3://backups/prod/a.zst", "s3://", "s3:///", "s3://a/b", "s3://abc/%2e%2e/x",
		"s3://abc/../x", "s3://abc//", "http://abc/x", "s3://abc/a\x00b", "s3://abc/\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		bucket, key, err := ParseURL(url)
		if err != nil {
			if bucket != "" || key != "" {
				t.Fatalf("an error and yet %q, %q", bucket, key)
			}
			return
		}
		if URL(bucket, key) != url {
			t.Fatalf("%q became %q", url, URL(bucket, key))
		}
		if len(key) > maxKeySize || strings.Contains("/"+key+"/", "/../") || strings.Contains(bucket, "/") {
			t.Fatalf("let through: bucket %q, key %q", bucket, key)
		}
	})
}

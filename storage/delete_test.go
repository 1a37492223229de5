package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// leave writes what a backup leaves: an artifact, a manifest with an owner, an unfinished upload.
func (f *fixture) leave(artifact bool, manifestOwner string, uploads bool) {
	f.Helper()
	if artifact {
		f.server.Put(f.T, f.config.Bucket, testKey, "artifact")
	}
	if manifestOwner != "" {
		if err := WriteManifest(f.Context(), f.open(), goodManifest(testKey, manifestOwner)); err != nil {
			f.Fatal(err)
		}
	}
	if uploads {
		f.server.StartUpload(f.T, f.config.Bucket, testKey)
	}
}

func TestDeleteArtifact(t *testing.T) {
	const other = "99999999-7d55-4e0a-9b0e-2f1f0d6a4c11"
	manifest := ManifestKey(testKey)
	cases := map[string]struct {
		artifact, uploads bool
		owner             string // of the manifest; empty: none
		uid               string
		uncommitted       bool
		kind              error
		left              []string
		what              string
	}{
		"whole":                       {artifact: true, owner: testUID, uid: testUID, what: "and its manifest"},
		"whole, with an old upload":   {artifact: true, owner: testUID, uid: testUID, uploads: true, what: "and its manifest"},
		"after a try that was cut":    {owner: testUID, uid: testUID, what: "and its manifest"},
		"another's":                   {artifact: true, owner: other, uid: testUID, kind: ErrNotOurs, left: []string{testKey, manifest}},
		"another's, uncommitted":      {artifact: true, owner: other, uid: testUID, uncommitted: true, kind: ErrNotOurs, left: []string{testKey, manifest}},
		"no UID":                      {artifact: true, owner: testUID, kind: ErrNotOurs, left: []string{testKey, manifest}},
		"no UID, no manifest":         {artifact: true, uncommitted: true, kind: ErrNotOurs, left: []string{testKey}},
		"uncommitted":                 {artifact: true, uploads: true, uid: testUID, uncommitted: true, what: "had no manifest"},
		"uncommitted upload":          {uploads: true, uid: testUID, uncommitted: true, what: "nothing"},
		"committed, but no manifest":  {artifact: true, uid: testUID, kind: ErrNotOurs, left: []string{testKey}},
		"key of another, uncommitted": {artifact: true, uid: other, uncommitted: true, kind: ErrNotOurs, left: []string{testKey}},
		"nothing there":               {uid: testUID, what: "nothing"},
		"nothing there, foreign key":  {uid: other, uncommitted: true, what: "nothing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(f *fixture) {
				f.leave(c.artifact, c.owner, c.uploads)
				f.server.Put(f.T, f.config.Bucket, "zz/neighbour", "x")
				for range 2 { // again, without harm
					what, err := DeleteArtifact(f.Context(), f.open(), testKey, c.uid, c.uncommitted)
					if c.kind != nil {
						assertKind(f.T, err, c.kind)
					} else if err != nil || (!strings.Contains(what, c.what) && !strings.Contains(what, "nothing")) {
						f.Fatalf("%q, %v", what, err)
					}
				}
				if keys := f.server.Keys(f.T, f.config.Bucket); !slices.Equal(keys, append(c.left, "zz/neighbour")) {
					f.Errorf("left: %q", keys)
				}
				f.assertNoUploads()
			})
		})
	}
}

func TestDeleteArtifactOfADamagedManifest(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.leave(true, "", false)
		f.server.Put(f.T, f.config.Bucket, ManifestKey(testKey), "{")
		_, err := DeleteArtifact(f.Context(), f.open(), testKey, testUID, true)
		assertKind(f.T, err, ErrManifest)
		if keys := f.server.Keys(f.T, f.config.Bucket); len(keys) != 2 {
			f.Errorf("left: %q", keys)
		}
	})
}

// The manifest is the proof of who may delete: it must outlive an artifact that could not be deleted.
func TestManifestOutlivesAnArtifactThatStays(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.leave(true, testUID, false)
		stuck := errors.New("stuck")
		_, err := DeleteArtifact(f.Context(), undeletable{f.open(), stuck}, testKey, testUID, false)
		if !errors.Is(err, stuck) {
			f.Errorf("got %v", err)
		}
		if keys := f.server.Keys(f.T, f.config.Bucket); len(keys) != 2 {
			f.Errorf("left: %q", keys)
		}
	})
}

type undeletable struct {
	Store
	err error
}

func (s undeletable) Delete(context.Context, string) error { return s.err }

func TestReadManifest(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		s := f.open()
		_, err := ReadManifest(f.Context(), s, testKey)
		assertKind(f.T, err, ErrNotFound)

		f.leave(true, testUID, false)
		m, err := ReadManifest(f.Context(), s, testKey)
		if err != nil || m.Object.UID != testUID {
			f.Fatalf("%+v, %v", m, err)
		}

		f.server.Put(f.T, f.config.Bucket, ManifestKey("copy"), string(f.object(ManifestKey(testKey))))
		_, err = ReadManifest(f.Context(), s, "copy")
		assertKind(f.T, err, ErrManifest)
		if !strings.Contains(err.Error(), testKey) {
			f.Errorf("it does not say whose manifest it is: %v", err)
		}

		f.server.Put(f.T, f.config.Bucket, ManifestKey("huge"), strings.Repeat(" ", maxManifestBytes+1))
		_, err = ReadManifest(f.Context(), s, "huge")
		assertKind(f.T, err, ErrManifest)
	})
}

func TestWriteManifestRefusesABadOne(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		assertKind(f.T, WriteManifest(f.Context(), f.open(), Manifest{Key: testKey}), ErrManifest)
		f.assertNothing()
	})
}

package storage

import (
	"context"
	"errors"
	"fmt"
)

// DeleteArtifact deletes the artifact under key, its manifest and what is unfinished of its uploads, if the manifest
// says that the object with this UID made it; anything else is ErrNotOurs, and nothing is deleted. Without a manifest,
// uncommitted allows to delete what lies under a key that names this UID: the leavings of a backup that never became
// Ready. Nothing there is no error. It can be called again after any failure: the manifest, which is the proof, goes
// after the artifact. what is a sentence on what was done.
func DeleteArtifact(ctx context.Context, store Store, key, uid string, uncommitted bool) (what string, err error) {
	m, err := ReadManifest(ctx, store, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return deleteUncommitted(ctx, store, key, uid, uncommitted)
	case err != nil:
		return "", err
	case uid == "" || m.Object.UID != uid:
		return "", notOurs(key, fmt.Sprintf("its manifest says that it was made by %s %s/%s with UID %q, and not by the object with UID %q",
			m.Object.Kind, m.Object.Namespace, m.Object.Name, m.Object.UID, uid))
	}
	for _, each := range []string{key, ManifestKey(key)} {
		if err := store.Delete(ctx, each); err != nil {
			return "", err
		}
	}
	if err := store.AbortUploads(ctx, key); err != nil {
		return "", err
	}
	return fmt.Sprintf("deleted the artifact %q and its manifest", key), nil
}

func deleteUncommitted(ctx context.Context, store Store, key, uid string, uncommitted bool) (string, error) {
	_, err := store.Stat(ctx, key)
	present := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	switch {
	case !keyNamesOwner(key, uid) && !present:
		return fmt.Sprintf("nothing to delete under %q", key), nil
	case !keyNamesOwner(key, uid):
		return "", notOurs(key, fmt.Sprintf("it has no manifest, and its name does not hold the UID %q", uid))
	case present && !uncommitted:
		return "", notOurs(key, "it has no manifest that says who made it, though its backup was committed")
	}
	what := fmt.Sprintf("nothing to delete under %q", key)
	if present {
		if err := store.Delete(ctx, key); err != nil {
			return "", err
		}
		what = fmt.Sprintf("deleted %q, which had no manifest", key)
	}
	if err := store.AbortUploads(ctx, key); err != nil {
		return "", err
	}
	return what, nil
}

func notOurs(key, reason string) error {
	return &Error{Kind: ErrNotOurs, Subject: fmt.Sprintf("deletion of %q", key), Reason: reason,
		Advice: "nothing was deleted; if it is no longer needed, delete it by hand"}
}

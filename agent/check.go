package agent

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/storage"
)

// check asks the store for what an upload will need of it, so that a wrong bucket, key or CA is found before a dump that
// may take hours. It leaves nothing there.
func (w *work) check(ctx context.Context) (contract.Result, error) {
	store, err := w.store(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	var result contract.Result
	err = w.patiently(ctx, "check", func() error {
		result.Note, err = w.checkOnce(ctx, store)
		return err
	})
	return result, err
}

// checkOnce does what uploads begin with: they look for a manifest and for what an earlier run left, which may here be
// what a check left that was killed, and begin to write.
func (w *work) checkOnce(ctx context.Context, store storage.Store) (note string, err error) {
	if _, err := storage.ReadManifest(ctx, store, w.task.Key); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	if err := store.AbortUploads(ctx, w.task.Key); err != nil {
		return "", err
	}
	return store.CheckWrite(ctx, w.task.Key)
}

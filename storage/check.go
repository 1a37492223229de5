package storage

import (
	"context"
	"errors"
)

const verbCheck = "test of writing"

// CheckWrite begins a multipart upload under key and aborts it.
func (s *store) CheckWrite(ctx context.Context, key string) (note string, err error) {
	what := operation{verbCheck, key}
	if err := s.checkKey(what); err != nil {
		return "", err
	}
	id, err := s.begin(ctx, what)
	if err != nil {
		return "", err
	}
	// What was begun is ended, whoever asks to stop meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err = s.abort(ctx, key, id)
	if errors.Is(err, ErrAccessDenied) {
		return "an unfinished upload without parts stays in the store, and so would what an upload that fails has sent: " + err.Error(), nil
	}
	return "", err
}

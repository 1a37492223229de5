package storage

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

const (
	verbRead   = "read of"
	verbStat   = "lookup of"
	verbDelete = "deletion of"
)

func (s *store) checkKey(what operation) error {
	problem := keyProblem(what.key)
	if problem == "" {
		return nil
	}
	return &Error{Kind: ErrInvalidConfig, Subject: fmt.Sprintf("%s %q", what.verb, what.key), Reason: problem}
}

// Get opens the object under key from offset on.
func (s *store) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, Info, error) {
	what := operation{verbRead, key}
	if err := s.checkKey(what); err != nil {
		return nil, Info{}, err
	}
	if offset < 0 {
		return nil, Info{}, s.badOffset(what, offset, "is negative")
	}
	byteRange := ""
	if offset > 0 {
		byteRange = fmt.Sprintf("bytes=%d-", offset)
	}
	var found answer
	err := s.try(ctx, what, func() (err error) {
		found, err = s.client.get(ctx, key, byteRange)
		return err
	})
	if said, ok := replyOf(err); ok && said.status == http.StatusRequestedRangeNotSatisfiable {
		return s.getEnd(ctx, what, offset)
	}
	if err != nil {
		return nil, Info{}, err
	}
	if offset > 0 && !found.ranged {
		_ = found.body.Close()
		return nil, Info{}, s.badOffset(what, offset, "is not honoured by this store")
	}
	return &objectReader{store: s, ctx: ctx, what: what, body: found.body, left: found.info.SizeBytes - offset},
		found.info, nil
}

// getEnd answers a read from the very end, which stores refuse, with no bytes.
func (s *store) getEnd(ctx context.Context, what operation, offset int64) (io.ReadCloser, Info, error) {
	info, err := s.stat(ctx, what)
	if err != nil {
		return nil, Info{}, err
	}
	if offset > info.SizeBytes {
		return nil, Info{}, s.badOffset(what, offset, fmt.Sprintf("is past the end at %d", info.SizeBytes))
	}
	return http.NoBody, info, nil
}

func (s *store) badOffset(what operation, offset int64, problem string) error {
	return &Error{Kind: ErrStore, Subject: s.subject(what), Reason: fmt.Sprintf("offset %d %s", offset, problem),
		Advice: "read it from the beginning"}
}

// objectReader gives the errors of a body their kind, and takes none that ends early for whole.
type objectReader struct {
	store *store
	ctx   context.Context
	what  operation
	body  io.ReadCloser
	left  int64
}

func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.left -= int64(n)
	if err == io.EOF && r.left == 0 {
		return n, io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, r.store.explain(context.Cause(r.ctx), r.what, err)
}

func (r *objectReader) Close() error { return r.body.Close() }

// Stat says what the store holds under key.
func (s *store) Stat(ctx context.Context, key string) (Info, error) {
	what := operation{verbStat, key}
	if err := s.checkKey(what); err != nil {
		return Info{}, err
	}
	return s.stat(ctx, what)
}

func (s *store) stat(ctx context.Context, what operation) (info Info, err error) {
	err = s.try(ctx, what, func() (err error) {
		if info, err = s.client.head(ctx, what.key); err != nil {
			err = s.explainHead(ctx, what.key, err)
		}
		return err
	})
	return info, err
}

// explainHead asks for the first byte to learn why a HEAD was refused: its answer has no body, so that an absent
// object, an absent bucket and a wrong key look alike.
func (s *store) explainHead(ctx context.Context, key string, headErr error) error {
	if said, replied := replyOf(headErr); !replied || said.status >= http.StatusInternalServerError {
		return headErr
	}
	found, err := s.client.get(ctx, key, "bytes=0-0")
	if err != nil {
		return err
	}
	_ = found.body.Close()
	return headErr
}

// Delete removes the object under key. One that is not there is no error.
func (s *store) Delete(ctx context.Context, key string) error {
	what := operation{verbDelete, key}
	if err := s.checkKey(what); err != nil {
		return err
	}
	return s.try(ctx, what, func() error {
		err := s.client.remove(ctx, key)
		if said, ok := replyOf(err); ok && said.code == codeNoSuchKey {
			return nil
		}
		return err
	})
}

const codeNoSuchKey = "NoSuchKey"

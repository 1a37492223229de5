package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// abortTimeout bounds the clean-up after a failure: a pod that is told to end has 30 seconds.
	abortTimeout = 15 * time.Second
	verbUpload   = "upload of"
	verbAbort    = "clean-up of the unfinished upload of"
)

func isUnreachable(err error) bool { return errors.Is(err, ErrUnreachable) }

// Put uploads size bytes of source under key.
func (s *store) Put(ctx context.Context, key string, source io.ReaderAt, size int64) (Info, error) {
	what := operation{verbUpload, key}
	if err := s.checkKey(what); err != nil {
		return Info{}, err
	}
	if size < 0 || size > MaxObjectSize {
		return Info{}, s.explain(nil, what, tooLarge(size))
	}
	watched := &watchedSource{reader: source, size: size}
	partSize := s.tune.partSize(size)
	if size <= partSize {
		return s.putWhole(ctx, what, body{source: watched, size: size})
	}
	return s.putParts(ctx, what, func(u *upload) error {
		u.group.SetLimit(partsInFlight)
		for offset := int64(0); offset < size; offset += partSize {
			if err := u.ctx.Err(); err != nil {
				return err
			}
			u.send(body{source: watched, offset: offset, size: min(partSize, size-offset)}, func() {})
		}
		return nil
	})
}

func tooLarge(size int64) error {
	return sourceError{fmt.Errorf("%d bytes are more than an object can have (5 TiB)", size)}
}

// putWhole uploads an object with a single request.
func (s *store) putWhole(ctx context.Context, what operation, b body) (Info, error) {
	if err := b.hash(s.checksums || s.plain); err != nil {
		return Info{}, s.explain(context.Cause(ctx), what, b.source.blame(err))
	}
	var stored part
	err := s.try(ctx, what, func() (err error) {
		stored, err = s.client.putObject(ctx, what.key, b)
		return b.source.blame(err)
	})
	if err != nil {
		return Info{}, err
	}
	agrees, err := s.checksumAgrees(what, b, stored)
	if err != nil {
		return Info{}, err
	}
	return s.confirm(ctx, what, b.size, agrees)
}

// checksumAgrees compares the SHA-256 that the store computed with what was sent; false where it computed none.
func (s *store) checksumAgrees(what operation, b body, stored part) (bool, error) {
	if b.sha256 == nil || stored.sha256 == "" {
		return false, nil
	}
	if stored.sha256 != base64Of(b.sha256) {
		return false, &Error{Kind: ErrStore, Subject: s.subject(what), Reason: fmt.Sprintf(
			"the store received bytes with SHA-256 %s, %s was sent", stored.sha256, base64Of(b.sha256)),
			Advice: "something between here and the store changes what is sent"}
	}
	return true, nil
}

// confirm asks the store what it holds now.
func (s *store) confirm(ctx context.Context, what operation, size int64, agrees bool) (Info, error) {
	info, err := s.stat(ctx, what)
	if err != nil {
		return Info{}, err
	}
	if info.SizeBytes != size {
		return Info{}, &Error{Kind: ErrStore, Subject: s.subject(what), Advice: "look for another writer of this key",
			Reason: fmt.Sprintf("%d bytes were sent, the store holds %d", size, info.SizeBytes)}
	}
	info.ChecksumsAgree = agrees
	return info, nil
}

// upload is a multipart upload under way.
type upload struct {
	store *store
	what  operation
	id    string
	group *errgroup.Group
	ctx   context.Context // ends with the first part that fails

	mutex  sync.Mutex
	parts  []part
	size   int64
	number int
	agree  bool
}

// putParts begins a multipart upload, lets feed send its parts, and completes it. On any failure it is aborted.
func (s *store) putParts(ctx context.Context, what operation, feed func(*upload) error) (Info, error) {
	id, err := s.begin(ctx, what)
	if err != nil {
		return Info{}, err
	}
	u := &upload{store: s, what: what, id: id, agree: s.checksums}
	u.group, u.ctx = errgroup.WithContext(ctx)
	if err = u.run(feed); err == nil {
		err = u.complete(ctx)
	}
	if err != nil {
		return Info{}, s.abandon(ctx, what, id, err)
	}
	return s.confirm(ctx, what, u.size, u.agree)
}

// begin creates a multipart upload. An answer that was lost may have left another one whose ID nobody knows; since
// the key is ours alone, all of its other uploads are aborted then.
func (s *store) begin(ctx context.Context, what operation) (id string, err error) {
	tries := 0
	err = s.try(ctx, what, func() (err error) {
		tries++
		id, err = s.client.createUpload(ctx, what.key)
		return err
	})
	lost := tries > 1 || isUnreachable(err) || errors.Is(err, ErrStopped)
	if lost && !neverConnected(err) {
		s.sweep(ctx, what.key, id)
	}
	return id, err
}

func neverConnected(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// sweep aborts the uploads of a key but one. That it fails is no failure of its own: nothing may be there, and where
// the store is away, the error at hand says so.
func (s *store) sweep(ctx context.Context, key, keep string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	ids, _ := s.listUploads(ctx, operation{verbAbort, key})
	for _, id := range ids {
		if id != keep {
			_ = s.abort(ctx, key, id)
		}
	}
}

// run feeds the upload and waits for its parts. A failed part explains why no more of them were fed, not the other
// way round.
func (u *upload) run(feed func(*upload) error) error {
	feedErr := feed(u)
	if err := u.group.Wait(); err != nil {
		return err
	}
	return feedErr
}

// send uploads the next part in the background and calls done when it has ended. It waits while too many parts are in
// flight.
func (u *upload) send(b body, done func()) {
	u.number++
	u.size += b.size
	number := u.number
	u.group.Go(func() error {
		defer done()
		return u.put(number, b)
	})
}

func (u *upload) put(number int, b body) error {
	s := u.store
	if s.checksums || s.plain {
		if err := b.hash(true); err != nil {
			return s.explain(context.Cause(u.ctx), u.what, b.source.blame(err))
		}
	}
	var stored part
	err := s.try(u.ctx, u.what, func() (err error) {
		stored, err = s.client.putPart(u.ctx, u.what.key, u.id, number, b)
		return b.source.blame(err)
	})
	if err != nil {
		return err
	}
	agrees, err := s.checksumAgrees(u.what, b, stored)
	if err != nil {
		return err
	}
	stored.number = number
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.parts = append(u.parts, stored)
	u.agree = u.agree && agrees
	return nil
}

// complete makes the parts an object. When the answer to a first try is lost, the next finds no upload any more; then
// the object under the key tells whether it is ours.
func (u *upload) complete(ctx context.Context) error {
	slices.SortFunc(u.parts, func(a, b part) int { return a.number - b.number })
	lost := false
	return u.store.try(ctx, u.what, func() error {
		err := u.store.client.completeUpload(ctx, u.what.key, u.id, u.parts)
		if said, ok := replyOf(err); ok && lost && said.code == codeNoSuchUpload && u.landed(ctx) {
			return nil
		}
		lost = err != nil
		return err
	})
}

// landed says whether the object under the key is this upload's.
func (u *upload) landed(ctx context.Context) bool {
	info, err := u.store.client.head(ctx, u.what.key)
	return err == nil && info.SizeBytes == u.size && info.ETag == multipartETag(u.parts)
}

const codeNoSuchUpload = "NoSuchUpload"

// abandon aborts an upload that failed with err, also when ctx has ended, and returns err. Where the store cannot be
// told, the error says what stays behind.
func (s *store) abandon(ctx context.Context, what operation, id string, err error) error {
	failure := s.explain(context.Cause(ctx), what, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if abortErr := s.abort(ctx, what.key, id); abortErr != nil {
		return fmt.Errorf("%w; its parts stay in the store until the key's uploads are aborted (%s)",
			failure, abortErr.Error())
	}
	return failure
}

func (s *store) abort(ctx context.Context, key, id string) error {
	return s.try(ctx, operation{verbAbort, key}, func() error {
		err := s.client.abortUpload(ctx, key, id)
		if said, ok := replyOf(err); ok && said.code == codeNoSuchUpload {
			return nil
		}
		return err
	})
}

// AbortUploads aborts every unfinished multipart upload of exactly this key.
func (s *store) AbortUploads(ctx context.Context, key string) error {
	what := operation{verbAbort, key}
	if err := s.checkKey(what); err != nil {
		return err
	}
	ids, err := s.listUploads(ctx, what)
	for _, id := range ids {
		if err == nil {
			err = s.abort(ctx, key, id)
		}
	}
	return err
}

func (s *store) listUploads(ctx context.Context, what operation) (ids []string, err error) {
	err = s.try(ctx, what, func() (err error) {
		ids, err = s.client.uploads(ctx, what.key)
		return err
	})
	return ids, err
}

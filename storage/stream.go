package storage

import (
	"context"
	"io"
)

// PutStream uploads a source of unknown size under key.
func (s *store) PutStream(ctx context.Context, key string, source io.Reader) (Info, error) {
	what := operation{verbUpload, key}
	if err := s.checkKey(what); err != nil {
		return Info{}, err
	}
	feed := &streamFeed{source: source, plan: s.tune.streamPart}
	first, err := feed.next(ctx)
	if err != nil {
		return Info{}, s.explain(context.Cause(ctx), what, err)
	}
	if feed.ended {
		return s.putWhole(ctx, what, body{source: bytesSource(first), size: int64(len(first))})
	}
	return s.putParts(ctx, what, func(u *upload) error {
		for part := first; len(part) > 0; {
			u.send(body{source: bytesSource(part), size: int64(len(part))}, feed.release(part))
			if feed.ended {
				return nil
			}
			if part, err = feed.next(u.ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// streamFeed cuts a stream into parts. The buffers that they are read into come from one slab of memory, and a buffer is
// used again when its part has been sent.
type streamFeed struct {
	source io.Reader
	plan   func(number int) (size int64, buffers int)

	number int
	total  int64
	slab   []byte
	size   int64
	count  int
	free   chan []byte
	ended  bool
}

// next returns the next part; it is empty only where the stream ended just before it.
func (f *streamFeed) next(ctx context.Context) ([]byte, error) {
	buffer, err := f.buffer(ctx)
	if err != nil {
		return nil, err
	}
	n, err := f.fill(buffer)
	if err != nil {
		return nil, sourceError{err}
	}
	if f.total += int64(n); f.total > MaxObjectSize {
		return nil, tooLarge(f.total)
	}
	return buffer[:n], nil
}

// fill reads until the buffer is full or the stream ends. Only io.EOF is an end: io.ReadFull would make one of a
// source that fails with io.ErrUnexpectedEOF.
func (f *streamFeed) fill(buffer []byte) (n int, err error) {
	for n < len(buffer) {
		read, err := f.source.Read(buffer[n:])
		n += read
		if err == io.EOF {
			f.ended = true
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// buffer waits for a free buffer of the next part's size.
func (f *streamFeed) buffer(ctx context.Context) ([]byte, error) {
	f.number++
	if size, count := f.plan(f.number); size != f.size || count != f.count {
		if err := f.resize(ctx, size, count); err != nil {
			return nil, err
		}
	}
	return f.take(ctx)
}

func (f *streamFeed) take(ctx context.Context) ([]byte, error) {
	select {
	case buffer := <-f.free:
		return buffer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// resize cuts the slab anew once all of its buffers are back. A larger slab takes the place of the old one, it does
// not stand beside it.
func (f *streamFeed) resize(ctx context.Context, size int64, count int) error {
	for range f.count {
		if _, err := f.take(ctx); err != nil {
			return err
		}
	}
	f.size, f.count, f.free = size, count, make(chan []byte, count)
	if need := size * int64(count); int64(cap(f.slab)) < need {
		f.slab = nil
		f.slab = make([]byte, need)
	}
	for i := range int64(count) {
		f.free <- f.slab[i*size : (i+1)*size : (i+1)*size]
	}
	return nil
}

// release returns what gives the buffer of a part back.
func (f *streamFeed) release(part []byte) func() {
	free := f.free
	return func() { free <- part[:cap(part)] }
}

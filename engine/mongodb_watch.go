package engine

import (
	"context"
	"io"
	"sync/atomic"
	"time"
)

const (
	// watchInterval is how long a client program may move no bytes before the server is looked at.
	watchInterval = 15 * time.Second
	// dumpSilence is how long mongodump may write nothing. It writes at least once in 16 MiB, and before that once it has
	// looked at all collections.
	dumpSilence = 5 * time.Minute
	// restoreSilence is how long mongorestore may read nothing: it reads again when a batch is written.
	restoreSilence = 30 * time.Minute
)

// moved counts what a client program reads or writes.
type moved struct {
	in    io.Reader
	out   io.Writer
	bytes atomic.Int64
}

func (m *moved) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	m.bytes.Add(int64(n))
	return n, err
}

func (m *moved) Write(p []byte) (int, error) {
	n, err := m.out.Write(p)
	m.bytes.Add(int64(n))
	return n, err
}

// watch ends a client program whose server is gone, or that moves nothing for too long: the programs do not always notice.
func (s *mongoSession) watch(ctx context.Context, program string, m *moved) (context.Context, func()) {
	silence, reason := dumpSilence, ReasonDumpToolFailed
	if m.in != nil {
		silence, reason = restoreSilence, ReasonRestoreToolFailed
	}
	watched, end := context.WithCancelCause(ctx)
	go func() {
		last, since := int64(0), time.Now()
		for Pause(watched, watchInterval) == nil {
			if bytes := m.bytes.Load(); bytes != last {
				last, since = bytes, time.Now()
				continue
			}
			again, gone := openMongo(watched, s.Access)
			if gone != nil {
				end(gone)
				return
			}
			again.close()
			if time.Since(since) > silence {
				end(Transient(reason, "%s has moved nothing for %s, though %s answers: its connection may have broken", program, silence, s.where()))
				return
			}
		}
	}()
	return watched, func() { end(nil) }
}

package agent

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// progressInterval is how often a long step says how far it is.
const progressInterval = 10 * time.Second

// progress counts bytes and says from time to time how many.
type progress struct {
	done atomic.Int64
	stop chan struct{}
	gone chan struct{}
}

// progress of a step; total is 0 where it is not known. The caller ends it.
func (w *work) progress(step string, total int64) *progress {
	p := &progress{stop: make(chan struct{}), gone: make(chan struct{})}
	go p.say(w.log.With("step", step), total)
	return p
}

func (p *progress) say(log *slog.Logger, total int64) {
	defer close(p.gone)
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for begun := time.Now(); ; {
		select {
		case <-p.stop:
			log.Info("finished step", "bytes", p.done.Load(), "seconds", time.Since(begun).Seconds())
			return
		case <-ticker.C:
			log.Info("progress", "bytes", p.done.Load(), "of", total)
		}
	}
}

func (p *progress) end() {
	close(p.stop)
	<-p.gone
}

// reader counts what is read.
func (p *progress) reader(in io.Reader) io.Reader { return &countedReader{in, &p.done} }

type countedReader struct {
	in   io.Reader
	done *atomic.Int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.done.Add(int64(n))
	return n, err
}

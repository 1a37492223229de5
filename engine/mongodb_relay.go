package engine

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// mongoRelay takes the tools' connections on a private socket and gives them on to the server over TLS. The tools know
// no way between checking the whole of a certificate and checking nothing.
type mongoRelay struct {
	path     string
	address  string
	config   *tls.Config
	listener net.Listener
	stopped  context.CancelFunc
	running  sync.WaitGroup
	folder   string
}

// startRelay listens. The socket's folder is short, since a socket's path may have 107 bytes, and private.
func (s *mongoSession) startRelay(ctx context.Context) (*mongoRelay, error) {
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	r := &mongoRelay{address: s.mongoAddress(), config: config}
	if s.hello.Set != "" && s.hello.Primary != "" {
		r.address = s.hello.Primary
	}
	if r.folder, err = os.MkdirTemp(s.TempDir, "m"); err != nil { // mode 0700
		return nil, fmt.Errorf("make a folder for a socket: %w", err)
	}
	r.path = filepath.Join(r.folder, "s.sock")
	if r.listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", r.path); err != nil {
		_ = os.RemoveAll(r.folder)
		return nil, fmt.Errorf("listen on a socket for the client program: %w", err)
	}
	ctx, r.stopped = context.WithCancel(ctx)
	r.running.Go(func() { r.serve(ctx) })
	return r, nil
}

func (r *mongoRelay) serve(ctx context.Context) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.relay(ctx, conn) })
	}
}

// relay copies both ways until either side ends.
func (r *mongoRelay) relay(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout, KeepAlive: time.Minute}, Config: r.config}
	server, err := dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, each := range []struct {
		to   io.Writer
		from io.Reader
	}{{server, conn}, {conn, server}} {
		r.running.Go(func() {
			_, _ = io.Copy(each.to, each.from)
			ended <- struct{}{}
		})
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (r *mongoRelay) stop() {
	r.stopped()
	_ = r.listener.Close()
	r.running.Wait()
	_ = os.RemoveAll(r.folder)
}

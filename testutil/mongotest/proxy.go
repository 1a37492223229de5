package mongotest

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy stands before a server, and can be told to fail once so many bytes went through it.
type Proxy struct {
	Port int

	server   string
	listener net.Listener
	mu       sync.Mutex
	left     int64 // bytes until act; -1: for ever
	act      func()
	down     bool
	open     map[net.Conn]bool
}

// NewProxy starts a proxy before a server. It ends with the test.
func (s *Server) NewProxy(tb testing.TB) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Port: listener.Addr().(*net.TCPAddr).Port, server: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), listener: listener, left: -1,
		open: map[net.Conn]bool{}}
	go p.serve(listener)
	tb.Cleanup(func() {
		p.mu.Lock()
		_ = p.listener.Close()
		p.mu.Unlock()
		p.breakAll()
	})
	return p
}

// BreakAfter breaks all connections after so many bytes, either way, and takes no others until Heal.
func (p *Proxy) BreakAfter(bytes int64) {
	p.CallAfter(bytes, func() {
		p.mu.Lock()
		p.down = true
		_ = p.listener.Close()
		p.mu.Unlock()
		p.breakAll()
	})
}

// BreakOnceAfter breaks all connections after so many bytes, and takes others at once.
func (p *Proxy) BreakOnceAfter(bytes int64) { p.CallAfter(bytes, p.breakAll) }

// CallAfter calls a function once, after so many bytes from now on.
func (p *Proxy) CallAfter(bytes int64, act func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.act = bytes, act
}

// Heal takes connections again, and tells whether the bytes were reached.
func (p *Proxy) Heal(tb testing.TB) (reached bool) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	reached = p.act == nil
	p.left, p.act = -1, nil
	if p.down {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)))
		if err != nil {
			tb.Fatal(err)
		}
		p.listener, p.down = listener, false
		go p.serve(listener)
	}
	return reached
}

func (p *Proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go p.relay(conn)
	}
}

func (p *Proxy) relay(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	p.open[conn], p.open[server] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, conn)
		delete(p.open, server)
	}()
	ended := make(chan struct{}, 2)
	for to, from := range map[net.Conn]net.Conn{server: conn, conn: server} {
		go func() {
			_, _ = io.Copy(counted{to, p}, from)
			ended <- struct{}{}
		}()
	}
	<-ended
}

// counted tells the proxy of what goes through.
type counted struct {
	to    io.Writer
	proxy *Proxy
}

func (c counted) Write(b []byte) (int, error) {
	c.proxy.count(int64(len(b)))
	return c.to.Write(b)
}

func (p *Proxy) count(bytes int64) {
	p.mu.Lock()
	act := p.act
	due := p.left >= 0 && p.left < bytes
	if p.left >= 0 {
		p.left = max(p.left-bytes, -1)
	}
	if due {
		p.left, p.act = -1, nil
	}
	p.mu.Unlock()
	if due && act != nil {
		act()
	}
}

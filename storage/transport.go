package storage

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// stallTimeout is how long a connection may move no byte in either direction. It bounds a store that takes a
	// request and never answers, and a peer that vanished, at any speed and any size of part.
	stallTimeout = 2 * time.Minute
	bufferSize   = 128 << 10
)

// newTransport returns the HTTP/1.1 transport of one store. One connection a part in flight is faster than HTTP/2's
// single one.
func newTransport(trust *tls.Config) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &stallingConn{Conn: connection, limit: stallTimeout}, nil
		},
		TLSClientConfig:       trust,
		TLSHandshakeTimeout:   dialTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   2 * partsInFlight,
		IdleConnTimeout:       time.Minute,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
		DisableCompression:    true, // an artifact is returned as it lies in the store
	}
}

// stallingConn fails when nothing moves for longer than its limit. A write puts off the reader's deadline too: a
// large part is sent while the answer is already waited for.
type stallingConn struct {
	net.Conn
	limit time.Duration
}

func (c *stallingConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *stallingConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// expectContinue asks the store before a large body is sent, as the AWS SDK does by itself, so that a refusal is read
// as one and not as a broken connection.
type expectContinue struct{ next http.RoundTripper }

const expectFrom = 1 << 20 // bytes

func (t expectContinue) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPut && request.ContentLength >= expectFrom {
		request = request.Clone(request.Context())
		request.Header.Set("Expect", "100-continue")
	}
	return t.next.RoundTrip(request)
}

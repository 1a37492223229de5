package engine

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// redisPatience is how long a server may say nothing. While it prepares a snapshot it sends an empty line each second.
const redisPatience = 5 * time.Minute

// redisConn is one connection to a server in its own protocol (RESP2). It is not left to a client library, as none takes part in
// a replication or sends a value that is larger than memory.
type redisConn struct {
	Access
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	stop func() bool
}

// redisRefusal is an error that the server answered with, such as "WRONGPASS invalid username-password pair".
type redisRefusal string

func (r redisRefusal) Error() string { return string(r) }

// openRedis connects and logs in.
func openRedis(ctx context.Context, a Access) (*redisConn, error) {
	security, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.redisPort())))
	if err != nil {
		return nil, a.redisError(err)
	}
	if security != nil {
		secure := tls.Client(conn, security)
		_ = conn.SetDeadline(time.Now().Add(connectTimeout))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, a.handshakeError(err)
		}
		conn = secure
	}
	c := &redisConn{Access: a, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: bufio.NewWriterSize(conn, 64<<10)}
	c.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := c.logIn(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (a Access) redisPort() int {
	if a.Port == 0 {
		return redisEngine{}.DefaultPort()
	}
	return a.Port
}

func (c *redisConn) close() {
	c.stop()
	_ = c.conn.Close()
}

// logIn gives the user's name and password. Nothing is asked behind that: a server that takes no writes may not even answer PING, and
// can be dumped all the same. A server older than ACLs knows one user alone, by the name default.
func (c *redisConn) logIn(ctx context.Context) error {
	_, err := c.do(ctx, "AUTH", c.Username, c.Password)
	if refused, ok := errors.AsType[redisRefusal](err); ok && c.Username == "default" && refused == "ERR wrong number of arguments for 'auth' command" {
		_, err = c.do(ctx, "AUTH", c.Password)
	}
	if err != nil {
		return c.redisError(err)
	}
	return nil
}

// do sends one command and returns the answer: nil, an int64, a string or a []any of those.
func (c *redisConn) do(ctx context.Context, command ...string) (any, error) {
	if err := c.send(command...); err != nil {
		return nil, err
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	return c.receive(ctx)
}

// text is do for a command that is answered with text.
func (c *redisConn) text(ctx context.Context, command ...string) (string, error) {
	reply, err := c.do(ctx, command...)
	if err != nil {
		return "", c.redisError(err)
	}
	text, _ := reply.(string)
	return text, nil
}

// number is do for a command that is answered with a number.
func (c *redisConn) number(ctx context.Context, command ...string) (int64, error) {
	reply, err := c.do(ctx, command...)
	if err != nil {
		return 0, c.redisError(err)
	}
	number, _ := reply.(int64)
	return number, nil
}

// send writes a command, which waits for flush.
func (c *redisConn) send(command ...string) error {
	c.begin(len(command))
	for _, word := range command {
		c.word(uint64(len(word)))
		_, _ = c.out.WriteString(word)
		_, _ = c.out.WriteString("\r\n")
	}
	_, err := c.out.Write(nil)
	return err
}

// begin writes how many words a command has, and word how many bytes the next one has. Their errors come again at each later write.
func (c *redisConn) begin(words int)   { _, _ = fmt.Fprintf(c.out, "*%d\r\n", words) }
func (c *redisConn) word(bytes uint64) { _, _ = fmt.Fprintf(c.out, "$%d\r\n", bytes) }
func (c *redisConn) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.conn.SetDeadline(time.Now().Add(redisPatience))
}

func (c *redisConn) flush(ctx context.Context) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	return c.out.Flush()
}

// receive reads one answer.
func (c *redisConn) receive(ctx context.Context) (any, error) {
	line, err := c.line(ctx)
	if err != nil {
		return nil, err
	}
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return nil, redisRefusal(line[1:])
	case ':':
		return strconv.ParseInt(line[1:], 10, 64)
	}
	count, err := strconv.Atoi(line[1:])
	switch {
	case err != nil || (line[0] != '$' && line[0] != '*') || count > 512<<20:
		return nil, fmt.Errorf("the server does not speak Redis's protocol: it answered %.40q", line)
	case count < 0:
		return nil, nil //nolint:nilnil // the protocol's own nil
	case line[0] == '$':
		return c.bulk(count)
	}
	return c.list(ctx, count)
}

// list reads the parts of an answer. An error in one of them is a value, as EXEC gives it.
func (c *redisConn) list(ctx context.Context, count int) (any, error) {
	var list []any
	for range count {
		part, err := c.receive(ctx)
		if refused, ok := errors.AsType[redisRefusal](err); ok {
			part, err = refused, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return list, nil
}

func (c *redisConn) bulk(count int) (any, error) {
	raw := make([]byte, count+2)
	if _, err := io.ReadFull(c.in, raw); err != nil {
		return nil, err
	}
	return string(raw[:count]), nil
}

// line reads a line. A server that prepares a snapshot sends empty ones before its answer.
func (c *redisConn) line(ctx context.Context) (string, error) {
	for {
		if err := c.wait(ctx); err != nil {
			return "", err
		}
		raw, err := c.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return "", fmt.Errorf("the server does not speak Redis's protocol: it answered %.40q", raw)
		}
		if err != nil {
			return "", err
		}
		if text := strings.TrimRight(string(raw), "\r\n"); text != "" {
			return text, nil
		}
	}
}

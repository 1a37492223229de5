package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

// replicaVersion is the version of Valkey that Holdfast follows as. Valkey 9 writes a snapshot for older replicas, or such as do not
// tell, in a form that has no time to live of a hash's fields; a newer server writes one that this version reads.
const replicaVersion = "9.0.0"

// endMarkLength is that of the mark behind a snapshot whose length the server does not know beforehand.
const endMarkLength = 40

// dumpBuffer is written at once: a record may have a few bytes.
const dumpBuffer = 256 << 10

// Dump follows the server as a replica does until it has sent its snapshot, which is of one moment, and keeps what was asked for.
func (redisEngine) Dump(ctx context.Context, a Access, server Server, dump io.Writer) error {
	c, err := openRedis(ctx, a)
	if err != nil {
		return err
	}
	defer c.close()
	snapshot, mark, err := c.follow(ctx)
	if err != nil {
		return err
	}
	selection := rdb.Selection{Functions: len(a.Databases) == 0, Database: func(database uint64) bool {
		return slices.Contains(server.Databases, strconv.FormatUint(database, 10))
	}}
	out := bufio.NewWriterSize(&ownErrors{w: dump}, dumpBuffer)
	rest, err := rdb.Filter(&following{ctx, c, snapshot}, out, selection)
	if err == nil {
		err = out.Flush()
	}
	if err == nil && mark != "" {
		err = sameMark(rest, mark)
	} else if err == nil {
		err = nothingMore(rest)
	}
	return c.dumpError(ctx, err)
}

// follow asks for a snapshot and returns it with the mark that stands behind it, which is empty where its length is known.
func (c *redisConn) follow(ctx context.Context) (snapshot io.Reader, mark string, err error) {
	// Redis 7 and newer: nothing of what is written meanwhile needs to be kept for this replica
	for _, option := range [][]string{{"rdb-only", "1"}, {"version", replicaVersion}} {
		if _, err := c.do(ctx, "REPLCONF", option[0], option[1]); err != nil && !refusedBy(err) {
			return nil, "", c.redisError(err)
		}
	}
	if _, err := c.do(ctx, "REPLCONF", "capa", "eof", "capa", "psync2"); err != nil {
		return nil, "", c.replicationError(err)
	}
	reply, err := c.do(ctx, "PSYNC", "?", "-1")
	if err != nil {
		return nil, "", c.replicationError(err)
	}
	if text, _ := reply.(string); !strings.HasPrefix(text, "FULLRESYNC") {
		return nil, "", Transient(ReasonDumpToolFailed, "%s answered the request for a snapshot with %.100q", c.where(), text)
	}
	line, err := c.announcement(ctx)
	if err != nil {
		return nil, "", c.dumpError(ctx, err)
	}
	if mark, found := strings.CutPrefix(line, "$EOF:"); found && len(mark) == endMarkLength {
		return c.in, mark, nil
	}
	length, err := strconv.ParseInt(strings.TrimPrefix(line, "$"), 10, 64)
	if err != nil || length < 0 {
		return nil, "", Transient(ReasonDumpToolFailed, "%s announced its snapshot with %.100q", c.where(), line)
	}
	return io.LimitReader(c.in, length), "", nil
}

// announcement waits for the line before the snapshot.
func (c *redisConn) announcement(ctx context.Context) (string, error) {
	line, err := c.line(ctx)
	if err == nil && strings.HasPrefix(line, "-") {
		return "", redisRefusal(line[1:])
	}
	return line, err
}

func refusedBy(err error) bool {
	_, ok := errors.AsType[redisRefusal](err)
	return ok
}

// following reads a snapshot as long as something comes.
type following struct {
	ctx  context.Context
	c    *redisConn
	from io.Reader
}

func (f *following) Read(p []byte) (int, error) {
	if err := f.c.wait(f.ctx); err != nil {
		return 0, err
	}
	return f.from.Read(p)
}

// writeError is one of the dump's destination, which the server has no part in.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

// ownErrors marks the errors of a destination.
type ownErrors struct{ w io.Writer }

func (o *ownErrors) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = writeError{err}
	}
	return n, err
}

func sameMark(rest io.Reader, mark string) error {
	got := make([]byte, endMarkLength)
	if _, err := io.ReadFull(rest, got); err != nil {
		return err
	}
	if string(got) != mark {
		return fmt.Errorf("the snapshot ends with %q, and the server had announced %q", got, mark)
	}
	return nil
}

func nothingMore(rest io.Reader) error {
	if n, err := rest.Read(make([]byte, 1)); n > 0 {
		return errors.New("more bytes stand behind the end of the snapshot")
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// dumpError says why a snapshot did not come whole.
func (c *redisConn) dumpError(ctx context.Context, err error) error {
	own, isOwn := errors.AsType[writeError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isOwn:
		return own.error
	case refusedBy(err):
		return c.redisError(err)
	case errors.Is(err, rdb.ErrUnknown):
		return Permanent(ReasonServerNotSupported, "the snapshot of %s cannot be checked: %w: use a newer version of Holdfast", c.where(), err)
	case cutOff(err):
		return Transient(ReasonDumpIncomplete, "%s ended the connection before its snapshot was whole: it was stopped, or dropped this client as one that reads too "+
			"slowly (client-output-buffer-limit replica, repl-timeout), or could not save (see its log)", c.where())
	}
	return Transient(ReasonDumpIncomplete, "the snapshot of %s did not come whole: %w", c.where(), err)
}

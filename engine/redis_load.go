package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

const (
	// bigValue is the length in bytes from which a value is sent as it is read. The protocol wants its length beforehand.
	bigValue = 1 << 20
	// largestValue is the server's own bound of an argument (proto-max-bulk-len) unless it was raised.
	largestValue = 512 << 20
	// pendingKeys and pendingBytes bound what is sent before its answers are read.
	pendingKeys  = 512
	pendingBytes = 4 << 20
)

// load restores each key into its spare database.
func (r *redisRestore) load(ctx context.Context) error {
	if r.inPlace {
		if err := r.emptyTargets(ctx); err != nil {
			return err
		}
	}
	evicted := r.info.number("evicted_keys")
	l := &redisLoad{redisRestore: r, redisReader: redisReader{items: r.items, now: r.begun.UnixMilli()}, ctx: ctx}
	err := readArtifact(r.Artifact, func(dump io.Reader) error {
		_, err := rdb.Read(dump, rdb.Handler{Key: l.begin, Value: l.end})
		return err
	})
	if err == nil {
		err = l.answers()
	}
	if err != nil {
		return err
	}
	if err := r.pushedOut(ctx, evicted); err != nil {
		return err
	}
	return r.compare(ctx)
}

// pushedOut fails when the server gave keys up, of whichever database, to make room.
func (r *redisRestore) pushedOut(ctx context.Context, before int64) error {
	after, err := r.server(ctx)
	if err != nil {
		return err
	}
	if evicted := after.number("evicted_keys") - before; evicted > 0 {
		return Permanent(ReasonRestoreIncomplete, "%s pushed %d keys out while this restore loaded, to stay below its maxmemory: raise it", r.where(), evicted)
	}
	return nil
}

func (r *redisRestore) emptyTargets(ctx context.Context) error {
	commands := [][]string{{"MULTI"}}
	for _, item := range r.items {
		commands = append(commands, []string{"SELECT", item.target}, []string{"FLUSHDB"}, []string{"SET", redisMark, r.mark(markInPlace)})
	}
	return r.transaction(ctx, append(commands, []string{"EXEC"}))
}

// compare holds the number of keys of each database against the artifact's.
func (r *redisRestore) compare(ctx context.Context) error {
	for _, item := range r.items {
		if err := r.choose(ctx, item.spare); err != nil {
			return err
		}
		there, err := r.number(ctx, "DBSIZE")
		if err != nil {
			return err
		}
		there--                                           // the mark
		tooMany := there > item.loaded.keys && !r.inPlace // others may write where they always do
		if tooMany || there < item.loaded.keys-item.loaded.expiring {
			return Permanent(ReasonRestoreIncomplete, "%d keys were restored for database %s of %s, and %d are there", item.loaded.keys, item.target, r.where(), there)
		}
		if item.loaded.gone > 0 {
			r.notes = append(r.notes, fmt.Sprintf("%d keys of database %s had a time to live that has passed since the backup, and were left out", item.loaded.gone, item.target))
		}
	}
	return nil
}

// redisLoad sends keys.
type redisLoad struct {
	*redisRestore
	redisReader
	ctx context.Context
	// chosen is the database that commands are for now.
	chosen  string
	payload rdb.Payload
	value   bytes.Buffer
	into    *redisItem
	sent    []string // keys whose answers are to be read; an empty one stands for SELECT
	bytes   int
}

// begin sends what stands before a value, or prepares to collect it.
func (l *redisLoad) begin(key rdb.Key) (io.Writer, error) {
	l.at++
	l.into = l.item(key)
	if l.into == nil {
		return nil, nil //nolint:nilnil // the value goes nowhere
	}
	if key.ExpireAt > 0 && key.ExpireAt <= l.now {
		l.into.loaded.gone++
		l.into = nil
		return nil, nil //nolint:nilnil // the value goes nowhere
	}
	if err := l.chooseLater(l.into.spare); err != nil {
		return nil, err
	}
	l.into.loaded.keys++
	if key.ExpireAt > 0 {
		l.into.loaded.expiring++
	}
	l.payload = rdb.NewPayload(key.Type)
	if known, big := l.plan.big[l.at]; big {
		if err := l.header(key, known.Length()); err != nil {
			return nil, l.redisError(err)
		}
		return l, nil
	}
	l.value.Reset()
	return l, nil
}

func (l *redisLoad) chooseLater(database string) error {
	if l.chosen == database {
		return nil
	}
	l.chosen = database
	l.sent = append(l.sent, "")
	return l.send("SELECT", database)
}

// header is all of the command but the value, and the value's type.
func (l *redisLoad) header(key rdb.Key, length uint64) error {
	l.redisConn.begin(6)
	for _, word := range [][]byte{[]byte("RESTORE"), key.Name, strconv.AppendInt(nil, key.ExpireAt, 10)} {
		l.word(uint64(len(word)))
		_, _ = l.out.Write(word)
		_, _ = l.out.WriteString("\r\n")
	}
	l.word(length)
	return l.out.WriteByte(key.Type)
}

// Write takes a part of a value.
func (l *redisLoad) Write(part []byte) (int, error) {
	_, _ = l.payload.Write(part)
	if _, big := l.plan.big[l.at]; !big {
		return l.value.Write(part)
	}
	if err := l.wait(l.ctx); err != nil {
		return 0, err
	}
	n, err := l.out.Write(part)
	if err != nil {
		err = l.redisError(err)
	}
	return n, err
}

// end sends what is left of the command.
func (l *redisLoad) end(key rdb.Key) error {
	if l.into == nil {
		return l.ctx.Err()
	}
	if _, big := l.plan.big[l.at]; !big {
		if err := l.header(key, l.payload.Length()); err != nil {
			return l.redisError(err)
		}
		_, _ = l.out.Write(l.value.Bytes())
	}
	// labelled with the server's own version of the format: it refuses a newer one, and Valkey 9 those of newer Redis too
	_, _ = l.out.Write(l.payload.Footer(l.format))
	_, _ = l.out.WriteString("\r\n$6\r\nABSTTL\r\n$7\r\nREPLACE\r\n")
	l.sent = append(l.sent, string(key.Name))
	l.bytes += int(l.payload.Length()) //nolint:gosec // below largestValue
	if len(l.sent) < pendingKeys && l.bytes < pendingBytes {
		return nil
	}
	return l.answers()
}

// answers reads those to all that was sent.
func (l *redisLoad) answers() error {
	if err := l.redisConn.flush(l.ctx); err != nil {
		return l.redisError(err)
	}
	for _, name := range l.sent {
		if _, err := l.receive(l.ctx); err != nil {
			return l.keyError(name, err)
		}
	}
	l.sent, l.bytes = l.sent[:0], 0
	return nil
}

func (l *redisLoad) keyError(name string, err error) error {
	refused, ok := err.(redisRefusal) //nolint:errorlint // receive gives it as it is
	if !ok || !strings.HasPrefix(string(refused), "ERR ") {
		return l.redisError(err)
	}
	return Permanent(ReasonRestoreToolFailed, "%s does not take key %.100q: %w: it may be of a module that this server lacks, or of a newer server", l.where(), name, refused)
}

// loadFunctions restores the libraries of a whole server's artifact. One that the server has in another form is kept as it is there: no
// safety backup holds it.
func (r *redisRestore) loadFunctions(ctx context.Context) error {
	if len(r.Databases) > 0 {
		return nil
	}
	for _, code := range r.plan.functions {
		payload := append([]byte{245, 0x80}, binary.BigEndian.AppendUint32(nil, uint32(len(code)))...) //nolint:gosec // rdb bounds it
		payload = append(payload, code...)
		sum := rdb.NewPayload(payload[0])
		_, _ = sum.Write(payload[1:])
		_, err := r.do(ctx, "FUNCTION", "RESTORE", string(append(payload, sum.Footer(r.format)...)), "APPEND")
		if err != nil && !refusedBy(err) {
			return r.redisError(err)
		}
		if err != nil && !r.hasFunction(ctx, string(code)) {
			first, _, _ := strings.Cut(string(code), "\n")
			r.notes = append(r.notes, fmt.Sprintf("the library of functions %.100q was not restored (%v): where the server has another one by this name, FUNCTION DELETE it first", first, err))
		}
	}
	return nil
}

// hasFunction tells whether the server has a library of exactly this code.
func (r *redisRestore) hasFunction(ctx context.Context, code string) bool {
	reply, _ := r.do(ctx, "FUNCTION", "LIST", "WITHCODE")
	libraries, _ := reply.([]any)
	for _, library := range libraries {
		fields, _ := library.([]any)
		for _, field := range fields {
			if text, _ := field.(string); text == code {
				return true
			}
		}
	}
	return false
}

package engine

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

// redisCounts are the keys of one database.
type redisCounts struct {
	keys int64
	// expiring of them have a time at which they go, and gone had it before the restore began.
	expiring, gone int64
}

// redisPlan is what a restore learns of an artifact before it writes anything.
type redisPlan struct {
	head      rdb.Head
	functions [][]byte
	// big are the values that are sent as they are read, by their place among the keys.
	big map[int64]rdb.Payload
	// types of values, each with a key that has it.
	types map[byte]rdb.Key
	// bytes of all values.
	bytes int64
	// held are the databases that the file has keys of.
	held map[string]bool
}

// redisReader reads those keys of an artifact that belong to a restore.
type redisReader struct {
	items []*redisItem
	now   int64
	at    int64
}

// item is what a key is restored into; nil for one that is not wanted.
func (r *redisReader) item(key rdb.Key) *redisItem {
	if string(key.Name) == redisMark { // of a restore that ran when the dump was made
		return nil
	}
	number := strconv.FormatUint(key.Database, 10)
	for _, item := range r.items {
		if item.source == number || item.source == "" {
			return item
		}
	}
	return nil
}

// planRedis reads an artifact whole.
func planRedis(ctx context.Context, artifact Artifact, items []*redisItem, now time.Time) (*redisPlan, error) {
	p := &redisPlan{big: map[int64]rdb.Payload{}, types: map[byte]rdb.Key{}, held: map[string]bool{}}
	reader := &redisReader{items: items, now: now.UnixMilli()}
	var payload rdb.Payload
	err := readArtifact(artifact, func(dump io.Reader) (err error) {
		p.head, err = rdb.Read(dump, rdb.Handler{
			Function: func(code []byte) error { p.functions = append(p.functions, code); return nil },
			Key: func(key rdb.Key) (io.Writer, error) {
				payload = rdb.NewPayload(key.Type)
				return &payload, ctx.Err()
			},
			Value: func(key rdb.Key) error { return p.note(reader, key, payload) },
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.whichDatabase(items); err != nil {
		return nil, err
	}
	return p, nil
}

// readArtifact gives the whole artifact to read.
func readArtifact(artifact Artifact, read func(dump io.Reader) error) error {
	dump, err := artifact.Open()
	if err != nil {
		return err
	}
	err = read(dump)
	if closed := dump.Close(); err == nil {
		err = closed
	}
	return err
}

func (p *redisPlan) note(reader *redisReader, key rdb.Key, payload rdb.Payload) error {
	reader.at++
	p.held[strconv.FormatUint(key.Database, 10)] = true
	item := reader.item(key)
	if item == nil {
		return nil
	}
	if payload.Length() > largestValue {
		return Permanent(ReasonRestoreToolFailed, "the value of key %.100q in database %d has %d MiB, and servers take %d at once (proto-max-bulk-len): it was made in parts, and "+
			"cannot be restored whole", key.Name, key.Database, payload.Length()>>20, largestValue>>20)
	}
	if payload.Length() > bigValue {
		p.big[reader.at] = payload
	}
	if _, known := p.types[key.Type]; !known {
		p.types[key.Type] = key
	}
	p.bytes += int64(payload.Length()) //nolint:gosec // below largestValue
	return nil
}

// whichDatabase fails when a foreign file holds other databases than the one that is meant.
func (p *redisPlan) whichDatabase(items []*redisItem) error {
	if items[0].source != "" || len(p.held) < 2 {
		return nil
	}
	if !p.held[items[0].target] {
		return Permanent(ReasonDatabaseNotFound, "the RDB file holds several databases, and none of them is %s: set spec.database.names to those that are to be restored",
			items[0].target)
	}
	items[0].source = items[0].target
	return nil
}

// readFormat learns from the form in which the server dumps a key which version of the format it reads, and holds the artifact against it.
func (r *redisRestore) readFormat(ctx context.Context) error {
	payload, err := r.text(ctx, "DUMP", redisMark)
	if err != nil {
		return err
	}
	if r.format = rdb.VersionOf([]byte(payload)); r.format == 0 {
		return Permanent(ReasonServerNotSupported, "%s dumps a key in a form that Holdfast does not know", r.where())
	}
	for valueType, key := range r.plan.types {
		brand := "Redis"
		if r.plan.head.Valkey {
			brand = "Valkey"
		}
		if rdb.MinVersion(valueType) > r.format || (rdb.OwnOfBrand(valueType) && brand != r.info.brand) {
			return Permanent(ReasonServerNotSupported, "%s (%s %s) cannot read the value of key %.100q in database %d, whose form (RDB type %d) is of a newer server or of %s alone: "+
				"restore into a server of the brand and version that the artifact is from, or a newer one", r.where(), r.info.brand, r.info.version, key.Name,
				key.Database, valueType, brand)
		}
	}
	return nil
}

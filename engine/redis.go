package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/rdb"
)

// formatRDB is a snapshot as a server sends it to a replica, and as it lies in dump.rdb.
const formatRDB = "rdb"

func init() { engines = append(engines, redisEngine{}) }

// redisEngine is the engine for Redis 5 and newer, and Valkey. Its databases are numbers.
type redisEngine struct{}

func (redisEngine) Name() Name           { return Redis }
func (redisEngine) DefaultPort() int     { return 6379 }
func (redisEngine) DefaultImage() string { return "" }
func (redisEngine) ForeignFormats() []string {
	return []string{"an RDB file (dump.rdb) of Redis or Valkey"}
}

func (redisEngine) Formats() map[string]string { return map[string]string{formatRDB: ".rdb"} }

// Sniff tells an RDB file by its first word.
func (redisEngine) Sniff(head []byte) (string, bool) {
	_, ok := rdb.ParseHead(head)
	return formatRDB, ok
}

// Inspect reads which server wrote the file. Which databases it holds is known at its end.
func (redisEngine) Inspect(_ string, head io.Reader) (Contents, error) {
	var contents Contents
	_, err := rdb.Read(head, rdb.Handler{Aux: func(name, value string) {
		if name == "redis-ver" || name == "valkey-ver" {
			contents.ServerVersion = value
		}
	}, Key: func(rdb.Key) (io.Writer, error) { return nil, io.EOF }})
	if contents.ServerVersion != "" { // the stream may end anywhere behind it
		err = nil
	}
	return contents, ignoreCut(err)
}

// ignoreCut of a file of which only the beginning is read.
func ignoreCut(err error) error {
	if cutOff(err) {
		return nil
	}
	return err
}

// Check reads a file to its end and holds it against its checksum.
func (redisEngine) Check(ctx context.Context, _ Runner, _ string, dump io.Reader) error {
	_, err := rdb.Read(dump, rdb.Handler{Value: func(rdb.Key) error { return ctx.Err() }})
	return err
}

// redisNames pairs the databases of an artifact with those that are wanted. The source of a foreign file's only database is
// empty until the file was read.
func redisNames(artifact Artifact, wanted []string) ([]namePair, error) {
	for _, name := range slices.Concat(artifact.Databases, wanted) {
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			return nil, Permanent(ReasonInvalidTask, "%q is no database of Redis: they are numbers, such as 0", name)
		}
	}
	switch {
	case len(artifact.Databases) > 0 || len(wanted) == 1:
		return restoreNames(artifact, wanted)
	case len(wanted) == 0:
		return nil, Permanent(ReasonInvalidTask, "an RDB file does not say beforehand which databases it holds: set spec.database.names to the numbers of "+
			"those that are to be restored, such as [\"0\"]")
	}
	return clusterNames(wanted, wanted)
}

// redisServer is what a server says of itself.
type redisServer struct {
	brand   string // Redis or Valkey
	version string
	info    map[string]string
}

const oldestRedis = "5.0"

// server asks who answers. A Sentinel and a node of a cluster hold no databases that could be dumped or replaced as a whole.
func (c *redisConn) server(ctx context.Context) (redisServer, error) {
	text, err := c.text(ctx, "INFO")
	if err != nil {
		return redisServer{}, err
	}
	s := redisServer{brand: "Redis", info: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found {
			s.info[name] = value
		}
	}
	s.version = s.info["redis_version"]
	if own := s.info["valkey_version"]; own != "" {
		s.brand, s.version = "Valkey", own
	}
	switch {
	case s.version == "":
		return s, Permanent(ReasonServerNotSupported, "%s does not say its version, as Redis and Valkey do: check spec.database.engine, host and port", c.where())
	case s.info["redis_mode"] == "sentinel":
		return s, Permanent(ReasonServerNotSupported, "%s is a Sentinel, which knows where databases are and holds none: set spec.database.host and port to "+
			"the server itself, or to a Service that leads to the primary", c.where())
	case s.info["cluster_enabled"] == "1":
		return s, Permanent(ReasonServerNotSupported, "%s is a node of a cluster, which holds a part of the keys: clusters are not served", c.where())
	case older(s.version, oldestRedis):
		return s, Permanent(ReasonServerNotSupported, "%s has %s %s; Holdfast serves version %s and newer", c.where(), s.brand, s.version, oldestRedis)
	}
	return s, nil
}

// keys of each database that holds any.
func (s redisServer) keys() map[string]int64 {
	held := map[string]int64{}
	for name, value := range s.info {
		number, isDatabase := strings.CutPrefix(name, "db")
		if _, err := strconv.ParseUint(number, 10, 31); !isDatabase || err != nil {
			continue
		}
		held[number] = s.count(value, "keys")
	}
	return held
}

// count reads one number out of a value such as keys=1,expires=0.
func (s redisServer) count(value, field string) int64 {
	for part := range strings.SplitSeq(value, ",") {
		if number, found := strings.CutPrefix(part, field+"="); found {
			n, _ := strconv.ParseInt(number, 10, 64)
			return n
		}
	}
	return 0
}

// number is a field of INFO; 0 where the server does not tell.
func (s redisServer) number(field string) int64 {
	n, _ := strconv.ParseInt(s.info[field], 10, 64)
	return n
}

// Probe looks at the server before a dump.
func (redisEngine) Probe(ctx context.Context, a Access) (Server, error) {
	c, err := openRedis(ctx, a)
	if err != nil {
		return Server{}, err
	}
	defer c.close()
	info, err := c.server(ctx)
	if err != nil {
		return Server{}, err
	}
	server := Server{Version: info.version, Format: formatRDB, SizeBytes: info.number("used_memory_dataset"), Databases: slices.Clone(a.Databases)}
	if len(a.Databases) == 0 {
		for name := range info.keys() {
			server.Databases = append(server.Databases, name)
		}
		if len(server.Databases) == 0 {
			server.Databases = []string{"0"}
		}
	}
	slices.SortFunc(server.Databases, byNumber)
	var empty []string
	for _, name := range server.Databases {
		if err := c.choose(ctx, name); err != nil {
			return Server{}, err
		}
		if info.keys()[name] == 0 {
			empty = append(empty, name)
		}
	}
	if len(empty) > 0 { // as behind a restart of a server that keeps nothing
		server.Note = "no key is in database " + strings.Join(empty, ", ")
	}
	return server, c.mayDump(ctx)
}

func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// mayDump asks for a replica's first step, for which the same right is needed as for the others.
func (c *redisConn) mayDump(ctx context.Context) error {
	if _, err := c.do(ctx, "REPLCONF", "capa", "eof", "capa", "psync2"); err != nil {
		return c.replicationError(err)
	}
	return c.may(ctx, []string{"PSYNC", "?", "-1"})
}

// may asks, where the server can tell and this user may ask, whether a command would be allowed. It tells before a restore
// what would otherwise stop it half-way.
func (c *redisConn) may(ctx context.Context, commands ...[]string) error {
	for _, command := range commands {
		reply, err := c.text(ctx, append([]string{"ACL", "DRYRUN", c.Username}, command...)...)
		if err == nil && reply != "OK" && strings.Contains(strings.ToLower(reply), "permission") {
			return c.denied(fmt.Errorf("%s", reply), command[0])
		}
	}
	return nil
}

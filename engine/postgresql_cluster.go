package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"
)

// A pgcluster is a tar of several databases that is written as a stream, although tar wants sizes before contents:
// each dump is cut into parts of a fixed size.
//
//	index.json                        what the tar holds
//	globals.sql                       the roles, when the whole server was dumped
//	databases/0001/00000001.part      pg_dump's custom format, cut into parts
//	databases/0001/00000002.part
//	databases/0002/00000001.part
//	end.json                          sizes and checksums: the end marker
//
// By hand: zstd -dc FILE | tar x; psql -f globals.sql; cat databases/0001/*.part | pg_restore --dbname=…
const (
	clusterVersion   = 1
	clusterIndexName = "index.json"
	clusterRolesName = "globals.sql"
	clusterEndName   = "end.json"
	clusterPartBytes = 8 << 20
	clusterMetaBytes = 64 << 20 // the most that is believed of index.json, globals.sql and end.json
)

type clusterIndex struct {
	Version       int            `json:"version"`
	ServerVersion string         `json:"serverVersion"`
	ToolVersion   string         `json:"toolVersion"`
	Roles         bool           `json:"roles"`
	Databases     []clusterEntry `json:"databases"`
}

// clusterEntry is one database. SizeBytes and SHA256 of its archive stand only in end.json.
type clusterEntry struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
}

func (c clusterIndex) names() []string {
	var names []string
	for _, entry := range c.Databases {
		names = append(names, entry.Name)
	}
	return names
}

// dumpCluster writes a pgcluster.
func (a Access) dumpCluster(ctx context.Context, server Server, dump io.Writer) error {
	index := clusterIndex{Version: clusterVersion, ServerVersion: server.Version, ToolVersion: server.ToolVersion, Roles: a.whole()}
	for i, name := range server.Databases {
		index.Databases = append(index.Databases, clusterEntry{Name: name, Directory: fmt.Sprintf("databases/%04d", i+1)})
	}
	out := &clusterWriter{tar: tar.NewWriter(dump), time: time.Now()}
	if err := out.json(clusterIndexName, index); err != nil {
		return err
	}
	if index.Roles {
		if err := a.dumpRoles(ctx, out, server); err != nil {
			return err
		}
	}
	for i := range index.Databases {
		if err := a.dumpClusterDatabase(ctx, out, &index.Databases[i]); err != nil {
			return err
		}
	}
	if err := out.json(clusterEndName, index); err != nil {
		return err
	}
	return out.tar.Close()
}

func (a Access) dumpRoles(ctx context.Context, out *clusterWriter, server Server) error {
	args := []string{"--globals-only"}
	if server.Note != "" { // no superuser
		args = append(args, "--no-role-passwords")
	}
	var script bytes.Buffer
	if err := a.runTool(ctx, "pg_dumpall", server.Databases[0], args, nil, &script); err != nil {
		return a.toolFailed(ctx, server.Databases[0], ReasonDumpToolFailed, err)
	}
	if !bytes.Contains(script.Bytes(), []byte("PostgreSQL database cluster dump complete")) {
		return Transient(ReasonDumpIncomplete, "pg_dumpall ended well, but its last line is missing from the roles")
	}
	return out.file(clusterRolesName, script.Bytes())
}

func (a Access) dumpClusterDatabase(ctx context.Context, out *clusterWriter, entry *clusterEntry) error {
	parts := newPartWriter(out, entry.Directory)
	if err := a.dumpDatabase(ctx, entry.Name, parts); err != nil {
		return err
	}
	if err := parts.flush(); err != nil {
		return err
	}
	entry.SizeBytes, entry.SHA256 = parts.size, parts.digest()
	return nil
}

type clusterWriter struct {
	tar  *tar.Writer
	time time.Time
}

func (w *clusterWriter) file(name string, content []byte) error {
	header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: w.time, Format: tar.FormatUSTAR}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}

func (w *clusterWriter) json(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.file(name, append(raw, '\n'))
}

// partWriter cuts a stream into parts. It holds one part in memory.
type partWriter struct {
	out       *clusterWriter
	directory string
	part      []byte
	number    int
	size      int64
	sum       hash.Hash
}

func newPartWriter(out *clusterWriter, directory string) *partWriter {
	return &partWriter{out: out, directory: directory, sum: sha256.New()}
}

func (p *partWriter) digest() string { return hex.EncodeToString(p.sum.Sum(nil)) }

func (p *partWriter) Write(b []byte) (int, error) {
	p.size += int64(len(b))
	p.sum.Write(b)
	if p.part == nil {
		p.part = make([]byte, 0, clusterPartBytes)
	}
	for rest := b; len(rest) > 0; {
		n := min(len(rest), cap(p.part)-len(p.part))
		p.part = append(p.part, rest[:n]...)
		rest = rest[n:]
		if len(p.part) == cap(p.part) {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

func (p *partWriter) flush() error {
	if len(p.part) == 0 {
		return nil
	}
	p.number++
	err := p.out.file(fmt.Sprintf("%s/%08d.part", p.directory, p.number), p.part)
	p.part = p.part[:0]
	return err
}

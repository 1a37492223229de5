package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/engine/internal/pgarchive"
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

// nextFile reads the header of the next file, which must have one of the names where any are given.
func nextFile(in *tar.Reader, names ...string) (*tar.Header, error) {
	header, err := in.Next()
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: the tar ends before its end marker %s", pgarchive.ErrCut, clusterEndName)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if header.Name == name {
			return header, nil
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("%w: the tar holds %q where %s should be", pgarchive.ErrMalformed, header.Name, strings.Join(names, " or "))
	}
	return header, nil
}

func readMeta(in *tar.Reader, into any) error {
	raw, err := io.ReadAll(io.LimitReader(in, clusterMetaBytes))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", pgarchive.ErrMalformed, err)
	}
	return nil
}

func readClusterIndex(in *tar.Reader) (clusterIndex, error) {
	var index clusterIndex
	if _, err := nextFile(in, clusterIndexName); err != nil {
		return index, err
	}
	if err := readMeta(in, &index); err != nil {
		return index, err
	}
	if index.Version != clusterVersion {
		return index, fmt.Errorf("%w: the tar has version %d, this program reads version %d", pgarchive.ErrNewerVersion,
			index.Version, clusterVersion)
	}
	if len(index.Databases) == 0 {
		return index, fmt.Errorf("%w: the tar's index names no database", pgarchive.ErrMalformed)
	}
	return index, nil
}

// walkCluster reads a whole pgcluster and shows visit each database's archive, of which it need not read all. It
// fails unless everything that the index and the end marker name is there.
func walkCluster(dump io.Reader, visit func(entry clusterEntry, archive io.Reader) error) error {
	return walkClusterRoles(dump, func([]byte) error { return nil }, visit)
}

// walkClusterRoles also shows the roles' script, where there is one, before the databases.
func walkClusterRoles(dump io.Reader, roles func(script []byte) error, visit func(clusterEntry, io.Reader) error) error {
	counted := &countingReader{in: dump}
	in := tar.NewReader(counted)
	index, err := readClusterIndex(in)
	if err != nil {
		return err
	}
	if index.Roles {
		if err := readRoles(in, roles); err != nil {
			return err
		}
	}
	parts := &partReader{in: in}
	for i := range index.Databases {
		if err := parts.database(&index.Databases[i], visit); err != nil {
			return err
		}
	}
	if err := readClusterEnd(parts, index); err != nil {
		return err
	}
	return endOfTar(in, counted)
}

const tarBlock = 512

// endOfTar wants the two empty blocks that end a tar, and nothing behind them.
func endOfTar(in *tar.Reader, dump *countingReader) error {
	content := (dump.count + tarBlock - 1) / tarBlock * tarBlock
	if _, err := in.Next(); err != io.EOF {
		return fmt.Errorf("%w: something stands behind the end marker (%v)", pgarchive.ErrMalformed, err)
	}
	if dump.count < content+2*tarBlock {
		return pgarchive.ErrCut
	}
	n, err := io.Copy(io.Discard, dump)
	if err == nil && n > 0 {
		return fmt.Errorf("%w: %d bytes stand behind its end", pgarchive.ErrMalformed, n)
	}
	return err
}

func readRoles(in *tar.Reader, roles func(script []byte) error) error {
	if _, err := nextFile(in, clusterRolesName); err != nil {
		return err
	}
	script, err := io.ReadAll(io.LimitReader(in, clusterMetaBytes))
	if err != nil {
		return err
	}
	return roles(script)
}

// readClusterEnd compares the end marker with what came.
func readClusterEnd(parts *partReader, came clusterIndex) error {
	var end clusterIndex
	if err := parts.peek(); err != nil {
		return err
	}
	if parts.header.Name != clusterEndName {
		return fmt.Errorf("%w: the tar holds %q where its end marker should be", pgarchive.ErrMalformed, parts.header.Name)
	}
	if err := readMeta(parts.in, &end); err != nil {
		return err
	}
	if len(end.Databases) != len(came.Databases) {
		return fmt.Errorf("%w: index and end marker name different databases", pgarchive.ErrMalformed)
	}
	for i, entry := range end.Databases {
		if entry != came.Databases[i] {
			return fmt.Errorf("%w: database %q is not what the end marker says", pgarchive.ErrMalformed, entry.Name)
		}
	}
	return nil
}

// partReader joins the parts of one database after another. It reads one header ahead.
type partReader struct {
	in        *tar.Reader
	header    *tar.Header // read ahead and not used yet
	directory string
	number    int
	open      bool // a part is being read
}

func (p *partReader) peek() error {
	if p.header != nil {
		return nil
	}
	header, err := nextFile(p.in)
	p.header = header
	return err
}

// database shows one database and fills in its size and checksum.
func (p *partReader) database(entry *clusterEntry, visit func(clusterEntry, io.Reader) error) error {
	p.directory, p.number, p.open = entry.Directory, 0, false
	sum := sha256.New()
	counted := &countingReader{in: io.TeeReader(p, sum)}
	if err := visit(*entry, counted); err != nil {
		return fmt.Errorf("database %q: %w", entry.Name, err)
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return fmt.Errorf("database %q: %w", entry.Name, err)
	}
	entry.SizeBytes, entry.SHA256 = counted.count, hex.EncodeToString(sum.Sum(nil))
	return nil
}

func (p *partReader) Read(b []byte) (int, error) {
	for {
		if p.open {
			n, err := p.in.Read(b)
			if n > 0 {
				return n, nil
			}
			if err != io.EOF {
				return 0, cutTar(err)
			}
			p.open = false
		}
		if err := p.peek(); err != nil {
			return 0, err
		}
		if path.Dir(p.header.Name) != p.directory {
			return 0, io.EOF
		}
		p.number++
		if want := fmt.Sprintf("%s/%08d.part", p.directory, p.number); p.header.Name != want {
			return 0, fmt.Errorf("%w: the tar holds %q where %q should be", pgarchive.ErrMalformed, p.header.Name, want)
		}
		p.header, p.open = nil, true
	}
}

func cutTar(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return pgarchive.ErrCut
	}
	return err
}

type countingReader struct {
	in    io.Reader
	count int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.count += int64(n)
	return n, err
}

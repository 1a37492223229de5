package engine

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/pgarchive"
)

// nextFile reads the header of the next file, which must have one of the names where any are given.
func nextFile(in *tar.Reader, names ...string) (*tar.Header, error) {
	header, err := in.Next()
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: the tar ends before its end marker %s", pgarchive.ErrCut, clusterEndName)
	}
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && !slices.Contains(names, header.Name) {
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
	switch header, err := in.Next(); {
	case err == nil:
		return fmt.Errorf("%w: %q stands behind the end marker", pgarchive.ErrMalformed, header.Name)
	case !errors.Is(err, io.EOF):
		return err
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

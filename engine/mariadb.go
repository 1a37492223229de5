package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// formatMySQLDump is a script as mariadb-dump and mysqldump write it, of one database or of several, which its first
// line tells where Holdfast wrote it.
const formatMySQLDump = "mysqldump"

func init() { engines = append(engines, mariaDB{}) }

// mariaDB is the engine for MariaDB 10.6 and newer.
type mariaDB struct{}

func (mariaDB) Name() Name           { return MariaDB }
func (mariaDB) DefaultPort() int     { return 3306 }
func (mariaDB) DefaultImage() string { return "mariadb:11.8" }
func (mariaDB) ForeignFormats() []string {
	return []string{"a script of one database by mariadb-dump or mysqldump"}
}

func (mariaDB) Formats() map[string]string { return map[string]string{formatMySQLDump: ".sql"} }

// Sniff tells a script by its first statement.
func (mariaDB) Sniff(head []byte) (string, bool) {
	head = head[:min(len(head), 64<<10)]
	// binary values may stand in a script, but no NUL, which dump programs escape
	if slices.Contains(head, 0) || strings.Contains(string(head), "PostgreSQL database dump") {
		return "", false
	}
	statement, err := mydump.NewHeadScanner(strings.NewReader(string(head))).Next()
	switch {
	case err == nil:
		_, err = classify(statement)
		return formatMySQLDump, err == nil
	case errors.Is(err, mydump.ErrCut): // the head is, in its first statement
		_, err = classify(statement)
		return formatMySQLDump, err == nil && len(statement.Text) > 0
	}
	return "", false
}

// Inspect reads the first line of an artifact, or what the program's own first comment says of a foreign script.
func (mariaDB) Inspect(_ string, head io.Reader) (Contents, error) {
	raw, err := io.ReadAll(io.LimitReader(head, 1<<20))
	if err != nil && len(raw) == 0 {
		return Contents{}, err
	}
	if h, ours := mydump.ParseHeader(raw); ours {
		return Contents{Databases: h.Databases, ServerVersion: h.ServerVersion, ToolVersion: h.ToolVersion}, nil
	}
	var contents Contents
	if name := mydump.CommentedDatabase(raw); name != "" {
		contents.Databases = []string{name}
	}
	return contents, nil
}

// Check reads a script to its end. It must be whole, hold something, and hold nothing that a restore refuses.
func (mariaDB) Check(_ context.Context, _ Runner, _ string, dump io.Reader) error {
	reader, err := newScriptReader(dump, false)
	if err != nil {
		return err
	}
	count := 0
	for {
		_, err := reader.next()
		if mydump.Ended(err) {
			break
		}
		if err != nil {
			return err
		}
		count++
	}
	if count == 0 {
		return errors.New("the script holds no statement")
	}
	return reader.complete()
}

// scriptReader reads a script's statements with what they are, and follows which database they are for.
type scriptReader struct {
	scanner *mydump.Scanner
	header  mydump.Header
	ours    bool
	current string          // the database of the last USE
	used    map[string]bool // all that were changed to
}

// step is one statement of a script, the database that it is for, which is empty where the script does not say, and
// what kind it is of.
type step struct {
	mydump.Statement
	kind     kind
	tokens   []mydump.Token
	database string
}

// newScriptReader begins to read a script; the texts of its statements are whole where they are wanted.
func newScriptReader(dump io.Reader, texts bool) (*scriptReader, error) {
	head, dump, err := firstLine(dump)
	if err != nil {
		return nil, err
	}
	r := &scriptReader{used: map[string]bool{}}
	r.header, r.ours = mydump.ParseHeader(head)
	if r.ours && r.header.Version != headerVersion {
		return nil, fmt.Errorf("the artifact has version %d, this program reads version %d", r.header.Version, headerVersion)
	}
	if texts {
		r.scanner = mydump.NewScanner(dump)
	} else {
		r.scanner = mydump.NewHeadScanner(dump)
	}
	return r, nil
}

// firstLine reads the first line of a script, or a good part of it, and returns it with a reader of the whole script.
func firstLine(dump io.Reader) (line []byte, whole io.Reader, err error) {
	in := bufio.NewReaderSize(dump, 1<<20)
	line, err = in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !mydump.Ended(err) {
		return nil, nil, err
	}
	line = slices.Clone(line)
	return line, io.MultiReader(bytes.NewReader(line), in), nil
}

// several tells whether the script says by itself which databases its statements are for.
func (r *scriptReader) several() bool { return r.ours && r.header.Several }

func (r *scriptReader) next() (step, error) {
	statement, err := r.scanner.Next()
	if err != nil {
		return step{}, err
	}
	s := step{Statement: statement}
	known, err := classify(statement)
	if err != nil {
		return s, err
	}
	s.kind, s.tokens = known.kind, known.tokens
	if s.kind == kindUse || s.kind == kindCreateDatabase {
		r.current = known.name
		if err := r.use(s); err != nil {
			return s, err
		}
	}
	if s.kind == kindAccount && (!r.ours || !r.header.Accounts) {
		return s, refused(statement, "changes accounts or privileges of the server, which are none of a database's")
	}
	s.database = r.current
	return s, nil
}

// use notes a change of the database. A script of Holdfast's must stay among those that its first line names, and one
// that somebody else wrote with a single one: which others it would write to was asked by nobody.
func (r *scriptReader) use(s step) error {
	r.used[r.current] = true
	switch {
	case r.several() && !slices.Contains(r.header.Databases, r.current):
		return refused(s.Statement, "names a database that the artifact does not hold by its first line")
	case r.ours && !r.header.Several, len(r.used) > 1 && !r.several():
		return refused(s.Statement, "reaches beyond one database: dump one database at a time (mariadb-dump orders > orders.sql)")
	}
	return nil
}

// complete fails when databases are missing from an artifact that is otherwise whole.
func (r *scriptReader) complete() error {
	for _, name := range r.header.Databases {
		if r.several() && !r.used[name] {
			return fmt.Errorf("database %q is missing from the dump", name)
		}
	}
	return nil
}

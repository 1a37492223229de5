package engine

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/engine/internal/pgarchive"
	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// Formats of PostgreSQL dumps.
const (
	// formatPgDump is one database in pg_dump's custom format, uncompressed inside.
	formatPgDump = "pgdump"
	// formatPgCluster is a tar of several databases and perhaps the roles: see clusterIndex.
	formatPgCluster = "pgcluster"
	// formatSQL is a script as pg_dump --format=plain writes it. It is only restored.
	formatSQL = "sql"
)

func init() { engines = append(engines, postgreSQL{}) }

// postgreSQL is the engine for PostgreSQL 12 and newer.
type postgreSQL struct{}

func (postgreSQL) Name() Name       { return PostgreSQL }
func (postgreSQL) DefaultPort() int { return 5432 }

func (postgreSQL) DefaultImage() string { return "postgres:17" }

func (postgreSQL) ForeignFormats() []string {
	return []string{"one database in pg_dump's custom format", "a plain SQL script of one database"}
}

func (postgreSQL) Formats() map[string]string {
	return map[string]string{formatPgDump: ".pgdump", formatPgCluster: ".pgcluster.tar", formatSQL: ".sql"}
}

// Sniff tells pg_dump's custom format and a pgcluster tar by their magic, and a script by its first word.
func (postgreSQL) Sniff(head []byte) (string, bool) {
	switch {
	case len(head) >= len(pgarchive.Magic) && string(head[:len(pgarchive.Magic)]) == pgarchive.Magic:
		return formatPgDump, true
	case len(head) >= 512 && string(head[257:262]) == "ustar" && string(head[:len(clusterIndexName)+1]) == clusterIndexName+"\x00":
		return formatPgCluster, true
	case looksLikeSQL(head):
		return formatSQL, true
	}
	return "", false
}

// firstWords that a script of a database's contents may begin with.
var firstWords = []string{"alter", "analyze", "begin", "comment", "copy", "create", "delete", "do", "drop", "grant",
	"insert", "lock", "refresh", "reset", "revoke", "select", "set", "start", "truncate", "update", "with"}

func looksLikeSQL(head []byte) bool {
	head = head[:min(len(head), 64<<10)]
	if slices.Contains(head, 0) || !mostlyText(head) {
		return false
	}
	text := string(head)
	tokens := pgsql.Tokens(text)
	switch {
	case len(tokens) == 0:
		return len(text) > 1 && (text[:2] == "--" || text[:2] == "/*")
	case len(tokens) > 1 && tokens[0].Text == `\` && tokens[1].Is("restrict"):
		return true
	case tokens[0].Text == "\xef\xbb\xbf": // a byte order mark alone on the line
		tokens = tokens[1:]
	}
	return tokens[0].Kind == pgsql.Word && slices.Contains(firstWords, trimBOM(tokens[0].Text))
}

func trimBOM(word string) string {
	if len(word) > 3 && word[:3] == "\xef\xbb\xbf" {
		return word[3:]
	}
	return word
}

// mostlyText allows the high bytes of any encoding but no control characters beside white space.
func mostlyText(head []byte) bool {
	for _, c := range head {
		if c < utf8.RuneSelf && c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v' {
			return false
		}
	}
	return len(head) > 0
}

// Inspect reads the header of an archive or the index of a pgcluster; a script does not say what it is of.
func (postgreSQL) Inspect(format string, head io.Reader) (Contents, error) {
	switch format {
	case formatPgDump:
		archive, err := pgarchive.NewReader(head)
		if errors.Is(err, pgarchive.ErrNewerVersion) {
			return Contents{}, nil
		}
		if err != nil {
			return Contents{}, err
		}
		h := archive.Header
		return Contents{Databases: []string{h.Database}, ServerVersion: h.ServerVersion, ToolVersion: h.ToolVersion}, nil
	case formatPgCluster:
		index, err := readClusterIndex(tar.NewReader(head))
		if err != nil {
			return Contents{}, err
		}
		return Contents{Databases: index.names(), ServerVersion: index.ServerVersion, ToolVersion: index.ToolVersion}, nil
	}
	return Contents{}, nil
}

// Check reads a dump to its end and fails unless it is whole. The archive format is followed by this program itself;
// one that is newer than it knows is given whole to pg_restore.
func (postgreSQL) Check(ctx context.Context, tools Runner, format string, dump io.Reader) error {
	switch format {
	case formatPgDump:
		return checkArchive(ctx, tools, dump, nil)
	case formatPgCluster:
		return walkCluster(dump, func(_ clusterEntry, archive io.Reader) error {
			return checkArchive(ctx, tools, archive, nil)
		})
	case formatSQL:
		return checkScript(dump)
	}
	return fmt.Errorf("format %q is none of PostgreSQL's", format)
}

// checkArchive fails unless dump is one whole archive. visit, which may be nil, sees the entries of its table of
// contents where the version is known.
func checkArchive(ctx context.Context, tools Runner, dump io.Reader, visit func(pgarchive.Entry)) error {
	const lead = len(pgarchive.Magic) + 3
	in := bufio.NewReaderSize(dump, 4096)
	head, err := in.Peek(lead)
	switch {
	case err != nil && !pgsql.Ended(err):
		return err
	case len(head) == 0:
		return fmt.Errorf("%w: it is empty", pgarchive.ErrCut)
	case len(head) == lead && pgarchive.Newer(head):
		return checkWithTool(ctx, tools, in)
	}
	_, err = pgarchive.Check(in, visit)
	return err
}

// checkScript reads a script to its end. It must be whole, hold something, and hold nothing that a restore refuses.
func checkScript(script io.Reader) error {
	scanner := pgsql.NewScanner(script)
	for count := 0; ; count++ {
		statement, err := scanner.Next()
		if pgsql.Ended(err) && count == 0 {
			return errors.New("the script holds no statement")
		}
		if pgsql.Ended(err) {
			return nil
		}
		if err != nil {
			return scriptError(err)
		}
		if err := acceptable(statement); err != nil {
			return err
		}
	}
}

func scriptError(err error) error {
	if meta, ok := errors.AsType[*pgsql.MetaCommand](err); ok {
		return Permanent(ReasonFormatNotRecognised, "%w, and a restore runs no psql commands: dump one database with pg_dump "+
			"alone (without --create; not with pg_dumpall), best in the custom format (pg_dump --format=custom)", meta)
	}
	return err
}

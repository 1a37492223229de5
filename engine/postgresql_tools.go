package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// runTool runs a client program that connects to a database. The password reaches it in a private file.
func (a Access) runTool(ctx context.Context, program, database string, args []string, in io.Reader, out io.Writer) error {
	info, err := a.conninfo(database)
	if err != nil {
		return err
	}
	passfile, err := a.writePassfile()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(passfile) }()
	return a.Tools.Run(ctx, Command{
		Program: program,
		Args:    append([]string{"--no-password", "--dbname=" + info}, args...),
		Env:     []string{"PGPASSFILE=" + passfile},
		Stdin:   in, Stdout: out,
	})
}

// writePassfile writes the password where libpq's programs look for it: in a file that only this user can read.
func (a Access) writePassfile() (string, error) {
	if strings.ContainsAny(a.Password, "\n\r") {
		return "", Permanent(ReasonAuthenticationFailed, "the password of user %q holds a line break, which PostgreSQL's client "+
			"programs cannot be given: if the Secret's value just ends in more than one, remove them", a.Username)
	}
	file, err := os.CreateTemp(a.TempDir, "holdfast-pass-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("write the password file: %w", err)
	}
	_, err = file.WriteString(pgsql.PassfileLine(a.Password))
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("write the password file: %w", err)
	}
	return file.Name(), nil
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[^\s]*)`)

// toolVersion returns a client program's version and its major number.
func toolVersion(ctx context.Context, tools Runner, program string) (version string, major int, err error) {
	var out bytes.Buffer
	if err := tools.Run(ctx, Command{Program: program, Args: []string{"--version"}, Stdout: &out}); err != nil {
		return "", 0, err
	}
	match := versionPattern.FindStringSubmatch(out.String())
	if match == nil {
		return "", 0, fmt.Errorf("%s --version says %q, which is no version of PostgreSQL", program, strings.TrimSpace(out.String()))
	}
	major, err = strconv.Atoi(match[2])
	return match[1], major, err
}

// needTool returns the version of a client program that must be there and no older than the server.
func (a Access) needTool(ctx context.Context, program string, server serverInfo) (string, error) {
	version, major, err := toolVersion(ctx, a.Tools, program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", Permanent(ReasonClientMissing, "image %s has no %s: set spec.database.image to one that carries PostgreSQL's "+
			"client programs (pg_dump, pg_dumpall, pg_restore), for example postgres:%d", a.Image, program, server.major)
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if major < server.major {
		return "", Permanent(ReasonClientTooOld, "%s of image %s has version %s, and the server %s has version %s, which it does "+
			"not know: set spec.database.image to postgres:%d or another image with client programs of version %d or newer",
			program, a.Image, version, a.where(), server.version, server.major, server.major)
	}
	return version, nil
}

// checkWithTool lets pg_restore read an archive whole, for formats newer than this program knows.
func checkWithTool(ctx context.Context, tools Runner, archive io.Reader) error {
	err := tools.Run(ctx, Command{Program: "pg_restore", Args: []string{"--file=/dev/null"}, Stdin: archive})
	if errors.Is(err, exec.ErrNotFound) {
		return Permanent(ReasonClientMissing, "the archive's format is newer than this build of Holdfast knows, and the image "+
			"has no pg_restore to check it: set spec.database.image to one that carries it")
	}
	return err
}

// deniedPattern is what PostgreSQL says in English; in other languages the reason stays the general one.
var (
	deniedPattern      = regexp.MustCompile(`permission denied for (\w+ (?:\w+ )?)"?([^"]+?)"?(?:$|\n)`)
	missingRolePattern = regexp.MustCompile(`role "([^"]+)" does not exist`)
)

// toolFailed says why a client program failed: when the server cannot be connected to any more, that is the reason,
// in whatever language the program spoke.
func (a Access) toolFailed(ctx context.Context, database, reason string, err error) error {
	failed, ok := errors.AsType[*ToolError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, gone := a.connect(ctx, database)
	if gone != nil {
		if e, ok := errors.AsType[*Error](gone); ok {
			e.Message += " (" + failed.Error() + ")"
		}
		return gone
	}
	closeConn(conn)
	text := strings.Join(failed.Stderr, "\n")
	if denied := deniedPattern.FindStringSubmatch(text); denied != nil {
		return Permanent(ReasonPermissionDenied, "user %q may not read %s%s of database %q: grant it (for example GRANT pg_read_all_data "+
			"TO %s, from PostgreSQL 14 on), or use a superuser: %w", a.Username, denied[1], denied[2], database,
			pgsql.Identifier(a.Username), failed)
	}
	return Transient(reason, "database %q: %w", database, failed)
}

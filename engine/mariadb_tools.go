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

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// myDumpPrograms are the names of the dump program: MariaDB's own, and the one that it had and MySQL's has.
var myDumpPrograms = []string{"mariadb-dump", "mysqldump"}

// myTool is the dump program of the image.
type myTool struct {
	program string
	version string
	mariaDB bool
}

var (
	distribPattern = regexp.MustCompile(`(?:Distrib|from) (\d[\d.]*)`)
	toolPattern    = regexp.MustCompile(`Ver (\d[\d.]*)`)
)

// parseMyTool reads what a dump program says to --version.
func parseMyTool(program, says string) (myTool, error) {
	tool := myTool{program: program, mariaDB: strings.Contains(says, "MariaDB")}
	match := distribPattern.FindStringSubmatch(says)
	if match == nil {
		match = toolPattern.FindStringSubmatch(says)
	}
	if match == nil {
		return tool, fmt.Errorf("%s --version says %q, which holds no version", program, strings.TrimSpace(says))
	}
	tool.version = match[1]
	return tool, nil
}

// findMyTool looks for the dump program, which must be of the server's brand and no older than the server.
func (a Access) findMyTool(ctx context.Context, server myServer) (myTool, error) {
	for _, program := range myDumpPrograms {
		var says bytes.Buffer
		err := a.Tools.Run(ctx, Command{Program: program, Args: []string{"--no-defaults", "--version"}, Stdout: &says})
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			return myTool{}, fmt.Errorf("ask %s for its version: %w", program, err)
		}
		tool, err := parseMyTool(program, says.String())
		if err != nil {
			return myTool{}, err
		}
		return tool, a.suits(tool, server)
	}
	return myTool{}, Permanent(ReasonClientMissing, "image %s has no mariadb-dump: set spec.database.image to one that carries MariaDB's client "+
		"programs, for example mariadb:%s", a.Image, majorMinor(server.version))
}

// suits compares the program with the server. A program of the other brand asks questions that the server does not know,
// or leaves out what only its own brand has.
func (a Access) suits(tool myTool, server myServer) error {
	image := "mariadb:" + majorMinor(server.version)
	if !tool.mariaDB {
		return Permanent(ReasonClientMissing, "%s of image %s is MySQL's (%s), and the server %s is MariaDB %s, of which it does not know "+
			"everything: set spec.database.image to %s or a newer one", tool.program, a.Image, tool.version, a.where(), server.version, image)
	}
	if older(tool.version, server.version) {
		return Permanent(ReasonClientTooOld, "%s of image %s has version %s, and the server %s has version %s, which it may not know: set "+
			"spec.database.image to %s or a newer one", tool.program, a.Image, tool.version, a.where(), server.version, image)
	}
	return nil
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// older compares release series, such as 10.11.
func older(version, than string) bool {
	a, b := strings.Split(majorMinor(version), "."), strings.Split(majorMinor(than), ".")
	for i := range min(len(a), len(b)) {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x < y
		}
	}
	return false
}

// runMyTool runs the dump program. User and password reach it in a private option file, which is the only one that it
// reads: what an image brings in its own would change the dump.
func (a Access) runMyTool(ctx context.Context, program string, args []string, out io.Writer) error {
	security, err := a.myToolTLS()
	if err != nil {
		return err
	}
	file, err := a.writeOptionFile()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	first := []string{"--defaults-file=" + file, "--protocol=tcp", "--host=" + a.Host, "--port=" + strconv.Itoa(a.myPort())}
	return a.Tools.Run(ctx, Command{Program: program, Args: append(append(first, security...), args...), Stdout: out})
}

// myToolTLS are the options of MariaDB's programs for a TLS mode.
func (a Access) myToolTLS() ([]string, error) {
	switch a.TLSMode {
	case TLSDisable:
		return []string{"--skip-ssl"}, nil
	case TLSRequire:
		return []string{"--ssl", "--skip-ssl-verify-server-cert"}, nil
	case TLSVerifyCA, TLSVerifyFull:
	}
	file, err := a.caFile()
	if err != nil {
		return nil, err
	}
	verify := "--ssl-verify-server-cert"
	if a.TLSMode == TLSVerifyCA {
		verify = "--skip-ssl-verify-server-cert"
	}
	return []string{"--ssl", "--ssl-ca=" + file, verify}, nil
}

// writeOptionFile writes what is secret to a file that only this user can read.
func (a Access) writeOptionFile() (string, error) {
	file, err := os.CreateTemp(a.TempDir, "holdfast-my-*.cnf") // mode 0600
	if err != nil {
		return "", fmt.Errorf("write the option file: %w", err)
	}
	_, err = fmt.Fprintf(file, "[client]\nuser=%s\npassword=%s\n", mydump.OptionValue(a.Username), mydump.OptionValue(a.Password))
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("write the option file: %w", err)
	}
	return file.Name(), nil
}

// myToolFailed says why the dump program failed: when the server cannot be connected to any more, that is the reason.
func (a Access) myToolFailed(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*ToolError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	session, gone := openMy(ctx, a)
	if gone != nil {
		if e, ok := errors.AsType[*Error](gone); ok {
			e.Message += " (" + failed.Error() + ")"
		}
		return gone
	}
	session.close()
	text := strings.Join(failed.Stderr, "\n")
	if strings.Contains(text, "denied") || strings.Contains(text, "insufficient privileges") {
		return Permanent(ReasonPermissionDenied, "user %q of %s may not read all of what is dumped: %w: GRANT SELECT, SHOW VIEW, TRIGGER, EVENT on "+
			"the databases, and SELECT ON mysql.proc", a.Username, a.where(), failed)
	}
	return Transient(ReasonDumpToolFailed, "%w", failed)
}

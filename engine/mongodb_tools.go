package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mongoToolPattern finds the version in what the tools say to --version. A tool that somebody built may say none.
var mongoToolPattern = regexp.MustCompile(`version: (?:r|v)?(\d+\.\d+[\w.-]*)`)

// oldestMongoTool is the first whose --config file takes a connection string.
const oldestMongoTool = "100.3"

// findMongoTool asks a program for its version.
func (a Access) findMongoTool(ctx context.Context, program string) (string, error) {
	var says bytes.Buffer
	err := a.Tools.Run(ctx, Command{Program: program, Args: []string{"--version"}, Stdout: &says})
	if errors.Is(err, exec.ErrNotFound) {
		return "", Permanent(ReasonClientMissing, "image %s has no %s: set spec.database.image to one that carries MongoDB's database tools, for example %s",
			a.Image, program, mongoDB{}.DefaultImage())
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	match := mongoToolPattern.FindStringSubmatch(says.String())
	if match == nil {
		return "unknown", nil
	}
	if older(match[1], oldestMongoTool) {
		return "", Permanent(ReasonClientTooOld, "%s of image %s has version %s, which reads no private connection file; %s and newer do: set "+
			"spec.database.image to a newer one, for example %s", program, a.Image, match[1], oldestMongoTool, mongoDB{}.DefaultImage())
	}
	return match[1], nil
}

// runMongoTool runs mongodump or mongorestore. How the server is reached, user and password stand in a private file.
func (s *mongoSession) runMongoTool(ctx context.Context, program string, args []string, in io.Reader, out io.Writer) error {
	target, release, err := s.toolURI(ctx)
	if err != nil {
		return err
	}
	defer release()
	file, err := s.writeMongoConfig(target)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	m := &moved{in: in, out: out}
	command := Command{Program: program, Args: append([]string{"--config=" + file, "--archive"}, args...)}
	if in != nil {
		command.Stdin = m
	}
	if out != nil {
		command.Stdout = m
	}
	ctx, stop := s.watch(ctx, program, m)
	defer stop()
	return s.Tools.Run(ctx, command)
}

// writeMongoConfig writes what is secret to a file that only this user can read.
func (a Access) writeMongoConfig(uri string) (string, error) {
	file, err := os.CreateTemp(a.TempDir, "holdfast-mongo-*.yaml") // mode 0600
	if err != nil {
		return "", fmt.Errorf("write the connection file: %w", err)
	}
	quoted, err := json.Marshal(uri) // which YAML reads as well; the text is all ASCII
	if err == nil {
		_, err = fmt.Fprintf(file, "uri: %s\n", quoted)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("write the connection file: %w", err)
	}
	return file.Name(), nil
}

// toolURI is the connection string for the tools.
func (s *mongoSession) toolURI(ctx context.Context) (uri string, release func(), err error) {
	query := url.Values{"authSource": {s.authSource()}, "appName": {"holdfast"},
		"serverSelectionTimeoutMS": {strconv.FormatInt(connectTimeout.Milliseconds(), 10)}}
	host, release := s.mongoAddress(), func() {}
	if s.hello.Set == "" {
		query.Set("directConnection", "true")
	} else {
		query.Set("replicaSet", s.hello.Set)
	}
	switch s.TLSMode {
	case TLSRequire:
		query.Set("tls", "true")
		query.Set("tlsInsecure", "true")
	case TLSVerifyFull:
		file, err := s.caFile()
		if err != nil {
			return "", nil, err
		}
		query.Set("tls", "true")
		query.Set("tlsCAFile", file)
	case TLSVerifyCA:
		relay, err := s.startRelay(ctx)
		if err != nil {
			return "", nil, err
		}
		host, release = url.PathEscape(relay.path), relay.stop
		query.Del("replicaSet")
		query.Set("directConnection", "true")
	case TLSDisable:
	}
	return "mongodb://" + escapeURI(s.Username) + ":" + escapeURI(s.Password) + "@" + host + "/?" + strings.ReplaceAll(query.Encode(), "+", "%20"), release, nil
}

func escapeURI(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// mongoToolFailed says why a tool failed: when the server cannot be connected to any more, that is the reason.
func (s *mongoSession) mongoToolFailed(ctx context.Context, reason string, err error) error {
	failed, ok := errors.AsType[*ToolError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	again, gone := openMongo(ctx, s.Access)
	if gone != nil {
		if e, ok := errors.AsType[*Error](gone); ok {
			e.Message += " (" + failed.Error() + ")"
		}
		return gone
	}
	again.close()
	text := strings.Join(failed.Stderr, "\n")
	switch {
	case strings.Contains(text, "not authorized"), strings.Contains(text, "(Unauthorized)"):
		return Permanent(ReasonPermissionDenied, "user %q of %s lacks a privilege: %w: grant it the role backup to back up, restore to restore", s.Username,
			s.where(), failed)
	case strings.Contains(text, "oplog overflow"):
		return Transient(ReasonDumpIncomplete, "the oplog of %s is too small for the time that a dump takes: raise its size (replSetResizeOplog): %w", s.where(), failed)
	}
	if name := mongoCodeName.FindStringSubmatch(text); len(name) > 1 && !slices.Contains(passingCodes, name[1]) || strings.Contains(text, "E11000") {
		return Permanent(reason, "%w", failed)
	}
	return Transient(reason, "%w", failed)
}

// mongoCodeName finds the name of a server's error in what a tool says, such as (DocumentValidationFailure).
var mongoCodeName = regexp.MustCompile(`\(([A-Z][A-Za-z]+)\) `)

// passingCodes are errors that pass by themselves.
var passingCodes = []string{"InterruptedAtShutdown", "InterruptedDueToReplStateChange", "NotWritablePrimary", "PrimarySteppedDown", "ShutdownInProgress",
	"NotPrimaryNoSecondaryOk", "NotPrimaryOrSecondary", "WriteConcernFailed", "WriteConcernTimeout", "ExceededTimeLimit", "MaxTimeMSExpired", "LockTimeout",
	"NetworkTimeout", "HostUnreachable", "HostNotFound", "SocketException", "OutOfDiskSpace", "CursorNotFound", "CappedPositionLost", "SnapshotTooOld", "Interrupted"}

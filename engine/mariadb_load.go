package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// replayed is a statement that is run again behind the RENAME.
type replayed struct {
	text []byte
	line int
	kind kind
	item *myItem // nil where it is for the server
}

// replayBytes bounds what is kept of a script for that.
const replayBytes = 64 << 20

// load creates, loads and checks the fresh databases.
func (r *myRestore) load(ctx context.Context) error {
	for _, item := range r.items {
		if err := r.createFresh(ctx, item); err != nil {
			return err
		}
	}
	r.readDefiners(ctx)
	if err := r.runScript(ctx, true); err != nil {
		return err
	}
	if err := r.reconnect(ctx); err != nil { // a script's settings are not for what follows
		return err
	}
	for _, item := range r.items {
		if err := r.checkFresh(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// readDefiners asks for the server's accounts. Who may not read them finds out later, when a view is used.
func (r *myRestore) readDefiners(ctx context.Context) {
	names, err := r.strings(ctx, "SELECT IF(Host = '', User, CONCAT(User, '@', Host)) FROM mysql.global_priv")
	if err != nil {
		return
	}
	r.definers = map[string]bool{}
	for _, name := range names {
		r.definers[name] = true
	}
}

// needDefiner fails when a view or the like would be made for an account that is not there: it could not be used.
func (r *myRestore) needDefiner(s step) error {
	if r.definers == nil || r.Options.OmitOwnership {
		return nil
	}
	if s.kind == kindAccount && s.tokens[0].Is("create") && !r.Options.OmitPrivileges {
		r.definers[accountOf(s.Text)] = true
	}
	if s.kind != kindCode && s.kind != kindEvent {
		return nil
	}
	d, named := definerOf(s.tokens)
	name := d.user + "@" + d.host
	if d.host == "" { // a role
		name = d.user
	}
	if !named || r.definers[name] {
		return nil
	}
	return Permanent(ReasonRoleMissing, "line %d of the script (%s) makes something for its DEFINER %s, an account that the server lacks: create it, or "+
		"set spec.options.ownership to Omit, which makes everything the connecting user's", s.Line, headOfText(s.Text), name)
}

// createFresh creates a database with the character set of the one that it replaces. A dump of our own sets the dump's.
func (r *myRestore) createFresh(ctx context.Context, item *myItem) error {
	statement := "CREATE DATABASE " + mydump.QuoteName(item.fresh)
	if item.exists {
		var charset, collation string
		const query = "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE BINARY SCHEMA_NAME = ?"
		if err := r.scan(ctx, []any{&charset, &collation}, query, item.target); err != nil {
			return err
		}
		statement += " CHARACTER SET " + charset + " COLLATE " + collation
	}
	if err := r.exec(ctx, statement); err != nil {
		return r.myError(item.fresh, err)
	}
	return nil
}

// checkFresh looks whether all that the script makes is there.
func (r *myRestore) checkFresh(ctx context.Context, item *myItem) error {
	there, err := r.tables(ctx, item.fresh)
	if err != nil {
		return err
	}
	for _, name := range item.tables {
		if !slices.Contains(there, name) {
			return Transient(ReasonRestoreIncomplete, "table %q of the dump is not in the restored database", name)
		}
	}
	return nil
}

// tables of a database, sequences included and views not.
func (s *mySession) tables(ctx context.Context, database string) ([]string, error) {
	names, err := s.strings(ctx, `SELECT TABLE_NAME FROM information_schema.TABLES WHERE BINARY TABLE_SCHEMA = ? AND TABLE_SCHEMA = ?
		AND TABLE_TYPE NOT IN ('VIEW', 'SYSTEM VIEW') ORDER BY TABLE_NAME`, database, database)
	if err != nil {
		return nil, s.myError("", err)
	}
	return names, nil
}

// runScript reads the artifact once to its end. Where it executes, the statements for the wanted databases are run in
// the fresh ones, save what makes events, which would begin to work there; those that are run again later are kept.
func (r *myRestore) runScript(ctx context.Context, execute bool) error {
	dump, err := r.Artifact.Open()
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	reader, err := newScriptReader(dump, true)
	if err != nil {
		return err
	}
	kept := 0
	var in *myItem // whose fresh database is the current one
	for {
		step, err := reader.next()
		if mydump.Ended(err) {
			return reader.complete()
		}
		if err != nil {
			return err
		}
		item := r.itemOf(reader, step.database)
		if item == nil && step.kind != kindSession && step.kind != kindAccount {
			continue
		}
		if kept += r.keep(step, item); kept > replayBytes {
			return Permanent(ReasonRestoreToolFailed, "the views, routines, triggers and events of the dump are more than %d MiB, which is more than "+
				"is restored", replayBytes>>20)
		}
		if !execute {
			continue
		}
		if in, err = r.rehearse(ctx, step, item, in); err != nil {
			return err
		}
	}
}

// rehearse runs a statement in a fresh database, and returns the one that is the current one then.
func (r *myRestore) rehearse(ctx context.Context, s step, item, in *myItem) (*myItem, error) {
	if err := r.needDefiner(s); err != nil || !s.rehearsed() {
		return in, err
	}
	if item != nil && item != in {
		if err := r.exec(ctx, "USE "+mydump.QuoteName(item.fresh)); err != nil {
			return in, r.myError(item.fresh, err)
		}
		in = item
	}
	return in, r.runStep(ctx, s, item)
}

// itemOf returns the database of the restore that a statement is for; nil where it is for one that is not wanted.
func (r *myRestore) itemOf(reader *scriptReader, database string) *myItem {
	if !reader.several() {
		return r.items[0]
	}
	at := slices.IndexFunc(r.items, func(item *myItem) bool { return item.source == database })
	if at < 0 {
		return nil
	}
	return r.items[at]
}

func (s step) rehearsed() bool {
	return slices.Contains([]kind{kindSession, kindTable, kindRows, kindCode, kindDatabase, kindCreateDatabase}, s.kind)
}

// keep keeps what is run again behind the RENAME and returns its size.
func (r *myRestore) keep(s step, item *myItem) int {
	if !slices.Contains([]kind{kindSession, kindCode, kindEvent, kindDatabase, kindAccount, kindCreateDatabase}, s.kind) {
		return 0
	}
	if s.kind == kindAccount && r.Options.OmitPrivileges {
		return 0
	}
	r.replay = append(r.replay, replayed{text: bytes.Clone(r.adapted(s)), line: s.Line, kind: s.kind, item: item})
	return len(s.Text)
}

// adapted is a statement as it is run: without the name of a database, and without DEFINER where owners are left out.
func (r *myRestore) adapted(s step) []byte {
	switch {
	case s.kind == kindCreateDatabase, s.kind == kindDatabase:
		return append([]byte("ALTER DATABASE "), s.Text[nameEnd(s):]...)
	case (s.kind == kindCode || s.kind == kindEvent) && r.Options.OmitOwnership:
		return withoutDefiner(s.Text, s.tokens)
	}
	return s.Text
}

// emptyAlter tells an ALTER DATABASE that alters nothing: CREATE DATABASE without a character set becomes one.
func emptyAlter(k kind, text []byte) bool {
	return (k == kindDatabase || k == kindCreateDatabase) && len(mydump.Tokens(text)) < 3
}

// nameEnd is where the name of a database ends in CREATE or ALTER DATABASE; behind the word DATABASE where there is none.
func nameEnd(s step) int {
	at := slices.IndexFunc(s.tokens, func(t mydump.Token) bool { return t.Is("database") || t.Is("schema") })
	end := s.tokens[at].End
	for _, token := range s.tokens[at+1:] {
		if !slices.ContainsFunc([]string{"if", "not", "exists"}, token.Is) {
			if token.Kind == mydump.Identifier || !slices.ContainsFunc([]string{"character", "charset", "collate", "default"}, token.Is) {
				end = token.End
			}
			break
		}
		end = token.End
	}
	if rest := s.Text[end:]; bytes.HasPrefix(rest, []byte("*/")) { // of /*!32312 IF NOT EXISTS*/
		end += len("*/")
	}
	return end
}

// runStep runs one statement in a fresh database.
func (r *myRestore) runStep(ctx context.Context, s step, item *myItem) error {
	text := r.adapted(s)
	if emptyAlter(s.kind, text) {
		return nil
	}
	if s.kind == kindTable && s.tokens[0].Is("create") {
		item.tables = append(item.tables, createdTable(s.tokens))
	}
	result, err := r.conn.ExecContext(ctx, string(text))
	if s.kind == kindCode && len(r.items) > 1 && hasNumber(err, myNoTable, 1356) {
		return nil // of another database that is restored too; it is made behind the RENAME
	}
	if err != nil {
		return r.statementError(ctx, s.Line, s.Text, err)
	}
	if rows, _ := result.RowsAffected(); s.kind == kindRows && rows > 0 {
		return r.unaltered(ctx, s)
	}
	return nil
}

// createdTable is the name behind CREATE TABLE and its modifiers.
func createdTable(tokens []mydump.Token) string {
	at := slices.IndexFunc(tokens, func(t mydump.Token) bool { return t.Is("table") || t.Is("sequence") })
	for _, token := range tokens[at+1:] {
		if !slices.ContainsFunc([]string{"if", "not", "exists"}, token.Is) {
			return token.Text
		}
	}
	return ""
}

// unaltered fails when the server took rows but changed them, for which it only warns in the mode that dumps set. That
// the values of generated columns are made anew is no change.
func (r *myRestore) unaltered(ctx context.Context, s step) error {
	var count int
	if err := r.conn.QueryRowContext(ctx, "SELECT @@warning_count").Scan(&count); err != nil {
		return r.statementError(ctx, s.Line, s.Text, err)
	}
	if count == 0 {
		return nil
	}
	rows, err := r.conn.QueryContext(ctx, "SHOW WARNINGS")
	if err != nil {
		return r.statementError(ctx, s.Line, s.Text, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			level, text string
			code        int
		)
		if err := rows.Scan(&level, &code, &text); err != nil {
			return r.statementError(ctx, s.Line, s.Text, err)
		}
		if level != "Note" && code != myGeneratedIgnored {
			return Permanent(ReasonRestoreIncomplete, "line %d of the script (%s): the server would change what the dump holds: warning %d: %s", s.Line,
				headOfText(s.Text), code, text)
		}
	}
	return rows.Err()
}

// statementError says why a statement of the script failed.
func (r *myRestore) statementError(ctx context.Context, line int, text []byte, err error) error {
	failed, answered := errors.AsType[*mysql.MySQLError](err)
	at := fmt.Sprintf("line %d of the script (%s)", line, headOfText(text))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, mysql.ErrPktTooLarge), hasNumber(err, myPacketTooLarge):
		return Permanent(ReasonRestoreToolFailed, "%s is longer than the server takes: raise max_allowed_packet of %s (a row takes twice the size "+
			"of its blobs): %w", at, r.where(), err)
	case !answered, gone(err):
		return Transient(ReasonServerUnreachable, "%s went away at %s: %w", r.where(), at, err)
	case hasNumber(err, mySpecificDenied) && strings.Contains(string(text), "DEFINER"):
		return Permanent(ReasonPermissionDenied, "%s: user %q may not make things for their DEFINER: GRANT SET USER ON *.* to it, or set "+
			"spec.options.ownership to Omit, which makes them the connecting user's: %w", at, r.Username, failed)
	case hasNumber(err, mySpecificDenied, myTableDenied, myDatabaseDenied, myRoutineDenied, myColumnDenied):
		return Permanent(ReasonPermissionDenied, "%s: user %q may not do that on %s: %w", at, r.Username, r.where(), failed)
	case hasNumber(err, 1418, 1419):
		return Permanent(ReasonPermissionDenied, "%s: the server writes a binary log and trusts no makers of functions: SET GLOBAL "+
			"log_bin_trust_function_creators = 1, or let user %q have SUPER: %w", at, r.Username, failed)
	case hasNumber(err, 1021, 1114, 1041, 1037):
		return Transient(ReasonRestoreToolFailed, "%s: %w", at, failed)
	}
	return Permanent(ReasonRestoreToolFailed, "the script cannot be restored: %s: %w", at, failed)
}

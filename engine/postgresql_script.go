package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// loadScript runs a script statement by statement, and stops at the first error. No psql is involved: nothing in the
// script can be taken for one of its commands, some of which run programs.
func (r *restore) loadScript(ctx context.Context, item *restoreItem, script io.Reader) error {
	conn, err := r.connect(ctx, item.fresh)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if err := execute(ctx, conn, "RESET search_path"); err != nil {
		return r.queryError(err)
	}
	scanner := pgsql.NewScanner(script)
	for {
		statement, err := scanner.Next()
		if pgsql.Ended(err) {
			return scriptEnd(conn)
		}
		if err != nil {
			return scriptError(err)
		}
		if err := acceptable(statement); err != nil {
			return err
		}
		if r.leavesOut(statement) {
			continue
		}
		err = runStatement(ctx, conn, scanner, statement)
		if hasCode(err, codeNoSuchObject) && setsParameter(statement) {
			r.notef("%s was left out, since the server does not know it", oneLine(statement.Text))
			continue
		}
		if err != nil {
			return r.statementError(conn, statement, err)
		}
	}
}

// scriptEnd fails when a script leaves a transaction open: the server undoes it as soon as the connection is closed.
func scriptEnd(conn *pgx.Conn) error {
	const idle = 'I'
	if conn.PgConn().TxStatus() == idle {
		return nil
	}
	return Permanent(ReasonRestoreIncomplete, "the script ends inside a transaction that it began, so the server would undo all of it: "+
		"the script was cut, or lacks its COMMIT")
}

// setsParameter tells SET name = value, by which a newer client program prepares its session. Losing such a line loses
// nothing of the data.
func setsParameter(statement pgsql.Statement) bool {
	tokens := pgsql.Tokens(statement.Text[:min(len(statement.Text), 256)])
	return len(tokens) > 2 && tokens[0].Is("set") && !tokens[1].Is("session") && !tokens[1].Is("role") && !tokens[1].Is("local")
}

func runStatement(ctx context.Context, conn *pgx.Conn, scanner *pgsql.Scanner, statement pgsql.Statement) error {
	if !statement.CopyIn {
		return execute(ctx, conn, statement.Text)
	}
	_, err := conn.PgConn().CopyFrom(ctx, scanner.Rows(), statement.Text)
	return err
}

func (r *restore) statementError(conn *pgx.Conn, statement pgsql.Statement, err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, pgsql.ErrCut):
		return err
	case !ok && conn.IsClosed():
		return Transient(ReasonServerUnreachable, "%s went away at line %d of the script: %w", r.where(), statement.Line, err)
	case !ok:
		return err
	}
	if role := missingRolePattern.FindStringSubmatch(refused.Message); role != nil && refused.Code == codeNoSuchObject {
		return roleMissing([]string{role[1]})
	}
	text := fmt.Sprintf("%s (SQLSTATE %s)", refused.Message, refused.Code)
	if refused.Detail != "" {
		text += ": " + refused.Detail
	}
	if refused.Where != "" {
		text += ": " + refused.Where
	}
	return Permanent(ReasonRestoreToolFailed, "the script cannot be restored: line %d (%s): %s", statement.Line, headOf(statement), text)
}

// headOf a statement are its first words, which say what it is. Behind them a password may stand.
func headOf(statement pgsql.Statement) string {
	words := strings.Fields(statement.Text[:min(len(statement.Text), 200)])
	return strings.Join(words[:min(len(words), 3)], " ") + " …"
}

// leavesOut tells statements that the options leave out.
func (r *restore) leavesOut(statement pgsql.Statement) bool {
	if commentsOnDatabase(pgsql.Tokens(statement.Text[:min(len(statement.Text), 256)])) {
		return true
	}
	if !r.Options.OmitOwnership && !r.Options.OmitPrivileges || statement.CopyIn {
		return false
	}
	tokens := pgsql.Tokens(statement.Text[:min(len(statement.Text), 4096)])
	if len(tokens) == 0 {
		return false
	}
	first := tokens[0]
	if r.Options.OmitPrivileges && (first.Is("grant") || first.Is("revoke") ||
		len(tokens) > 2 && first.Is("alter") && tokens[1].Is("default") && tokens[2].Is("privileges")) {
		return true
	}
	return r.Options.OmitOwnership && setsOwner(tokens)
}

func setsOwner(tokens []pgsql.Token) bool {
	if len(tokens) > 2 && tokens[0].Is("set") && tokens[1].Is("session") && tokens[2].Is("authorization") {
		return true
	}
	for i := 1; i < len(tokens) && tokens[0].Is("alter"); i++ {
		if tokens[i-1].Is("owner") && tokens[i].Is("to") {
			return true
		}
	}
	return false
}

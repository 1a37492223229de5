package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// createAccounts makes the accounts that the server lacks, and notes first which ones: only these get the dump's grants.
func (r *myRestore) createAccounts(ctx context.Context) error {
	for _, each := range r.replay {
		if each.kind != kindAccount || !strings.HasPrefix(string(each.text), "CREATE ") {
			continue
		}
		name := accountOf(each.text)
		var count int
		const query = "SELECT COUNT(*) FROM mysql.global_priv WHERE IF(Host = '', User, CONCAT(User, '@', Host)) = ?"
		if err := r.scan(ctx, []any{&count}, query, name); err != nil {
			return err
		}
		if count > 0 {
			continue
		}
		if err := r.note(ctx, markAccount, name); err != nil {
			return err
		}
		r.accounts = append(r.accounts, name)
		if err := r.exec(ctx, string(each.text)); err != nil {
			return Permanent(ReasonRestoreToolFailed, "account %s of the dump cannot be made: %w: make it by hand, or set spec.options.privileges "+
				"to Omit", name, err)
		}
	}
	return nil
}

// accountOf is the account that CREATE USER, CREATE ROLE, GRANT or SET DEFAULT ROLE is about: user@host, or a role.
func accountOf(statement []byte) string {
	tokens := mydump.Tokens(statement)
	word := "exists" // CREATE USER IF NOT EXISTS
	switch {
	case tokens[0].Is("grant"):
		word = "to"
	case tokens[0].Is("set"):
		word = "for"
	}
	at := slices.IndexFunc(tokens, func(t mydump.Token) bool { return t.Is(word) })
	if at < 0 || at+1 >= len(tokens) {
		return ""
	}
	name := tokens[at+1].Text
	if at+3 < len(tokens) && tokens[at+2].Text == "@" {
		return name + "@" + tokens[at+3].Text
	}
	return name
}

// makeCode makes views, routines, triggers and events in place, and grants the new accounts what they had.
func (r *myRestore) makeCode(ctx context.Context) error {
	if err := r.reconnect(ctx); err != nil {
		return err
	}
	if err := r.recallAccounts(ctx); err != nil {
		return err
	}
	for _, item := range r.items {
		if err := r.dropCode(ctx, item); err != nil {
			return err
		}
	}
	var in *myItem
	for _, each := range r.replay {
		if each.kind == kindAccount {
			continue
		}
		if each.item != nil && each.item != in {
			if err := r.exec(ctx, "USE "+mydump.QuoteName(each.item.target)); err != nil {
				return r.myError(each.item.target, err)
			}
			in = each.item
		}
		if emptyAlter(each.kind, each.text) {
			continue
		}
		if err := r.exec(ctx, string(each.text)); err != nil {
			return r.statementError(ctx, each.line, each.text, err)
		}
	}
	return r.grantAccounts(ctx)
}

func (r *myRestore) recallAccounts(ctx context.Context) error {
	accounts, err := r.marks(ctx, r.items[0].target, markAccount)
	r.accounts = append(r.accounts, accounts...)
	return err
}

func (r *myRestore) grantAccounts(ctx context.Context) error {
	for _, each := range r.replay {
		if each.kind != kindAccount || strings.HasPrefix(string(each.text), "CREATE ") || !slices.Contains(r.accounts, accountOf(each.text)) {
			continue
		}
		if err := r.exec(ctx, string(each.text)); err != nil {
			return Permanent(ReasonRestoreToolFailed, "the account %s cannot be given what it had: %w", accountOf(each.text), err)
		}
	}
	return nil
}

// dropCode drops the views, routines and events of the database that was replaced.
func (r *myRestore) dropCode(ctx context.Context, item *myItem) error {
	for _, query := range []string{
		"SELECT CONCAT('VIEW ', '`', REPLACE(TABLE_NAME, '`', '``'), '`') FROM information_schema.VIEWS WHERE TABLE_SCHEMA = ?",
		"SELECT CONCAT(ROUTINE_TYPE, ' `', REPLACE(ROUTINE_NAME, '`', '``'), '`') FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? " +
			"AND ROUTINE_TYPE IN ('PROCEDURE', 'FUNCTION', 'PACKAGE')",
		"SELECT CONCAT('TRIGGER ', '`', REPLACE(TRIGGER_NAME, '`', '``'), '`') FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ?",
		"SELECT CONCAT('EVENT ', '`', REPLACE(EVENT_NAME, '`', '``'), '`') FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ?",
	} {
		found, err := r.strings(ctx, query, item.target)
		if err != nil {
			return r.myError("", err)
		}
		for _, each := range found {
			kind, name, _ := strings.Cut(each, " ")
			statement := fmt.Sprintf("DROP %s IF EXISTS %s.%s", kind, mydump.QuoteName(item.target), name)
			if err := r.exec(ctx, statement); err != nil {
				return r.myError("", err)
			}
		}
	}
	return nil
}

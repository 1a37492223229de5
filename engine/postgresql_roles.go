package engine

import (
	"bytes"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// createRoles creates the roles of a pgcluster that the server lacks, with their attributes, passwords and settings,
// and grants the memberships. Roles that are there already stay as they are.
func (r *restore) createRoles(ctx context.Context) error {
	if len(r.roles) == 0 {
		return nil
	}
	rows, err := r.admin.Query(ctx, `SELECT rolname FROM pg_roles`)
	if err != nil {
		return r.queryError(err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return r.queryError(err)
	}
	before := map[string]bool{}
	for _, role := range there {
		before[role] = true
	}
	// in one transaction: a role that exists without its attributes would be taken for one that was there before
	if err := execute(ctx, r.admin, "BEGIN"); err != nil {
		return r.queryError(err)
	}
	if err := r.runRoles(ctx, before); err != nil {
		_ = execute(context.WithoutCancel(ctx), r.admin, "ROLLBACK")
		return err
	}
	if err := execute(ctx, r.admin, "COMMIT"); err != nil {
		return r.queryError(err)
	}
	return nil
}

func (r *restore) runRoles(ctx context.Context, before map[string]bool) error {
	scanner := pgsql.NewScanner(bytes.NewReader(r.roles))
	for {
		statement, err := scanner.Next()
		if pgsql.Ended(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.roleStatement(ctx, statement.Text, before); err != nil {
			return err
		}
	}
}

// roleStatement runs one statement of pg_dumpall's when it is about a role that was not there, or about a
// membership. Its text may hold the hash of a password, so no message quotes it.
func (r *restore) roleStatement(ctx context.Context, statement string, before map[string]bool) error {
	tokens := pgsql.Tokens(statement)
	if len(tokens) < 3 {
		return nil
	}
	verb, object := tokens[0], tokens[1]
	switch {
	case verb.Is("create") && object.Is("role"):
		return r.createRole(ctx, statement, tokens[2].Text, before)
	case verb.Is("alter") && object.Is("role") && !before[tokens[2].Text]:
		r.tryRole(ctx, statement, "attributes of role "+tokens[2].Text)
	case verb.Is("comment") && len(tokens) > 3 && tokens[2].Is("role") && !before[tokens[3].Text]:
		r.tryRole(ctx, statement, "the comment on role "+tokens[3].Text)
	case verb.Is("grant"):
		r.tryRole(ctx, withoutGrantor(statement, tokens), "a grant to role "+tokens[len(tokens)-1].Text)
	case verb.Is("create") && object.Is("tablespace"):
		r.notef("tablespace %s was not created: tablespaces are folders of the server", tokens[2].Text)
	}
	return nil
}

func (r *restore) createRole(ctx context.Context, statement, role string, before map[string]bool) error {
	if before[role] {
		return nil
	}
	err := execute(ctx, r.admin, statement)
	if hasCode(err, codeNoPrivilege) {
		return Permanent(ReasonPermissionDenied, "user %q may not create role %s: ALTER ROLE %s CREATEROLE, create the role by hand, or "+
			"name the databases in spec.database.names and set spec.options to Omit", r.Username, role, quote(r.Username))
	}
	if err != nil {
		return Transient(ReasonRestoreToolFailed, "role %s cannot be created: %w", role, err)
	}
	return nil
}

// tryRole runs a statement without which a restore is still good, and notes when it fails.
func (r *restore) tryRole(ctx context.Context, statement, what string) {
	if err := execute(ctx, r.admin, "SAVEPOINT role"); err != nil {
		r.notef("%s could not be restored: %v", what, err)
		return
	}
	if err := execute(ctx, r.admin, statement); err != nil {
		r.notef("%s could not be restored: %v", what, err)
		_ = execute(ctx, r.admin, "ROLLBACK TO role") // where this fails, so does COMMIT
	}
}

// withoutGrantor leaves out who granted a membership: the grantor must hold it WITH ADMIN OPTION at that moment,
// which the order of pg_dumpall's statements does not promise on every version.
func withoutGrantor(statement string, tokens []pgsql.Token) string {
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1].Is("granted") && tokens[i].Is("by") {
			return strings.TrimSpace(statement[:tokens[i-1].Start])
		}
	}
	return statement
}

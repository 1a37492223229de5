package engine

import (
	"slices"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// shared are the kinds of objects that belong to the whole server and not to one database.
var shared = []string{"database", "tablespace", "role", "user", "group", "system", "parameter"}

// acceptable refuses statements that reach beyond the one database that a script is restored into, and those that
// throw away what the script did.
func acceptable(statement pgsql.Statement) error {
	tokens := pgsql.Tokens(statement.Text[:min(len(statement.Text), 4096)])
	if len(tokens) == 0 {
		return nil
	}
	if reachesBeyond(tokens) {
		return Permanent(ReasonFormatNotRecognised, "line %d of the script (%s) reaches beyond the database that is restored: dump one "+
			"database with pg_dump alone (without --create, and not with pg_dumpall)", statement.Line, headOf(statement))
	}
	if undoes(tokens) {
		return Permanent(ReasonFormatNotRecognised, "line %d of the script (%s) rolls back what the script did, so nothing would be "+
			"restored: take the line out", statement.Line, headOf(statement))
	}
	return nil
}

func reachesBeyond(tokens []pgsql.Token) bool {
	switch verb := tokens[0]; {
	case verb.Is("create"), verb.Is("drop"), verb.Is("alter"):
		return len(tokens) > 1 && isShared(tokens[1]) && (len(tokens) < 3 || !tokens[2].Is("mapping"))
	case verb.Is("comment"), verb.Is("security"):
		on := indexOf(tokens, "on")
		return on > 0 && on+1 < len(tokens) && isShared(tokens[on+1]) && !commentsOnDatabase(tokens)
	case verb.Is("grant"), verb.Is("revoke"):
		on := indexOf(tokens, "on") // a grant without it is of a role
		return on < 0 || on+1 < len(tokens) && isShared(tokens[on+1])
	}
	return false
}

// commentsOnDatabase tells what pg_dump up to version 10 wrote of its own accord. It is left out, as it names the
// database that was dumped.
func commentsOnDatabase(tokens []pgsql.Token) bool {
	return len(tokens) > 2 && tokens[0].Is("comment") && tokens[1].Is("on") && tokens[2].Is("database")
}

func undoes(tokens []pgsql.Token) bool {
	if tokens[0].Is("prepare") {
		return len(tokens) > 1 && tokens[1].Is("transaction")
	}
	return tokens[0].Is("abort") || tokens[0].Is("rollback") && indexOf(tokens, "to") < 0
}

func isShared(token pgsql.Token) bool { return slices.ContainsFunc(shared, token.Is) }

func indexOf(tokens []pgsql.Token, keyword string) int {
	return slices.IndexFunc(tokens, func(t pgsql.Token) bool { return t.Is(keyword) })
}

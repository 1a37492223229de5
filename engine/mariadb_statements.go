package engine

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// kind of a statement, by what a restore does with it.
type kind int

const (
	// kindSession statements prepare the session: settings, also those that the statements behind them need.
	kindSession kind = iota
	// kindSkip statements are left out: locks, and replication's own settings.
	kindSkip
	// kindTable statements make tables and sequences.
	kindTable
	// kindRows statements fill them.
	kindRows
	// kindCode statements make views, routines and triggers, which belong to a database by its name and cannot be
	// moved to another, so that they are run twice.
	kindCode
	// kindEvent statements make events, which may run as soon as they are there.
	kindEvent
	// kindDatabase statements are about the database itself.
	kindDatabase
	kindCreateDatabase
	kindUse
	kindAccount
)

// known is what classify found out.
type known struct {
	kind   kind
	tokens []mydump.Token
	name   string // of the database, for kindUse and kindCreateDatabase
}

// objectKinds are the kinds of what CREATE, DROP and ALTER work on.
var objectKinds = map[string]kind{
	"table": kindTable, "sequence": kindTable, "index": kindTable, "view": kindCode, "trigger": kindCode, "procedure": kindCode,
	"function": kindCode, "package": kindCode, "event": kindEvent, "database": kindDatabase, "schema": kindDatabase,
	"user": kindAccount, "role": kindAccount,
}

// plainKinds are the kinds of statements that their first word tells.
var plainKinds = map[string]kind{
	"insert": kindRows, "replace": kindRows, "update": kindRows, "delete": kindRows, "truncate": kindRows, "lock": kindSkip, "unlock": kindSkip,
	"grant": kindAccount, "start": kindSkip, "begin": kindSkip, "commit": kindSkip, "flush": kindSkip, "analyze": kindSkip,
}

// classify says what a statement is, or refuses it.
func classify(s mydump.Statement) (known, error) {
	k := known{tokens: mydump.Tokens(s.Text[:min(len(s.Text), 4096)])}
	if len(k.tokens) == 0 { // conditional comments without contents
		k.kind = kindSkip
		return k, nil
	}
	verb := strings.ToLower(k.tokens[0].Text)
	if plain, is := plainKinds[verb]; is && k.tokens[0].Kind == mydump.Word {
		k.kind = plain
		return k, staysInDatabase(s, k.tokens)
	}
	switch verb {
	case "create", "drop", "alter":
		return object(s, k)
	case "set":
		return setting(s, k)
	case "use":
		if len(k.tokens) == 2 {
			k.kind = kindUse
			k.name, _ = k.tokens[1].Name()
			return k, nil
		}
	case "do", "select":
		if len(k.tokens) > 2 && k.tokens[1].Is("setval") && k.tokens[2].IsSymbol("(") {
			k.kind = kindRows
			return k, nil
		}
	}
	return k, refused(s, "is nothing that a dump of a database holds")
}

// object finds out what CREATE, DROP or ALTER works on: the first such word, as only modifiers stand before it.
func object(s mydump.Statement, k known) (known, error) {
	const farthest = 30 // DEFINER, ALGORITHM, SQL SECURITY
	at := slices.IndexFunc(k.tokens[:min(len(k.tokens), farthest)], func(t mydump.Token) bool {
		_, is := objectKinds[strings.ToLower(t.Text)]
		return is && t.Kind == mydump.Word
	})
	if at < 0 {
		return k, refused(s, "is nothing that a dump of a database holds")
	}
	k.kind = objectKinds[strings.ToLower(k.tokens[at].Text)]
	rest := afterModifiers(k.tokens[at+1:])
	verb := k.tokens[0]
	switch {
	case k.kind == kindDatabase && verb.Is("create") && len(rest) > 0:
		k.kind = kindCreateDatabase
		k.name, _ = rest[0].Name()
	case k.kind == kindDatabase && !verb.Is("alter"), k.kind == kindAccount && !verb.Is("create"):
		return k, refused(s, "reaches beyond one database")
	case verb.Is("create") && slices.ContainsFunc(rest, func(t mydump.Token) bool { return t.Is("soname") }) && k.kind == kindCode:
		return k, refused(s, "loads a library into the server")
	case k.kind != kindDatabase && k.kind != kindAccount && qualified(rest):
		return k, refused(s, "names a database, and a restore decides which one it is: dump one database alone")
	}
	return k, nil
}

// afterModifiers skips IF [NOT] EXISTS and BODY.
func afterModifiers(tokens []mydump.Token) []mydump.Token {
	for len(tokens) > 0 && slices.ContainsFunc([]string{"if", "not", "exists", "body"}, tokens[0].Is) {
		tokens = tokens[1:]
	}
	return tokens
}

// qualified tells a name with a database before it.
func qualified(tokens []mydump.Token) bool { return len(tokens) > 2 && tokens[1].IsSymbol(".") }

// staysInDatabase refuses rows for another database.
func staysInDatabase(s mydump.Statement, tokens []mydump.Token) error {
	if !slices.ContainsFunc([]string{"insert", "replace", "update", "delete", "truncate"}, tokens[0].Is) {
		return nil
	}
	rest := tokens[1:]
	for len(rest) > 0 && slices.ContainsFunc([]string{"into", "ignore", "from", "table", "delayed", "low_priority", "high_priority", "quick"}, rest[0].Is) {
		rest = rest[1:]
	}
	if qualified(rest) {
		return refused(s, "names a database, and a restore decides which one it is: dump one database alone")
	}
	return nil
}

// replicationSettings are those that a dump sets for replicas' sake. Restored rows must reach the replicas, and what the
// server holds as executed is the server's own.
var replicationSettings = []string{"sql_log_bin", "gtid_purged", "gtid_slave_pos", "gtid_next"}

// setting tells settings of the session from those of the server.
func setting(s mydump.Statement, k known) (known, error) {
	if len(k.tokens) > 2 && k.tokens[1].Is("default") && k.tokens[2].Is("role") {
		k.kind = kindAccount
		return k, nil
	}
	if slices.ContainsFunc(k.tokens, isReplication) {
		k.kind = kindSkip
		return k, nil
	}
	for i, token := range k.tokens {
		name := strings.ToLower(token.Text)
		if token.Kind == mydump.Word && (i == 1 && slices.Contains(notOfSession, name) || name == "@@global" || name == "@@persist") {
			return k, refused(s, "changes the server and not the session")
		}
	}
	k.kind = kindSession
	return k, nil
}

// notOfSession are the words behind SET by which it changes more than the session.
var notOfSession = []string{"global", "persist", "persist_only", "password", "role", "default"}

func isReplication(t mydump.Token) bool {
	return slices.ContainsFunc(replicationSettings, func(name string) bool { return t.Is(name) || t.Is("@@"+name) })
}

// refused is the error of a statement that no restore runs. It shows its first words alone: behind them secrets may stand.
func refused(s mydump.Statement, why string) *Error {
	return Permanent(ReasonFormatNotRecognised, "line %d of the script (%s) %s", s.Line, headOfText(s.Text), why)
}

func headOfText(text []byte) string {
	tokens := mydump.Tokens(text[:min(len(text), 200)])
	var words []string
	for _, token := range tokens[:min(len(tokens), 3)] {
		words = append(words, token.Text)
	}
	return strings.Join(words, " ") + " …"
}

// definer is a DEFINER clause: where it stands, and the account.
type definer struct {
	begin, end int
	user, host string
}

// definerOf a statement that makes code; ok is false where it names none, or the current user.
func definerOf(tokens []mydump.Token) (d definer, ok bool) {
	at := slices.IndexFunc(tokens, func(t mydump.Token) bool { return t.Is("definer") })
	if at < 0 || at+2 >= len(tokens) || !tokens[at+1].IsSymbol("=") {
		return d, false
	}
	name := tokens[at+2]
	if name.Is("current_user") || name.Is("current_role") {
		return d, false
	}
	d = definer{begin: tokens[at].Begin, end: name.End, user: name.Text}
	rest := tokens[at+3:]
	mark := ""                                                                               // @, and the host where it has no quotes
	if user, host, found := strings.Cut(name.Text, "@"); found && name.Kind == mydump.Word { // root@localhost, root@`%`
		d.user, mark = user, "@"+host
	} else if len(rest) > 0 && rest[0].Kind == mydump.Word && rest[0].Begin == name.End && rest[0].Text[0] == '@' { // `root`@…
		mark, d.end, rest = rest[0].Text, rest[0].End, rest[1:]
	}
	switch {
	case mark == "@" && len(rest) > 0:
		d.host, d.end = rest[0].Text, rest[0].End
	case mark != "":
		d.host = mark[1:]
	}
	return d, true
}

// withoutDefiner takes the clause out: what is made then belongs to who makes it.
func withoutDefiner(text []byte, tokens []mydump.Token) []byte {
	d, ok := definerOf(tokens)
	if !ok {
		return text
	}
	return append(append([]byte{}, text[:d.begin]...), text[d.end:]...)
}

package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// myGrant is one line of SHOW GRANTS: privileges on a database pattern and an object, each of which may be *.
type myGrant struct {
	privileges       []string
	database, object string
}

// myGrants are the privileges of the connecting account, its active roles included.
type myGrants []myGrant

func (s *mySession) grants(ctx context.Context) (myGrants, error) {
	lines, err := s.strings(ctx, "SHOW GRANTS")
	if err != nil {
		return nil, s.myError("", err)
	}
	var grants myGrants
	for _, line := range lines {
		if grant, ok := parseGrant(line); ok {
			grants = append(grants, grant)
		}
	}
	return grants, nil
}

// parseGrant reads GRANT SELECT, INSERT (a, b) ON `db`.* TO …. Privileges on single columns are not counted.
func parseGrant(line string) (myGrant, bool) {
	tokens := mydump.Tokens([]byte(line))
	on := slices.IndexFunc(tokens, func(t mydump.Token) bool { return t.Is("on") })
	if len(tokens) == 0 || !tokens[0].Is("grant") || on < 0 || on+3 >= len(tokens) {
		return myGrant{}, false
	}
	rest := tokens[on+1:]
	if rest[0].Is("procedure") || rest[0].Is("function") || rest[0].Is("package") {
		return myGrant{}, false
	}
	grant := myGrant{database: rest[0].Text, object: rest[2].Text}
	var words []string
	depth := 0
	for _, token := range append(tokens[1:on:on], mydump.Token{Kind: mydump.Symbol, Text: ","}) {
		switch {
		case token.IsSymbol("("):
			depth, words = depth+1, nil
		case token.IsSymbol(")"):
			depth--
		case depth > 0:
		case token.IsSymbol(","):
			if len(words) > 0 {
				grant.privileges = append(grant.privileges, strings.ToUpper(strings.Join(words, " ")))
			}
			words = nil
		default:
			words = append(words, token.Text)
		}
	}
	return grant, true
}

// missing are those of some privileges that the account does not have on a whole database.
func (g myGrants) missing(database string, privileges ...string) []string {
	var lacks []string
	for _, privilege := range privileges {
		if !slices.ContainsFunc(g, func(grant myGrant) bool {
			return grant.object == "*" && matchesPattern(database, grant.database) && grant.holds(privilege)
		}) {
			lacks = append(lacks, privilege)
		}
	}
	return lacks
}

// on tells whether the account has a privilege on one object.
func (g myGrants) on(database, object, privilege string) bool {
	return slices.ContainsFunc(g, func(grant myGrant) bool {
		return (grant.object == "*" || grant.object == object) && matchesPattern(database, grant.database) && grant.holds(privilege)
	})
}

func (g myGrant) holds(privilege string) bool {
	return slices.Contains(g.privileges, privilege) || slices.Contains(g.privileges, "ALL PRIVILEGES")
}

// matchesPattern tells whether a grant's pattern, in which % and _ stand for others unless a backslash is before them,
// is for a database.
func matchesPattern(name, pattern string) bool {
	if pattern == "*" {
		return true
	}
	for pattern != "" {
		switch c := pattern[0]; {
		case c == '%':
			for at := range len(name) + 1 {
				if matchesPattern(name[at:], pattern[1:]) {
					return true
				}
			}
			return false
		case name == "":
			return false
		case c == '\\' && len(pattern) > 1:
			pattern = pattern[1:]
			fallthrough
		default:
			if pattern[0] != name[0] && c != '_' {
				return false
			}
		}
		name, pattern = name[1:], pattern[1:]
	}
	return name == ""
}

// mayDump fails when the account lacks what a dump of a database needs, and names the GRANT.
func (s *mySession) mayDump(grants myGrants, database string) error {
	lacks := grants.missing(database, "SELECT", "SHOW VIEW", "TRIGGER", "EVENT")
	if len(lacks) > 0 {
		return Permanent(ReasonPermissionDenied, "user %q lacks %s on database %q of %s, without which a dump would leave things out: GRANT %s ON %s.* TO %s",
			s.Username, strings.Join(lacks, ", "), database, s.where(), strings.Join(lacks, ", "), mydump.QuoteName(database), s.account())
	}
	if !grants.on("mysql", "proc", "SELECT") && len(grants.missing(database, "SHOW CREATE ROUTINE")) > 0 {
		return Permanent(ReasonPermissionDenied, "user %q lacks SELECT on mysql.proc of %s, without which a dump would leave procedures and "+
			"functions out: GRANT SELECT ON mysql.proc TO %s", s.Username, s.where(), s.account())
	}
	return nil
}

// restorePrivileges are what a restore needs on the databases that it makes and replaces.
var restorePrivileges = []string{"SELECT", "INSERT", "CREATE", "DROP", "ALTER", "INDEX", "REFERENCES", "CREATE VIEW", "SHOW VIEW",
	"CREATE ROUTINE", "ALTER ROUTINE", "TRIGGER", "EVENT"}

func (s *mySession) mayRestore(grants myGrants, database string) error {
	lacks := grants.missing(database, restorePrivileges...)
	if len(lacks) == 0 {
		return nil
	}
	return Permanent(ReasonPermissionDenied, "user %q lacks %s on database %q of %s: GRANT %s ON %s.* TO %s", s.Username, strings.Join(lacks, ", "),
		database, s.where(), strings.Join(lacks, ", "), mydump.QuoteName(database), s.account())
}

// account is the connecting user for a GRANT, on whatever host it was made.
func (s *mySession) account() string { return mydump.QuoteName(s.Username) + "@'…'" }

package pgsql

import "strings"

// Kind of a token.
type Kind int

// Kinds of tokens.
const (
	Word   Kind = iota // an identifier or a keyword; Text in lower case, or as quoted
	String             // a string constant; Text is its source
	Symbol             // one other character
)

// Token of a statement.
type Token struct {
	Kind   Kind
	Text   string
	Quoted bool
	// Start and End of the token's source in the statement.
	Start, End int
}

// Is tells whether the token is a keyword, given in lower case.
func (t Token) Is(keyword string) bool { return t.Kind == Word && !t.Quoted && t.Text == keyword }

// Tokens splits a statement. Comments and white space are left out.
func Tokens(statement string) []Token {
	var tokens []Token
	for at := 0; at < len(statement); {
		token, next := tokenAt(statement, at)
		if token.End > token.Start {
			tokens = append(tokens, token)
		}
		at = next
	}
	return tokens
}

func tokenAt(s string, at int) (Token, int) {
	rest := s[at:]
	switch c := s[at]; {
	case isSpace(c):
		return Token{}, at + 1
	case strings.HasPrefix(rest, "--"):
		return Token{}, at + untilAfter(rest, "\n", 2)
	case strings.HasPrefix(rest, "/*"):
		return Token{}, at + blockComment(rest)
	case c == '"':
		end := at + quotedEnd(rest, '"', false)
		name := strings.ReplaceAll(strings.TrimSuffix(s[at+1:end], `"`), `""`, `"`)
		return Token{Word, name, true, at, end}, end
	case c == '\'':
		end := at + quotedEnd(rest, '\'', false)
		return Token{String, s[at:end], false, at, end}, end
	case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
		end := at + 1 + quotedEnd(rest[1:], '\'', true)
		return Token{String, s[at:end], false, at, end}, end
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			end := at + untilAfter(rest, tag, len(tag))
			return Token{String, s[at:end], false, at, end}, end
		}
	case isIdentStart(c):
		end := at + 1
		for end < len(s) && isIdent(s[end]) {
			end++
		}
		return Token{Word, strings.ToLower(s[at:end]), false, at, end}, end
	}
	return Token{Symbol, s[at : at+1], false, at, at + 1}, at + 1
}

// untilAfter is the length of text up to and with the first mark from skip on, or of all of it.
func untilAfter(text, mark string, skip int) int {
	if at := strings.Index(text[skip:], mark); at >= 0 {
		return skip + at + len(mark)
	}
	return len(text)
}

func blockComment(text string) int {
	depth := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// quotedEnd is the length of a quoted text, whose quotes inside are doubled.
func quotedEnd(text string, quote byte, escapes bool) int {
	for i := 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// dollarTag returns the opening tag of a dollar-quoted string, or nothing.
func dollarTag(text string) string {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '$':
			return text[:i+1]
		case !isIdentStart(c) && (i == 1 || c < '0' || c > '9'):
			return ""
		}
	}
	return ""
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}

func isIdentStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isIdent(c byte) bool { return isIdentStart(c) || c >= '0' && c <= '9' || c == '$' }

// RenameDatabase rewrites pg_dump's statements about the database from so that they speak of the database to: every
// identifier from that follows the word DATABASE.
func RenameDatabase(statements, from, to string) string {
	var out strings.Builder
	done := 0
	tokens := Tokens(statements)
	for i, token := range tokens {
		if i > 0 && tokens[i-1].Is("database") && token.Kind == Word && token.Text == from {
			out.WriteString(statements[done:token.Start])
			out.WriteString(Identifier(to))
			done = token.End
		}
	}
	out.WriteString(statements[done:])
	return out.String()
}

// Roles returns the roles that GRANT, REVOKE, ALTER DEFAULT PRIVILEGES and SET SESSION AUTHORIZATION statements of
// pg_dump name.
func Roles(statements string) []string {
	var roles []string
	tokens := Tokens(statements)
	for i := 1; i < len(tokens); i++ {
		before, token := tokens[i-1], tokens[i]
		if token.Kind != Word || token.Is("public") || token.Is("default") || token.Is("role") {
			continue
		}
		if before.Is("to") || before.Is("from") || before.Is("role") || before.Is("authorization") {
			roles = append(roles, token.Text)
		}
	}
	return roles
}

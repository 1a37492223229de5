package mydump

import (
	"bytes"
	"strconv"
	"strings"
)

// Kind of a token.
type Kind int

// Kinds of tokens.
const (
	// Word is a keyword or a name without quotes, also a variable such as @a or @@a.
	Word Kind = iota
	// Identifier is a name in backticks.
	Identifier
	// String is a text in quotes, or a name where the server takes double quotes for that.
	String
	// Symbol is a single byte of anything else.
	Symbol
)

// Token of a statement.
type Token struct {
	Kind Kind
	// Text is the word, or what stands between the quotes, with doubled quotes made one.
	Text string
	// Begin and End are where it stands in the statement, quotes included.
	Begin, End int
}

// Is tells a keyword, in any case.
func (t Token) Is(keyword string) bool { return t.Kind == Word && strings.EqualFold(t.Text, keyword) }

// IsSymbol tells a symbol.
func (t Token) IsSymbol(symbol string) bool { return t.Kind == Symbol && t.Text == symbol }

// Name tells a name, with or without quotes.
func (t Token) Name() (string, bool) { return t.Text, t.Kind != Symbol }

// neverVersion is what no server has: mariadb-dump hides words to its client program behind it.
const neverVersion = 990000

// Tokens of a statement or of its beginning. Comments are left out; what a conditional comment holds is not.
func Tokens(text []byte) []Token {
	var tokens []Token
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isSpace(c):
			i++
		case beginsLineComment(text[i:]):
			i = endOf(text, i, "\n")
		case bytes.HasPrefix(text[i:], []byte("/*")):
			i = openComment(text, i)
		case bytes.HasPrefix(text[i:], []byte("*/")):
			i += 2
		case c == '\'' || c == '"' || c == '`':
			end := endOfQuotes(text, i)
			tokens = append(tokens, quotedToken(text, i, end))
			i = end
		case isWord(c):
			end := i
			for end < len(text) && isWord(text[end]) {
				end++
			}
			tokens = append(tokens, Token{Word, string(text[i:end]), i, end})
			i = end
		default:
			tokens = append(tokens, Token{Symbol, string(c), i, i + 1})
			i++
		}
	}
	return tokens
}

func beginsLineComment(text []byte) bool {
	return text[0] == '#' || bytes.HasPrefix(text, []byte("--")) && (len(text) == 2 || isSpace(text[2]))
}

// openComment returns where to go on: behind a comment, or behind what opens one that holds code.
func openComment(text []byte, i int) int {
	rest := text[i+2:]
	skip := 2
	switch {
	case bytes.HasPrefix(rest, []byte("M!")):
		rest, skip = rest[2:], skip+2
	case bytes.HasPrefix(rest, []byte("!")):
		rest, skip = rest[1:], skip+1
	default:
		return endOf(text, i+2, "*/")
	}
	digits := 0
	for digits < len(rest) && digits < 6 && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if version, _ := strconv.Atoi(string(rest[:digits])); version >= neverVersion {
		return endOf(text, i+2, "*/")
	}
	return i + skip + digits
}

func endOf(text []byte, from int, mark string) int {
	at := bytes.Index(text[from:], []byte(mark))
	if at < 0 {
		return len(text)
	}
	return from + at + len(mark)
}

func endOfQuotes(text []byte, begin int) int {
	quote := text[begin]
	for i := begin + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

func quotedToken(text []byte, begin, end int) Token {
	kind := String
	if text[begin] == '`' {
		kind = Identifier
	}
	inner := text[begin+1 : end]
	inner = bytes.TrimSuffix(inner, text[begin:begin+1])
	quote := string(text[begin : begin+1])
	return Token{kind, strings.ReplaceAll(string(inner), quote+quote, quote), begin, end}
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '@' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

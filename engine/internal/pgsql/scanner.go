package pgsql

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxStatement is the longest statement that a Scanner returns. The rows of COPY do not count.
const MaxStatement = 32 << 20

const scanBuffer = 256 << 10

// ErrCut says that a script ends inside a statement, a comment or the rows of a COPY, or lacks pg_dump's last line.
var ErrCut = errors.New("the script is cut short")

// MetaCommand is a command to psql, which is not SQL. It is never run.
type MetaCommand struct {
	Line    int
	Command string
}

func (m *MetaCommand) Error() string {
	return fmt.Sprintf("line %d holds the psql command %s", m.Line, m.Command)
}

// Statement of a script, without its semicolon and without comments.
type Statement struct {
	Text string
	// Line on which it begins, counted from 1.
	Line int
	// CopyIn says that rows follow, which are read with Scanner.Rows.
	CopyIn bool
}

// Scanner splits a script into statements as psql does: quotes, dollar quotes, comments, parentheses and SQL-standard
// function bodies are respected, and the rows of COPY … FROM stdin are kept apart. Meta-commands are refused, but for
// \restrict and \unrestrict, which newer pg_dumps write and which are skipped.
type Scanner struct {
	in     *bufio.Reader
	line   int
	text   bytes.Buffer
	inRows bool
	blocks blockDepth
	parens int
	// escapes says that the script turned standard_conforming_strings off.
	escapes bool
	// dumped and complete tell of pg_dump's first and last comment.
	dumped, complete bool
}

// Ended tells the end of a stream from failures: only the bare io.EOF is one, an io.EOF that somebody wrapped is not.
func Ended(err error) bool { return err == io.EOF } //nolint:errorlint // see above

// NewScanner reads a script.
func NewScanner(script io.Reader) *Scanner {
	s := &Scanner{in: bufio.NewReaderSize(script, scanBuffer), line: 1}
	if bom, _ := s.in.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = s.in.Discard(3)
	}
	return s
}

// Next returns the next statement, or io.EOF behind the last of a whole script.
func (s *Scanner) Next() (Statement, error) {
	if s.inRows {
		if _, err := io.Copy(io.Discard, s.Rows()); err != nil {
			return Statement{}, err
		}
	}
	s.text.Reset()
	s.blocks, s.parens = blockDepth{}, 0
	statement := Statement{Line: s.line}
	for {
		c, err := s.in.ReadByte()
		if Ended(err) {
			return statement, s.end()
		}
		if err != nil {
			return statement, err
		}
		if s.text.Len() == 0 && isSpace(c) {
			s.countLine(c)
			statement.Line = s.line
			continue
		}
		done, err := s.step(c)
		if err != nil {
			return statement, err
		}
		if done && s.text.Len() > 0 {
			return s.finish(statement)
		}
	}
}

func (s *Scanner) end() error {
	switch {
	case s.text.Len() > 0:
		return fmt.Errorf("%w: the last statement, near line %d, has no semicolon", ErrCut, s.line)
	case s.dumped && !s.complete:
		return fmt.Errorf("%w: pg_dump's last line, \"PostgreSQL database dump complete\", is missing", ErrCut)
	}
	return io.EOF
}

func (s *Scanner) finish(statement Statement) (Statement, error) {
	statement.Text = s.text.String()
	tokens := firstTokens(statement.Text)
	if len(tokens) > 1 && tokens[0].Is("copy") && copiesIn(Tokens(statement.Text)) {
		statement.CopyIn, s.inRows = true, true
		// psql reads the rows from the next line on
		if _, err := s.restOfLine(nil); err != nil && !Ended(err) { // rows that are missing are told by Rows
			return statement, err
		}
		return statement, nil
	}
	s.noteStrings(tokens)
	return statement, nil
}

func firstTokens(text string) []Token { return Tokens(text[:min(len(text), 512)]) }

func copiesIn(tokens []Token) bool {
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1].Is("from") && (tokens[i].Is("stdin") || tokens[i].Is("stdout")) {
			return true
		}
	}
	return false
}

func (s *Scanner) noteStrings(tokens []Token) {
	for i, token := range tokens {
		if i+2 < len(tokens) && tokens[0].Is("set") && token.Is("standard_conforming_strings") {
			value := strings.ToLower(strings.Trim(tokens[i+2].Text, "'"))
			s.escapes = value == "off" || value == "false" || value == "no" || value == "0"
		}
	}
}

func (s *Scanner) countLine(c byte) {
	if c == '\n' {
		s.line++
	}
}

// add keeps a byte of the statement.
func (s *Scanner) add(c byte) error {
	s.countLine(c)
	s.text.WriteByte(c)
	if s.text.Len() > MaxStatement {
		return fmt.Errorf("the statement that ends near line %d is longer than %d MiB: restore this script with psql by hand",
			s.line, MaxStatement>>20)
	}
	return nil
}

// step takes one byte outside of quotes. done says that it ended the statement.
func (s *Scanner) step(c byte) (done bool, err error) {
	switch c {
	case '\\':
		return false, s.metaCommand()
	case '-', '/':
		return false, s.comment(c)
	case '\'':
		return false, s.quoted(c, s.escapes || s.escapePrefix())
	case '"':
		s.blocks.word("")
		return false, s.quoted(c, false)
	case '$':
		return false, s.dollar()
	case ';':
		s.endWord()
		if s.parens <= 0 && s.blocks.depth == 0 {
			return true, nil
		}
	case '(':
		s.endWord()
		s.parens++
	case ')':
		s.endWord()
		s.parens--
	default:
		if !isIdent(c) {
			s.endWord()
		}
	}
	return false, s.add(c)
}

// endWord tells the block depth of a word that has just ended.
func (s *Scanner) endWord() {
	text := s.text.Bytes()
	start := len(text)
	for start > 0 && isIdent(text[start-1]) && len(text)-start <= 16 {
		start--
	}
	if start < len(text) && isIdentStart(text[start]) && s.parens <= 0 {
		s.blocks.word(strings.ToLower(string(text[start:])))
	}
}

// escapePrefix tells whether what was read so far ends in the E of an escape string.
func (s *Scanner) escapePrefix() bool {
	text := s.text.Bytes()
	n := len(text)
	return n > 0 && (text[n-1] == 'e' || text[n-1] == 'E') && (n == 1 || !isIdent(text[n-2]))
}

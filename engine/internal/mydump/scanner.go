// Package mydump reads the SQL scripts that mariadb-dump and mysqldump write: it splits them into statements as their
// client program does, tells whole scripts from cut ones, and knows enough of the language to say what a statement is.
package mydump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxStatement is the longest statement that is taken. A row is one statement at the least, and a blob stands in it
	// as hexadecimal digits, so this is about half as much of a row.
	MaxStatement = 128 << 20
	// headBytes of each statement are kept where its text is not wanted.
	headBytes = 16 << 10

	scanBuffer = 256 << 10
)

// ErrCut says that a script ends inside a statement or a comment, or lacks the last line that its writer gives it.
var ErrCut = errors.New("the script is cut short")

// Statement of a script, without its delimiter.
type Statement struct {
	// Text of the statement, or its first 16 KiB where the scanner keeps heads alone. It is valid until the next call.
	Text []byte
	// Line on which it begins, counted from 1.
	Line int
}

// Scanner splits a script into statements.
type Scanner struct {
	in        *bufio.Reader
	line      int
	text      []byte
	size      int  // of the statement, also of what is not kept
	headsOnly bool // the texts are not needed
	delimiter string
	// literal says that the script switched backslashes off as an escape.
	literal bool
	// conditional is inside /*! … */, whose contents are code, in which the delimiter ends nothing.
	conditional bool
	end         ending
}

// ending follows what a dump program writes at the beginning and the end of a script.
type ending struct {
	dumped, complete bool // by its first and last comment
	saved, restored  bool // by the settings that it keeps and gives back, where comments were switched off
}

// NewScanner reads a script and returns its statements whole.
func NewScanner(script io.Reader) *Scanner {
	s := &Scanner{in: bufio.NewReaderSize(script, scanBuffer), line: 1, delimiter: ";"}
	if bom, _ := s.in.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = s.in.Discard(3)
	}
	return s
}

// NewHeadScanner reads a script and returns of each statement the beginning, for those who need no more.
func NewHeadScanner(script io.Reader) *Scanner {
	s := NewScanner(script)
	s.headsOnly = true
	return s
}

// Ended tells the end of a stream from failures: only the bare io.EOF is one, an io.EOF that somebody wrapped is not.
func Ended(err error) bool { return err == io.EOF } //nolint:errorlint // see above

// Next returns the next statement, or io.EOF behind the last of a whole script.
func (s *Scanner) Next() (Statement, error) {
	s.text, s.size, s.conditional = s.text[:0], 0, false
	statement := Statement{Line: s.line}
	for {
		c, err := s.in.ReadByte()
		if Ended(err) {
			statement.Text = s.text
			return statement, s.finish()
		}
		if err != nil {
			return statement, err
		}
		if s.size == 0 && isSpace(c) {
			s.countLine(c)
			continue
		}
		if s.size == 0 {
			statement.Line = s.line
			if skipped, err := s.delimiterCommand(c); err != nil || skipped {
				if err != nil {
					return statement, err
				}
				continue
			}
		}
		done, err := s.step(c)
		if err != nil {
			statement.Text = s.text
			return statement, err
		}
		if done && s.size > 0 {
			statement.Text = bytes.TrimRight(s.text, " \t\r\n")
			s.note(statement.Text)
			return statement, nil
		}
	}
}

func (s *Scanner) finish() error {
	switch {
	case s.size > 0 && len(Tokens(s.text)) > 0:
		return fmt.Errorf("%w: the last statement, near line %d, has no end", ErrCut, s.line)
	case s.end.dumped && !s.end.complete:
		return fmt.Errorf("%w: the last line of a dump, \"-- Dump completed\", is missing", ErrCut)
	case s.end.saved && !s.end.restored && !s.end.complete:
		return fmt.Errorf("%w: the settings that a dump gives back at its end are not given back", ErrCut)
	}
	return io.EOF
}

// delimiterCommand takes the client's own command DELIMITER, which is no SQL.
func (s *Scanner) delimiterCommand(c byte) (taken bool, err error) {
	const command = "elimiter "
	if c != 'D' && c != 'd' {
		return false, nil
	}
	ahead, err := s.in.Peek(len(command))
	if err != nil && !Ended(err) {
		return false, err
	}
	if !strings.EqualFold(string(ahead), command) {
		return false, nil
	}
	line, err := s.restOfLine(64)
	if err != nil && !Ended(err) {
		return false, err
	}
	if Ended(err) {
		return false, fmt.Errorf("%w behind DELIMITER on line %d", ErrCut, s.line)
	}
	fields := strings.Fields(line)
	if len(fields) < 2 || strings.ContainsAny(fields[1], `\'"`+"`") {
		return false, fmt.Errorf("line %d: DELIMITER names no delimiter", s.line)
	}
	s.delimiter = fields[1]
	return true, nil
}

// restOfLine reads to the line's end and returns the first bytes of it.
func (s *Scanner) restOfLine(keep int) (string, error) {
	var kept []byte
	for {
		part, err := s.in.ReadSlice('\n')
		if room := keep - len(kept); room > 0 {
			kept = append(kept, part[:min(room, len(part))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil {
			s.line++
		}
		return strings.TrimRight(string(kept), "\r\n"), err
	}
}

// step takes one byte outside of quotes. done says that it ended the statement.
func (s *Scanner) step(c byte) (done bool, err error) {
	switch c {
	case '\'', '"', '`':
		return false, s.quoted(c)
	case '#':
		return false, s.lineComment("#")
	case '-', '/', '*':
		if taken, err := s.dash(c); taken || err != nil {
			return false, err
		}
	}
	if !s.conditional && c == s.delimiter[0] {
		if rest, _ := s.in.Peek(len(s.delimiter) - 1); string(rest) == s.delimiter[1:] {
			_, _ = s.in.Discard(len(rest))
			return true, nil
		}
	}
	return false, s.add(c)
}

func cutInside(err error, what string, line int) error {
	if Ended(err) {
		return fmt.Errorf("%w inside %s near line %d", ErrCut, what, line)
	}
	return err
}

// quoted takes a quoted text whose opening quote was read. A doubled quote inside looks like the end of one and the
// beginning of the next, which comes to the same.
func (s *Scanner) quoted(quote byte) error {
	line := s.line
	escapes := quote != '`' && !s.literal
	if err := s.add(quote); err != nil {
		return err
	}
	for {
		if _, err := s.in.Peek(1); err != nil {
			return cutInside(err, "quotes", line)
		}
		part, _ := s.in.Peek(s.in.Buffered())
		at := bytes.IndexByte(part, quote)
		if escape := indexEscape(part, at, escapes); escape >= 0 {
			at = escape
		}
		if at < 0 {
			err := s.addPart(part)
			_, _ = s.in.Discard(len(part))
			if err != nil {
				return err
			}
			continue
		}
		c := part[at]
		err := s.addPart(part[:at+1])
		_, _ = s.in.Discard(at + 1)
		if err != nil || c == quote {
			return err
		}
		if c, err = s.in.ReadByte(); err != nil {
			return cutInside(err, "quotes", line)
		}
		if err := s.add(c); err != nil {
			return err
		}
	}
}

// indexEscape finds a backslash before the quote at a place, which may be -1.
func indexEscape(part []byte, quote int, escapes bool) int {
	if !escapes {
		return -1
	}
	if quote >= 0 {
		part = part[:quote]
	}
	return bytes.IndexByte(part, '\\')
}

func (s *Scanner) addAll(text string) error { return s.addPart([]byte(text)) }

// add keeps a byte of the statement.
func (s *Scanner) add(c byte) error {
	s.countLine(c)
	s.size++
	if !s.headsOnly || len(s.text) < headBytes {
		s.text = append(s.text, c)
	}
	return s.fits()
}

func (s *Scanner) addPart(part []byte) error {
	s.line += bytes.Count(part, []byte{'\n'})
	s.size += len(part)
	if s.headsOnly {
		part = part[:max(0, min(len(part), headBytes-len(s.text)))]
	}
	s.text = append(s.text, part...)
	return s.fits()
}

func (s *Scanner) fits() error {
	if s.size > MaxStatement {
		return fmt.Errorf("the statement near line %d is longer than %d MiB, which is more than is restored: a row of half that size "+
			"needs a physical backup, such as mariadb-backup or a VolumeSnapshot", s.line, MaxStatement>>20)
	}
	return nil
}

func (s *Scanner) countLine(c byte) {
	if c == '\n' {
		s.line++
	}
}

// note learns from a statement what the scanner must know of the rest of the script.
func (s *Scanner) note(text []byte) {
	s.end.complete = false // more came
	tokens := Tokens(text[:min(len(text), 1024)])
	if len(tokens) < 3 || !tokens[0].Is("set") {
		return
	}
	for i, token := range tokens {
		switch {
		case token.Is("@old_sql_notes") && i > 0 && i+2 < len(tokens):
			s.end.saved = true
		case token.Is("@old_sql_notes") && i > 0:
			s.end.restored = true
		case token.Is("sql_mode") && i+2 < len(tokens):
			s.literal = tokens[i+2].Kind == String && strings.Contains(strings.ToUpper(tokens[i+2].Text), "NO_BACKSLASH_ESCAPES")
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

package pgsql

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// blockDepth follows BEGIN … END of SQL-standard function bodies, in which a semicolon ends no statement.
type blockDepth struct {
	words [4]string
	count int
	depth int
}

// word takes the next word of a statement; a quoted one as "".
func (b *blockDepth) word(word string) {
	if b.count < len(b.words) {
		b.words[b.count] = word
	}
	b.count++
	if !b.createsRoutine() {
		return
	}
	switch word {
	case "begin":
		b.depth++
	case "case":
		if b.depth > 0 {
			b.depth++
		}
	case "end":
		b.depth = max(0, b.depth-1)
	}
}

func (b *blockDepth) createsRoutine() bool {
	kind := b.words[1]
	if kind == "or" && b.words[2] == "replace" {
		kind = b.words[3]
	}
	return b.words[0] == "create" && (kind == "function" || kind == "procedure")
}

// metaCommand refuses a backslash command, and skips the two that pg_dump writes.
func (s *Scanner) metaCommand() error {
	line := s.line
	rest, err := s.restOfLine(make([]byte, 0, 64))
	if err != nil && !Ended(err) {
		return err
	}
	command := `\` + strings.TrimSpace(string(rest))
	name, _, _ := strings.Cut(command, " ")
	if s.text.Len() == 0 && (name == `\restrict` || name == `\unrestrict`) {
		return nil
	}
	return &MetaCommand{Line: line, Command: command}
}

// restOfLine reads to the line's end and returns as much of it as keep has room for.
func (s *Scanner) restOfLine(keep []byte) ([]byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return keep, err
		}
		if c == '\n' {
			s.line++
			return keep, nil
		}
		if len(keep) < cap(keep) {
			keep = append(keep, c)
		}
	}
}

// comment takes a - or /, which may begin a comment. A comment is not kept, it counts as white space.
func (s *Scanner) comment(c byte) error {
	s.endWord()
	next, err := s.in.Peek(1)
	if err != nil && !Ended(err) {
		return err
	}
	switch {
	case len(next) == 1 && c == '-' && next[0] == '-':
		err = s.lineComment()
	case len(next) == 1 && c == '/' && next[0] == '*':
		err = s.blockComment()
	default:
		return s.add(c)
	}
	if err == nil && s.text.Len() > 0 {
		s.text.WriteByte('\n')
	}
	return err
}

func (s *Scanner) lineComment() error {
	text, err := s.restOfLine(make([]byte, 0, 64))
	switch strings.TrimSpace(string(text)) {
	case "- PostgreSQL database dump":
		s.dumped = true
	case "- PostgreSQL database dump complete":
		s.complete = true
	}
	if Ended(err) {
		return nil
	}
	return err
}

func (s *Scanner) blockComment() error {
	line, depth := s.line, 0
	for last := byte('/'); ; {
		c, err := s.in.ReadByte()
		if err != nil {
			return cutInside(err, "a comment", line)
		}
		s.countLine(c)
		switch {
		case last == '/' && c == '*':
			depth++
			c = 0
		case last == '*' && c == '/':
			depth--
			c = 0
		}
		if depth == 0 {
			return nil
		}
		last = c
	}
}

func cutInside(err error, what string, line int) error {
	if Ended(err) {
		return fmt.Errorf("%w inside %s near line %d", ErrCut, what, line)
	}
	return err
}

// quoted takes a quoted text whose opening quote was read. A doubled quote inside looks like the end of one and the
// beginning of the next, which comes to the same.
func (s *Scanner) quoted(quote byte, escapes bool) error {
	line := s.line
	if err := s.add(quote); err != nil {
		return err
	}
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return cutInside(err, "quotes", line)
		}
		if err := s.add(c); err != nil {
			return err
		}
		if c == quote {
			return s.doubled(quote, escapes)
		}
		if c == '\\' && escapes {
			if c, err = s.in.ReadByte(); err != nil {
				return cutInside(err, "quotes", line)
			}
			if err := s.add(c); err != nil {
				return err
			}
		}
	}
}

// doubled goes on with the same kind of quotes when the closing one was half of a doubled one.
func (s *Scanner) doubled(quote byte, escapes bool) error {
	next, err := s.in.Peek(1)
	if err != nil && !Ended(err) {
		return err
	}
	if len(next) == 0 || next[0] != quote {
		return nil
	}
	_, _ = s.in.Discard(1)
	return s.quoted(quote, escapes)
}

// dollar takes a $, which may open a dollar-quoted string.
func (s *Scanner) dollar() error {
	text := s.text.Bytes()
	if len(text) > 0 && isIdent(text[len(text)-1]) {
		return s.add('$')
	}
	ahead, err := s.in.Peek(128)
	if err != nil && !Ended(err) {
		return err
	}
	tag := dollarTag("$" + string(ahead))
	if tag == "" {
		return s.add('$')
	}
	line := s.line
	s.text.WriteString(tag)
	_, _ = s.in.Discard(len(tag) - 1)
	body := s.text.Len()
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return cutInside(err, "a dollar-quoted string", line)
		}
		if err := s.add(c); err != nil {
			return err
		}
		if c == '$' && bytes.HasSuffix(s.text.Bytes()[body:], []byte(tag)) {
			return nil
		}
	}
}

// Rows reads the rows of the COPY that Next returned last, up to the line \. that ends them. A script that ends
// before it is ErrCut.
func (s *Scanner) Rows() io.Reader { return &rows{s: s, start: true} }

type rows struct {
	s     *Scanner
	rest  []byte
	start bool // of a line
}

func (r *rows) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *rows) fill() error {
	if !r.s.inRows {
		return io.EOF
	}
	piece, err := r.s.in.ReadSlice('\n') // or a buffer full of a longer line
	if r.start && (string(piece) == "\\.\n" || string(piece) == "\\.\r\n" || Ended(err) && string(piece) == `\.`) {
		r.s.inRows = false
		r.s.line++
		return io.EOF
	}
	if Ended(err) {
		return cutInside(err, "the rows of a COPY", r.s.line)
	}
	r.start = err == nil
	if r.start {
		r.s.line++
		err = nil
	} else if len(piece) > 0 {
		err = nil
	}
	r.rest = piece
	return err
}

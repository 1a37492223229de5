package mydump

import (
	"fmt"
	"strings"
)

// dash takes a byte that may begin a comment, or end one that holds code.
func (s *Scanner) dash(c byte) (taken bool, err error) {
	next, err := s.in.Peek(3)
	if err != nil && !Ended(err) && len(next) < 3 {
		return false, err
	}
	switch {
	case len(next) == 0:
	case c == '-' && next[0] == '-' && (len(next) == 1 || isSpace(next[1])):
		return true, s.lineComment("-")
	case c == '/' && next[0] == '*':
		return true, s.comment(next)
	case c == '*' && next[0] == '/' && s.conditional:
		s.conditional = false
		_, _ = s.in.Discard(1)
		return true, s.addAll("*/")
	}
	return false, nil
}

// comment takes a comment whose slash was read. One with an exclamation mark is code for servers from a version on. Before
// a statement a comment is no part of it.
func (s *Scanner) comment(next []byte) error {
	if isConditional(next) && !s.neverCode() {
		if s.conditional {
			return fmt.Errorf("line %d: a conditional comment stands in another", s.line)
		}
		s.conditional = true
		_, _ = s.in.Discard(1)
		return s.addAll("/*")
	}
	line, keep := s.line, s.size > 0
	if keep {
		if err := s.addAll("/*"); err != nil {
			return err
		}
	}
	_, _ = s.in.Discard(1)
	for last := byte(0); ; {
		c, err := s.in.ReadByte()
		if err != nil {
			return cutInside(err, "a comment", line)
		}
		if !keep {
			s.countLine(c)
		} else if err := s.add(c); err != nil {
			return err
		}
		if last == '*' && c == '/' {
			return nil
		}
		last = c
	}
}

// isConditional tells /*! and /*M! by what stands behind the slash.
func isConditional(next []byte) bool {
	return len(next) > 1 && next[1] == '!' || len(next) > 2 && next[1] == 'M' && next[2] == '!'
}

// neverCode tells a conditional comment that no server takes: mariadb-dump speaks to its client program that way.
func (s *Scanner) neverCode() bool {
	const longest = len("*M!999999")
	ahead, _ := s.in.Peek(longest)
	return len(Tokens(append(append([]byte("/"), ahead...), "x"...))) == 0
}

// lineComment takes a comment whose first byte was read. It is kept within a statement: a routine's body is kept by the
// server as it stands.
func (s *Scanner) lineComment(first string) error {
	inside := s.size > 0
	line := s.line
	text, err := "", error(nil)
	if inside {
		text, err = s.restOfLine(MaxStatement)
	} else {
		text, err = s.restOfLine(256)
	}
	if err != nil && !Ended(err) {
		return err
	}
	if inside {
		s.line = line // add counts
		if err := s.addAll(first + text + "\n"); err != nil {
			return err
		}
		if Ended(err) {
			s.line = line
		}
		return nil
	}
	s.end.comment(first + text)
	return nil
}

func (e *ending) comment(text string) {
	switch {
	case strings.HasPrefix(text, "-- MariaDB dump"), strings.HasPrefix(text, "-- MySQL dump"), strings.HasPrefix(text, headerPrefix):
		e.dumped = true
	case strings.HasPrefix(text, "-- Dump completed"):
		e.complete = true
	}
}

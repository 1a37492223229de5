package mongoarchive

import (
	"bytes"
	"errors"
	"io"
)

// ErrPreludeRead ends the program that writes an archive of which only the prelude is wanted.
var ErrPreludeRead = errors.New("the prelude was read")

// maxPrelude bounds what is kept of an archive that is none.
const maxPrelude = 1 << 30

// PreludeWriter is written an archive, and parses its prelude.
type PreludeWriter struct {
	Prelude Prelude
	// Rest takes what follows the prelude. Without it, ErrPreludeRead is returned there.
	Rest io.Writer
	// Accept is asked before anything goes to Rest.
	Accept func(Prelude) error

	head bytes.Buffer
	done bool
}

func (w *PreludeWriter) Write(b []byte) (int, error) {
	if w.done {
		return w.Rest.Write(b)
	}
	w.head.Write(b)
	if w.head.Len() > maxPrelude {
		return 0, errors.New("the archive has no end of its prelude")
	}
	if !bytes.Contains(w.head.Bytes(), []byte{0xff, 0xff, 0xff, 0xff}) {
		return len(b), nil
	}
	r, err := NewReader(bytes.NewReader(w.head.Bytes()))
	if errors.Is(err, ErrCut) {
		return len(b), nil
	}
	if err != nil {
		return 0, err
	}
	w.done, w.Prelude = true, r.Prelude
	if w.Rest == nil {
		return 0, ErrPreludeRead
	}
	if err := w.Accept(r.Prelude); err != nil {
		return 0, err
	}
	if _, err := w.Rest.Write(w.head.Bytes()[r.offset:]); err != nil {
		return 0, err
	}
	return len(b), nil
}

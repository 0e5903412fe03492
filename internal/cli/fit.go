package cli

import (
	"golang.org/x/term"
)

// A terminal has so many columns, and a line that is longer wraps: a table of such lines is hard to
// read. On one that is too narrow for it a table has less in it, of what is needed least. What goes to a
// file or another program is whole.

// columns is how many characters a line of the terminal takes that standard output is; 0: it is none, or
// does not say.
func (a *app) columns() int {
	f, ok := a.terminal()
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// shape is what a table has in it.
type shape struct {
	brief brevity
	omit  []string // columns
}

// brevity is how short the words of a table are.
type brevity int

const (
	wordy    brevity = iota
	distance         // of an instant how far it is off, and not when it is
	bare             // that, and of a holder nothing but its name
)

// fit makes a table in the first of the shapes whose lines are not longer than so many characters, and in
// the last if all are. 0: they may be of any length.
func fit(columns int, shapes []shape, build func(brevity) *table) (t *table) {
	for _, s := range shapes {
		t = build(s.brief)
		t.omit(s.omit...)
		if columns <= 0 || t.width() <= columns {
			break
		}
	}
	return t
}

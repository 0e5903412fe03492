package ledger

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxBy bounds each part of a [By], in bytes. Every heartbeat of every host brings them, and
// they are to fit on a line.
const maxBy = 200

// By says who steers and why. It is kept with what was done, and shown to whoever asks.
type By struct {
	Who string `json:"who"`
	Why string `json:"why"` // "": no reason was given
}

// String is "WHO: WHY", or who alone.
func (b By) String() string {
	if b.Why == "" {
		return b.Who
	}
	return b.Who + ": " + b.Why
}

// ByError says which part of a [By] cannot be kept.
type ByError struct {
	Part    string // "who" or "why"
	Problem string // what is wrong with it
}

func (e *ByError) Error() string { return "ledger: " + e.Part + ": " + e.Problem }

// Check tells whether b can be kept: the error is nil or a [*ByError]. Each part is UTF-8 of at
// most 200 bytes, all of it printable: it ends up in terminals and in logs, where an escape
// sequence would do something and a character that turns the direction of writing would lie.
func (b By) Check() error {
	for _, part := range []struct{ name, text string }{{"who", b.Who}, {"why", b.Why}} {
		if problem := problemOf(part.text); problem != "" {
			return &ByError{Part: part.name, Problem: problem}
		}
	}
	return nil
}

func problemOf(s string) string {
	if len(s) > maxBy {
		return fmt.Sprintf("%d bytes are above the limit of %d", len(s), maxBy)
	}
	if !utf8.ValidString(s) {
		return "it is not UTF-8"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Sprintf("the character %U cannot be printed", r)
		}
	}
	return ""
}

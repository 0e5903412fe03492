package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// table is text in columns, for people. What is in its cells may come from Redis, and so from
// anybody: it is shown by [plain].
type table struct {
	rows     [][]string // the header first, if it has one
	coloured int        // the column whose words have colours; -1: none
	omitted  []int      // columns that are not shown
}

// newTable begins a table with its header. The colour goes to the column of that name, if
// colour is set at all.
func newTable(colour bool, colouredColumn string, header ...string) *table {
	t := &table{coloured: -1}
	if colour {
		t.coloured = slices.Index(header, colouredColumn)
	}
	if len(header) > 0 {
		t.row(header...)
	}
	return t
}

func (t *table) row(cells ...string) {
	shown := make([]string, len(cells))
	for i, c := range cells {
		shown[i] = plain(c)
	}
	t.rows = append(t.rows, shown)
}

// omit leaves out columns, by their names in the header.
func (t *table) omit(names ...string) {
	for _, name := range names {
		t.omitted = append(t.omitted, slices.Index(t.rows[0], name))
	}
}

// gap is between two columns.
const gap = 2

// width is how many characters its longest line has.
func (t *table) width() int {
	var columns []int
	for _, cells := range t.rows {
		for i, c := range cells {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			if !slices.Contains(t.omitted, i) {
				columns[i] = max(columns[i], utf8.RuneCountInString(c))
			}
		}
	}
	longest, end := 0, 0
	for i, n := range columns {
		if !slices.Contains(t.omitted, i) {
			longest, end = end+n, end+n+gap
		}
	}
	return longest
}

// WriteTo writes the table without blanks at the ends of its lines.
func (t *table) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer
	columns := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	for _, cells := range t.rows {
		first := true
		for i, c := range cells {
			if slices.Contains(t.omitted, i) {
				continue
			}
			if !first {
				fmt.Fprint(columns, "\t")
			}
			first = false
			if i == t.coloured {
				// Every cell of the column is this much longer, so they stay aligned (ECMA-48, SGR).
				c = "\x1b[3" + colourOf(c) + "m" + c + "\x1b[39m"
			}
			fmt.Fprint(columns, c)
		}
		fmt.Fprint(columns, "\n")
	}
	if err := columns.Flush(); err != nil {
		return 0, err
	}
	var out strings.Builder
	for line := range strings.Lines(text.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	n, err := io.WriteString(w, out.String())
	return int64(n), err
}

// colourOf is the digit of a word's colour: green, red, yellow, cyan, or the terminal's own.
func colourOf(word string) string {
	switch word {
	case "ok", "succeeded":
		return "2"
	case "failed", "timed_out", "lost", "no host", "future":
		return "1"
	case "skipped", "missed", "cancelled", "interrupted", "paused", "draining", "drained", "other table":
		return "3"
	case "running", "waiting":
		return "6"
	}
	return "9"
}

// plain is s without anything that is no visible character: what would end a cell or a line,
// move the cursor, or turn the direction of writing.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == ' ' || unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// terminal returns standard output if it is a terminal that can be written to freely.
func (a *app) terminal() (*os.File, bool) {
	f, ok := a.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || a.env("TERM") == "dumb" {
		return nil, false
	}
	return f, true
}

// colours tells whether the answer may have them (no-color.org).
func (a *app) colours() bool {
	_, ok := a.terminal()
	return ok && a.env("NO_COLOR") == ""
}

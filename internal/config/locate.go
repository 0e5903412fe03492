package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Bounds of a file's shape. The decoder calls itself for each level of an array, until the stack
// is full and the process ends, which nothing can recover; and for each part of a key it looks
// at all parts before it. Both are far above what any key needs; maxNesting is far above also
// what brackets that somebody forgot to close add up to.
const (
	maxNesting   = 1000
	maxPathParts = 16
	maxPathBytes = 1 << 10
)

// spot is where a key stands.
type spot struct {
	line    int
	header  bool // in a [header] of its own
	implied bool // only keys below it stand in the file, this is the first of them
}

// locate finds every key in a text of TOML, by its [toml.Key.String]; of one that stands there
// several times, as an array of tables does, the first. It stops at a bound that the text breaks.
//
// The decoder knows where the keys are and keeps it to itself. It tells a position only in an
// error, and splits the whole file for each of them, which takes seconds where every job of
// a large table has a fault. This walk is no second opinion on what is valid: it makes something
// of any text, and is right where the decoder takes it.
func locate(text string) (map[string]spot, *syntaxFault) {
	w := walker{text: text, line: 1, spots: make(map[string]spot)}
	w.walk()
	return w.spots, w.broken
}

// walker is at one byte of a text. Whatever that is, each method goes on from it or leaves it to
// its caller, which does.
type walker struct {
	text   string
	pos    int
	line   int
	spots  map[string]spot
	broken *syntaxFault // the first bound that was broken; the walk ends there
}

// hold ends the walk if n is above a bound.
func (w *walker) hold(n, most int, what string) {
	if n > most && w.broken == nil {
		w.broken = &syntaxFault{line: w.line, problem: problem{text: fmt.Sprintf(what, most)}}
	}
}

func (w *walker) walk() {
	var table []string
	for w.blank("\n"); w.pos < len(w.text) && w.broken == nil; w.blank("\n") {
		if line := w.line; w.peek() == '[' {
			w.pos++
			if w.peek() == '[' {
				w.pos++
			}
			table = w.key(nil)
			w.put(table, spot{line: line, header: true})
		} else {
			w.pair(table, 0)
		}
		w.until("\n") // a comment; after what is no TOML, anything
	}
}

// pair is a key and its value, below path.
func (w *walker) pair(path []string, depth int) {
	path = w.key(path)
	if w.peek() != '=' {
		return
	}
	w.pos++
	w.blank("")
	w.put(path, spot{line: w.line})
	w.value(path, depth)
}

// value skips a value. The keys of inline tables are below path, which is the same for all
// elements of an array.
func (w *walker) value(path []string, depth int) {
	w.hold(depth, maxNesting, "brackets stand more than %d deep")
	open := w.peek()
	switch open {
	case '"', '\'':
		w.quoted()
		return
	case '[', '{':
		w.pos++
	default: // dates may hold a blank
		w.until(",]}#\n")
		return
	}
	for {
		w.blank("\n,")
		if w.pos == len(w.text) || w.broken != nil {
			return
		}
		before := w.pos
		switch c := w.peek(); {
		case c == ']' || c == '}':
			w.pos++
			return
		case open == '[':
			w.value(path, depth+1)
		default:
			w.pair(path, depth+1)
		}
		if w.pos == before {
			w.pos++
		}
	}
}

// key reads a key, dotted or not, and returns it below path.
func (w *walker) key(path []string) []string {
	path = slices.Clip(path)
	size := 0
	for _, part := range path {
		size += len(part)
	}
	for {
		w.blank("")
		part := ""
		if c := w.peek(); c == '"' || c == '\'' {
			part = unquoted(w.quoted())
		} else {
			part = w.until(" \t.=[]{},#\"'\n")
		}
		path = append(path, part)
		size += len(part)
		w.hold(len(path), maxPathParts, "a key has more than %d parts")
		w.hold(size, maxPathBytes, "a key has more than %d bytes")
		w.blank("")
		if w.peek() != '.' || w.broken != nil {
			return path
		}
		w.pos++
	}
}

// quoted skips a string of any of the four kinds, and returns it as it stands.
func (w *walker) quoted() string {
	start := w.pos
	quote := w.text[start : start+1]
	long := strings.HasPrefix(w.text[start:], strings.Repeat(quote, 3))
	if long {
		quote = strings.Repeat(quote, 3)
	}
	w.pos += len(quote)
	for w.pos < len(w.text) {
		switch c := w.text[w.pos]; {
		case strings.HasPrefix(w.text[w.pos:], quote):
			w.pos += len(quote)
			// The last two quotes inside may stand right before those that end it (TOML 1.0, "String").
			for range 2 {
				if long && w.peek() == quote[0] {
					w.pos++
				}
			}
			return w.text[start:w.pos]
		case c == '\n' && !long: // it never ends
			return w.text[start:w.pos]
		case c == '\\' && quote[0] == '"' && w.pos+1 < len(w.text) && w.text[w.pos+1] != '\n':
			w.pos++
		case c == '\n':
			w.line++
		}
		w.pos++
	}
	return w.text[start:w.pos]
}

// blank skips blanks, what else may stand between two things of a kind, and then comments too.
func (w *walker) blank(between string) {
	for w.pos < len(w.text) {
		switch c := w.text[w.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
		case c == '#' && between != "":
			w.until("\n")
			continue
		case strings.IndexByte(between, c) < 0:
			return
		case c == '\n':
			w.line++
		}
		w.pos++
	}
}

// until skips to the next of the bytes, or to the end, and returns what it skipped. It does not
// pass a line end.
func (w *walker) until(bytes string) string {
	start := w.pos
	n := strings.IndexAny(w.text[start:], bytes)
	if n < 0 {
		n = len(w.text) - start
	}
	w.pos += n
	return w.text[start:w.pos]
}

// peek is the byte that comes next, 0 at the end.
func (w *walker) peek() byte {
	if w.pos == len(w.text) {
		return 0
	}
	return w.text[w.pos]
}

// put notes where the key at path stands, and that the tables it is in are not without one.
func (w *walker) put(path []string, at spot) {
	name := toml.Key(path).String()
	if old, ok := w.spots[name]; !ok || old.implied {
		w.spots[name] = at
	}
	for n := len(path) - 1; n > 0; n-- {
		name := toml.Key(path[:n]).String()
		if _, ok := w.spots[name]; ok {
			return
		}
		w.spots[name] = spot{line: at.line, implied: true}
	}
}

// unquoted is what a quoted key says. Escapes are left to the decoder: there is hardly ever one.
func unquoted(key string) string {
	if strings.Contains(key, `\`) && key[0] == '"' {
		if v, err := decode("key = " + key); err == nil {
			s, _ := v["key"].(string)
			return s
		}
	}
	return strings.Trim(key, key[:1])
}

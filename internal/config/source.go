package config

import (
	"errors"
	"strings"

	"github.com/BurntSushi/toml"
)

// source is one file of a table, decoded without any idea of what it should hold: the
// decoder stops at the first value that does not fit a Go type, and it matches the keys of
// structs regardless of case.
type source struct {
	name  string // as it is shown
	root  map[string]any
	spots map[string]spot // of every key in root
	torn  bool            // parts are missing for their syntax: nothing may be concluded from what is not there
}

// decode reads text as TOML. The error is a [toml.ParseError], or says that the decoder itself
// failed: it panics on what it takes for its own faults, and a daemon that reads its table
// again must outlive that. What it would not outlive has to be kept from it: see locate.
func decode(text string) (root map[string]any, err error) {
	defer func() {
		if recover() != nil {
			root, err = nil, errors.New("config: the TOML decoder failed")
		}
	}()
	root = make(map[string]any)
	if _, err := toml.Decode(text, &root); err != nil {
		return nil, err
	}
	return root, nil
}

// line is the line on which the value at path begins, that of its header for a table, and
// that of its first key for a table that has no header. For a key that should be there and is not,
// it is that of its table. It is 0 for the empty path.
func (s *source) line(path []string) int {
	for n := len(path); n > 0; n-- {
		if at, ok := s.spots[toml.Key(path[:n]).String()]; ok {
			return at.line
		}
	}
	return 0
}

// lineOf is the line of a value or of a [header], 0 if there is neither at path.
func (s *source) lineOf(path []string) int {
	at := s.spots[toml.Key(path).String()]
	if at.implied {
		return 0
	}
	return at.line
}

// header tells whether the value at path is a table with a [header] of its own line, as opposed
// to an inline table and to dotted keys.
func (s *source) header(path []string) bool { return s.spots[toml.Key(path).String()].header }

// lineAt turns an offset of the decoder into a line. The decoder's own line is that of a value's
// end.
func lineAt(text string, offset int) int {
	return 1 + strings.Count(text[:min(max(0, offset), len(text))], "\n")
}

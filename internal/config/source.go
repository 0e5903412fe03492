package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// source is one file of a table, decoded without any idea of what it should hold: the
// decoder stops at the first value that does not fit a Go type, and it matches the keys of
// structs regardless of case.
type source struct {
	name string // as it is shown
	text string // what was decoded
	root map[string]any
	torn bool // parts are missing for their syntax: nothing may be concluded from what is not there

	meta   toml.MetaData
	raw    map[string]toml.Primitive            // root again, each value with its place
	tables map[string]map[string]toml.Primitive // the tables below raw that were asked for
	lines  []int                                // offsets at which the lines begin
}

// decode reads text as TOML. The error is a [toml.ParseError], or says that the decoder itself
// failed: it panics on what it takes for its own faults, and a daemon that reads its table
// again must outlive that.
func decode(name, text string) (src *source, err error) {
	defer func() {
		if recover() != nil {
			src, err = nil, errors.New("config: the TOML decoder failed")
		}
	}()
	src = &source{name: name, text: text}
	if src.meta, err = toml.Decode(text, &src.raw); err != nil {
		return nil, err
	}
	src.root = make(map[string]any, len(src.raw))
	for k, p := range src.raw {
		var v any
		if err := src.meta.PrimitiveDecode(p, &v); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		src.root[k] = v
	}
	return src, nil
}

// line is the line on which the value at path begins, that of its header for a table, and
// that of its first key for a table that has no header. It is 0 for the empty path.
//
// The decoder keeps positions to itself and uses them only for the error of a value that
// refuses to be decoded. So the value at path, and no other, is decoded into one that does.
func (s *source) line(path []string) int {
	if len(path) == 0 || s.raw == nil {
		return 0
	}
	if n := s.lineOf(path); n > 0 {
		return n
	}
	for _, key := range s.meta.Keys() {
		if len(key) > len(path) && slices.Equal(path, key[:len(path)]) {
			if n := s.lineOf(key); n > 0 {
				return n
			}
		}
	}
	// A key that should be there and is not, or one inside an array: its table's line.
	return s.line(path[:len(path)-1])
}

// lineOf is the line of a value or of a [header], 0 if there is neither at path.
func (s *source) lineOf(path []string) int {
	last := len(path) - 1
	value, ok := s.table(path[:last])[path[last]]
	if !ok {
		return 0
	}
	err := s.meta.PrimitiveDecode(value, refuser{})
	if pe, ok := errors.AsType[toml.ParseError](err); ok && pe.Position.Line > 0 {
		return s.lineAt(pe.Position.Start)
	}
	return 0
}

// table is the table at path, nil if there is none. It is kept: that of a thousand jobs takes
// long to decode, and all of them may be at fault.
func (s *source) table(path []string) map[string]toml.Primitive {
	if len(path) == 0 {
		return s.raw
	}
	name := toml.Key(path).String()
	if t, ok := s.tables[name]; ok {
		return t
	}
	var t map[string]toml.Primitive
	if value, ok := s.table(path[:len(path)-1])[path[len(path)-1]]; ok {
		if err := s.meta.PrimitiveDecode(value, &t); err != nil {
			t = nil
		}
	}
	if s.tables == nil {
		s.tables = make(map[string]map[string]toml.Primitive)
	}
	s.tables[name] = t
	return t
}

// lineAt turns an offset into a line. The decoder's own line is that of a value's end.
func (s *source) lineAt(offset int) int {
	if s.lines == nil {
		s.lines = []int{0}
		for i := range len(s.text) {
			if s.text[i] == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	i, found := slices.BinarySearch(s.lines, offset)
	if found {
		i++
	}
	return max(1, i)
}

// header tells whether the value at path is a table with a [header] of its own line, as opposed
// to an inline table and to dotted keys.
func (s *source) header(path []string) bool {
	n := s.lineOf(path)
	if n == 0 {
		return false
	}
	rest := s.text[s.lines[n-1]:]
	line, _, _ := strings.Cut(rest, "\n")
	return strings.HasPrefix(strings.TrimSpace(line), "[")
}

// refuser is a value that cannot be decoded.
type refuser struct{}

var errRefused = errors.New("config: refused")

func (refuser) UnmarshalTOML(any) error { return errRefused }

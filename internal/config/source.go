package config

import (
	"bytes"
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

	meta  toml.MetaData
	raw   map[string]toml.Primitive // root again, each value with its place
	lines []int                     // offsets at which the lines begin
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

func (s *source) lineOf(path []string) int {
	table := s.raw
	for i, name := range path {
		value, ok := table[name]
		if !ok {
			return 0
		}
		if i == len(path)-1 {
			err := s.meta.PrimitiveDecode(value, refuser{})
			if pe, ok := errors.AsType[toml.ParseError](err); ok && pe.Position.Line > 0 {
				return s.lineAt(pe.Position.Start)
			}
			return 0
		}
		table = nil
		if err := s.meta.PrimitiveDecode(value, &table); err != nil {
			return 0
		}
	}
	return 0
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

// checkEncoding reports what the decoder would accept or name badly: TOML is UTF-8 and its
// lines end in LF or CRLF (TOML 1.0, "Spec" and "Comment"). It returns text without a byte
// order mark.
func checkEncoding(text []byte) (string, int, problem) {
	const mark = "\xef\xbb\xbf"
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return "", 1, problem{"is UTF-16", "save the file as UTF-8"}
	}
	s := strings.TrimPrefix(string(text), mark)
	if strings.HasPrefix(s, mark) {
		return "", 1, problem{"begins with two byte order marks", "save the file as UTF-8 without one"}
	}
	line := 1
	for i, r := range s {
		switch {
		case r == '\n':
			line++
		case r == 0:
			return "", line, problem{"holds a NUL byte", "save the file as UTF-8"}
		case r == '\r' && !strings.HasPrefix(s[i+1:], "\n"):
			return "", line, problem{"holds a carriage return that does not end a line", "end lines with LF or CRLF"}
		case r == '\uFFFD' && !strings.HasPrefix(s[i:], "\uFFFD"):
			return "", line, problem{"holds a byte that is not UTF-8", "save the file as UTF-8; it may be Latin-1"}
		}
	}
	return s, 0, problem{}
}

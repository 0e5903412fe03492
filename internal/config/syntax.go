package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// A file is decoded again without its broken parts for as long as that is quick: these bound
// the faults that are looked for and the bytes that are read for it.
const (
	maxSyntaxFaults = 50
	maxSyntaxBytes  = 16 << 20
)

// parse decodes a file and reports its faults of syntax: all of them as far as that can be
// told, because the decoder stops at the first. What stands around it is cut out, and the rest
// is decoded again and marked as torn.
//
// The source is never nil; it is empty if nothing could be decoded.
func parse(rep *report, name string, text []byte) *source {
	broken := &source{name: name, torn: true}
	// There is no source yet that could tell a place.
	fault := func(line int, key string, pr problem) {
		rep.faults = append(rep.faults, Fault{File: name, Line: line, Key: key, Problem: pr.text, Hint: pr.hint})
	}
	s, line, pr := checkEncoding(text)
	if pr.text != "" {
		fault(line, "", pr)
		return broken
	}
	if strings.HasPrefix(strings.TrimSpace(s), "{") {
		fault(1, "", problem{"this is JSON, not TOML", "write tables as [name] and values as key = value"})
		return broken
	}

	lines := strings.Split(s, "\n")
	src, bad := attempt(lines)
	torn := bad != nil
	for n := 1; bad != nil; n++ {
		last := bad
		lines, src, bad = without(lines, last)
		fault(last.line, last.key, last.problem)
		if lines == nil || n > maxSyntaxFaults || n*len(s) > maxSyntaxBytes {
			return broken
		}
	}
	src.name, src.torn = name, torn
	return src
}

// syntaxFault is where the decoder gave up, in our words.
type syntaxFault struct {
	line  int
	key   string
	twice bool // what stands there is well formed, but was said before
	problem
}

// attempt decodes lines as a whole, or says in our words why that fails. The decoder's Line is that
// of the end of what it read, its Start never is.
func attempt(lines []string) (*source, *syntaxFault) {
	text := strings.Join(lines, "\n")
	spots, bad := locate(text)
	if bad != nil {
		return nil, bad
	}
	root, err := decode(text)
	if err == nil {
		return &source{root: root, spots: spots}, nil
	}
	pe, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return nil, &syntaxFault{problem: problem{text: "is not valid TOML"}}
	}
	bad = &syntaxFault{key: pe.LastKey, problem: plainly(pe.Message)}
	bad.line = lineAt(text, pe.Position.Start)
	if strings.Contains(pe.Message, "table") && !strings.Contains(pe.Message, "inline") {
		bad.key = "" // it is that of the table before
	}
	if key, ok := strings.CutPrefix(pe.Message, "Key '"); ok {
		bad.key, bad.twice = key[:strings.LastIndexByte(key, '\'')], true
		if n := firstLike(lines, bad.line); n > 0 {
			bad.hint = fmt.Sprintf("the first is on line %d", n)
		}
	}
	return nil, bad
}

// These see lines and no strings or arrays of several: what they take for a header may be part of
// one. The price is a fault too many or too few after the first; a file with one is refused anyway.
var (
	headerLine = regexp.MustCompile(`^\s*\[\[?[^\[\]=,#]+\]\]?\s*(#.*)?$`)
	keyLine    = regexp.MustCompile(`^\s*[A-Za-z0-9_."'-]+\s*=`)
)

// without cuts out of lines what most likely caused bad, as little as decodes better than
// before, and decodes the rest. It rewords bad if what is wrong stands elsewhere. It returns no
// lines if nothing helps: then something that opened further up, as a string of several lines,
// has swallowed what follows.
func without(lines []string, bad *syntaxFault) ([]string, *source, *syntaxFault) {
	if bad.line == 0 {
		return nil, nil, nil
	}
	from, to := section(lines, bad.line)
	elsewhere := func(next *syntaxFault) bool { return next.line <= from || next.line > to || next.twice }
	type span struct {
		from, to int
		better   func(next *syntaxFault) bool
	}
	moved := func(next *syntaxFault) bool { return next.line != bad.line }
	var spans []span // from the smallest cut to the largest
	line := lines[bad.line-1]
	header := headerLine.MatchString(line)
	switch {
	case header || !keyLine.MatchString(line):
	case strings.ContainsAny(line, "[{") || strings.Contains(line, `"""`) || strings.Contains(line, "'''"):
		spans = append(spans, span{bad.line - 1, bad.line, elsewhere})
	default: // it stands on one line, whole
		spans = append(spans, span{bad.line - 1, bad.line, moved})
	}
	if header && !bad.twice && from > 0 {
		// A header is rarely wrong itself: the array before it is still open.
		before, _ := section(lines, from)
		spans = append(spans, span{before, from, moved})
	}
	spans = append(spans, span{from, to, moved})

	for _, sp := range spans {
		rest := slices.Clone(lines)
		for i := sp.from; i < sp.to; i++ {
			rest[i] = "" // and not deleted, so that the lines after it keep their numbers
		}
		if src, next := attempt(rest); next == nil || sp.better(next) {
			if sp.to < bad.line {
				bad.problem = problem{"an array or inline table above this header does not end", "close its bracket"}
			}
			return rest, src, next
		}
	}
	return nil, nil, nil
}

// section is the range of lines, from 0 and half open, of the table that line n, from 1, is in.
func section(lines []string, n int) (from, to int) {
	from, to = n-1, n
	for from > 0 && !headerLine.MatchString(lines[from]) {
		from--
	}
	for to < len(lines) && !headerLine.MatchString(lines[to]) {
		to++
	}
	return from, to
}

// firstLike is the line, from 1, before line n that says the same table or, in its own table,
// the same key; 0 if they are spelt differently.
func firstLike(lines []string, n int) int {
	name := func(line string) string {
		name, _, _ := strings.Cut(line, "=")
		name, _, _ = strings.Cut(name, "#")
		return strings.Join(strings.Fields(name), "")
	}
	from := 0
	if !headerLine.MatchString(lines[n-1]) {
		from, _ = section(lines, n)
	}
	for i := from; i < n-1; i++ {
		if name(lines[i]) == name(lines[n-1]) {
			return i + 1
		}
	}
	return 0
}

// plainly puts a message of the decoder into words of ours. Its own quote what they found, and
// that may be half a password.
func plainly(message string) problem {
	for _, m := range []struct {
		has string
		is  problem
	}{
		{"already been defined", problem{text: "is defined twice"}},
		{"already created", problem{text: "is both a table and a value"}},
		{"is not a table", problem{text: "is both a table and a value"}},
		{`string '\%`, problem{`\% is no escape in a string`, "that is crontab's way to write %; here write % alone"}},
		{"escape", problem{"a string holds an escape that there is none of", `double each backslash, or use '…'`}},
		{"hexadecimal digits", problem{"a string holds an escape that there is none of", `double each backslash, or use '…'`}},
		{"cannot contain newlines", problem{"a string does not end on its line", `close it, or use """…"""`}},
		{`EOF; expected "'''"`, problem{text: "a string opened with ''' never ends"}},
		{`EOF; expected '"""'`, problem{text: `a string opened with """ never ends`}},
		{"end of file", problem{text: "the file ends inside an array or an inline table"}},
		{"item to end with a newline", problem{text: "something follows the value on its line"}},
		{"EOF", problem{text: "the file ends in the middle of a line"}},
		{"found '\\n'", problem{text: "a value is missing"}},
		{"expected value", problem{"what stands here is no value", "a string needs quotes"}},
		{"key separator", problem{text: "a line is neither key = value nor [table]"}},
		{"expected '.' or '='", problem{text: "a line is neither key = value nor [table]"}},
		{"unexpected '='", problem{text: "a key has no name"}},
		{"unexpected '.'", problem{text: "a key begins with a dot, or has two in a row"}},
		{"comma", problem{text: "a comma is missing, or there is one too many"}},
		{"table", problem{text: "the header of a table is malformed"}},
		{"datetime", problem{"is not a valid date", "a string needs quotes"}},
		{"control characters", problem{text: "holds a control character"}},
		{"number", problem{"is not a valid number", "a string needs quotes"}},
		{"integer", problem{"is not a valid number", "a string needs quotes"}},
		{"float", problem{"is not a valid number", "a string needs quotes"}},
		{"digit", problem{"is not a valid number", "a string needs quotes"}},
		{"int64", problem{text: "is too large a number"}},
	} {
		if strings.Contains(message, m.has) {
			return m.is
		}
	}
	return problem{text: "is not valid TOML"}
}

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Fault is one thing that is wrong with a table.
//
// No field ever holds a secret: faults of a key that can carry one name the key and the
// rule it breaks, never the value.
type Fault struct {
	File    string // as it was opened, relative if the config's path was
	Line    int    // from 1; 0 if the fault has no line
	Key     string // dotted, quoted as in TOML; "" for a fault of the whole file
	Problem string // lower case, no full stop
	Hint    string // what to write instead; "" if there is no better idea
}

// Error is one line: "file:line: key: problem; hint". Parts that are not known are left out, and
// what a terminal would not print as it is comes escaped.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Key != "" {
		b.WriteString(": " + f.Key)
	}
	b.WriteString(": " + f.Problem)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return printable(b.String())
}

// Faults is everything that is wrong with a table, over all its files. [Load] returns it as
// its error, and never with an empty list.
type Faults struct {
	All []Fault // by file in the order of reading, then by line
}

// Error is one line a fault, in the form of [Fault.Error].
func (f *Faults) Error() string {
	lines := make([]string, len(f.All))
	for i, fault := range f.All {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one, for [errors.AsType].
func (f *Faults) Unwrap() []error {
	errs := make([]error, len(f.All))
	for i, fault := range f.All {
		errs[i] = fault
	}
	return errs
}

// report collects what is said of a table while it is read. A nil report discards, for the
// second look at values whose faults were reported before.
type report struct {
	faults   []Fault
	warnings []Fault

	all []key // see settings
}

// settings are all keys there are, to look names up in. They are made once: every key of a file may
// be unknown.
func (r *report) settings() []key {
	if r.all == nil {
		r.all = newLoader(environment{}).settings()
	}
	return r.all
}

// place is where a value stands: its file and its path of keys.
type place struct {
	rep  *report
	src  *source
	path []string
}

// in is the place of a key in the table at p.
func (p place) in(name string) place {
	p.path = append(slices.Clip(p.path), name)
	return p
}

// silent is p with nobody listening.
func (p place) silent() place {
	p.rep = nil
	return p
}

// problem is a fault that does not know its place yet. The zero value is none.
type problem struct{ text, hint string }

// fault reports what is wrong here.
func (p place) fault(pr problem) {
	if p.rep != nil {
		p.rep.faults = append(p.rep.faults, p.at(pr))
	}
}

// faultf is fault without a hint.
func (p place) faultf(format string, args ...any) {
	p.fault(problem{text: fmt.Sprintf(format, args...)})
}

// warn reports what is allowed and probably not meant.
func (p place) warn(pr problem) {
	if p.rep != nil {
		p.rep.warnings = append(p.rep.warnings, p.at(pr))
	}
}

// at gives a problem its place. The line is looked up only now, since that takes time and most
// values are good.
func (p place) at(pr problem) Fault {
	return Fault{
		File:    p.src.name,
		Line:    p.src.line(p.path),
		Key:     toml.Key(p.path).String(),
		Problem: pr.text,
		Hint:    pr.hint,
	}
}

// arrange sorts faults by file in the order of files, then by line, so that they can be worked
// off with an editor from top to bottom; the rest of the order only has to be the same each time.
// What was reported twice is left once: a warning of the zone that all jobs share, say.
func arrange(faults []Fault, files []string) []Fault {
	rank := make(map[string]int, len(files))
	for i, file := range files {
		rank[file] = i
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(rank[a.File], rank[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Problem, b.Problem),
		)
	})
	return slices.Compact(faults)
}

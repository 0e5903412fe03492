package rota_test

import (
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const termsFile = "docs/terms.md"

// words are those that the design fixes, and that code, logs, docs and help are written in.
func words() []string {
	return []string{
		"fleet", "host", "job", "schedule", "tick", "claim", "lease", "lock", "fencing token",
		"trust deadline", "run", "attempt", "outcome", "record", "cursor", "overlap", "misfire",
		"ledger", "drain", "warden",
		// And those that this code needs besides.
		"table", "definition", "grace", "give back", "manual run", "steering", "pause", "request", "cancel", "heartbeat", "epoch", "cgroup", "limits",
		"stale", "raise", "guarded value", "shadow",
	}
}

// explains tells whether the page has a row of a table for the word, in the markup of a word or
// of a value.
func explains(page, word string) bool {
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[len(cells)-2]) == "" {
			continue
		}
		for _, cell := range cells[:len(cells)-2] {
			if cell = strings.TrimSpace(cell); cell == "**"+word+"**" || cell == "`"+word+"`" {
				return true
			}
		}
	}
	return false
}

func TestTerms_HoldEveryWord(t *testing.T) {
	page, err := os.ReadFile(termsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range words() {
		if !explains(string(page), word) {
			t.Errorf("%s explains no %q", termsFile, word)
		}
	}
}

// A value that users meet in the config, in JSON or in history is a word too. They are read from
// the constants of the code, so that a new one asks for its line.
func TestTerms_HoldEveryValue(t *testing.T) {
	page, err := os.ReadFile(termsFile)
	if err != nil {
		t.Fatal(err)
	}
	sources := tree(t)
	for _, typ := range []string{"Answer", "Outcome", "Scope", "Overlap", "Misfire", "OnCrash", "Kind", "Decided", "Found"} {
		var found int
		for _, s := range sources {
			for _, v := range valuesOf(s, typ) {
				found++
				if !explains(string(page), v) {
					t.Errorf("%s has the value %q, which %s does not explain", s.path, v, termsFile)
				}
			}
		}
		if found < 2 {
			t.Errorf("found %d values of %s: the test looks at the wrong type", found, typ)
		}
	}
}

func TestTerms_MissingWordsAreFound(t *testing.T) {
	const page = "the tick is a word\n\n| word | means |\n|---|---|\n| **host** | a daemon |\n| **run** | |\n| `skip` | `once` | no |\n"
	for word, want := range map[string]bool{
		"host": true, "skip": true, "once": true,
		"tick": false, // in the text, explained nowhere
		"run":  false, // has a row that says nothing
		"no":   false, // an explanation is no word
	} {
		if got := explains(page, word); got != want {
			t.Errorf("explains(page, %q) = %t, want %t", word, got, want)
		}
	}

	s, err := newSource("jobs/a.go", `package jobs
const (
	A          Outcome = "late"
	OutcomeLow         = "low"
	b          Outcome = "inside"
	C          Other   = "of another type"
	D                  = "of no type"
)
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(s, "Outcome"); !slices.Equal(got, []string{"late", "low"}) {
		t.Errorf("valuesOf(%s) = %q, want those that belong to the type and are exported", s.path, got)
	}
}

// valuesOf are the exported string constants in a file that belong to one of the types: declared
// as it, or named after it (OutcomeSkipped).
func valuesOf(s source, types ...string) []string {
	if s.file == nil || s.forTests() {
		return nil
	}
	var values []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		typ, _ := spec.Type.(*ast.Ident)
		for i, v := range spec.Values {
			name := spec.Names[i].Name
			belongs := slices.ContainsFunc(types, func(t string) bool {
				return typ != nil && typ.Name == t || typ == nil && strings.HasPrefix(name, t)
			})
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING && belongs && ast.IsExported(name) {
				if value, err := strconv.Unquote(lit.Value); err == nil && value != "" {
					values = append(values, value)
				}
			}
		}
		return true
	})
	return values
}

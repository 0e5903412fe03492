package rota_test

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logCalls are the methods of a *slog.Logger that take keys, and how many arguments come before
// them.
var logCalls = map[string]int{"With": 0, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3}

// logKeys are the keys of the attributes that a file logs. A call counts as one to a logger if it
// has the name of one and constant strings where keys would be: nothing else here looks so.
func logKeys(s source) map[string]bool {
	keys := map[string]bool{}
	if s.file == nil || s.forTests() {
		return keys
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		before, ok := logCalls[method.Sel.Name]
		if on := exprName(method.X); !ok || !strings.HasSuffix(strings.ToLower(on), "log") && !strings.HasSuffix(strings.ToLower(on), "logger") {
			return true
		}
		for i := before; i < len(call.Args); i += 2 {
			if lit, ok := call.Args[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				key, _ := strconv.Unquote(lit.Value)
				keys[key] = true
			}
		}
		return true
	})
	return keys
}

// exprName is the last name of an expression: log of s.log.
func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// Whoever searches a fleet's logs finds one thing under one key: the keys are a list, which
// CONTRIBUTING has whole.
func TestLogKeys_AreThoseOfTheList(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "with these keys:")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no list of the keys of log lines")
	}
	rest, _, _ = strings.Cut(rest, "\n- ")
	listed := map[string]bool{}
	for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(rest, -1) {
		for key := range strings.FieldsSeq(strings.Trim(code, "`")) {
			listed[key] = true
		}
	}
	used := map[string]bool{}
	for _, s := range tree(t) {
		for key := range logKeys(s) {
			used[key] = true
			if !listed[key] {
				t.Errorf("%s logs under the key %q, which is not in the list of CONTRIBUTING.md", s.path, key)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		if !used[key] {
			t.Errorf("CONTRIBUTING.md lists the key %q, under which nothing is logged", key)
		}
	}
}

func TestLogKeys_AreFound(t *testing.T) {
	s, err := newSource("jobs/a.go", `package jobs
func f() {
	log := s.log.With("job", name)
	log.Warn("said", "err", err, "a_b", "value")
	s.logger.Log(ctx, level, "said", "outcome", x)
	errors.Join("no", "key")
	r.Error("nor", "this")
}
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(logKeys(s))); !slices.Equal(got, []string{"a_b", "err", "job", "outcome"}) {
		t.Errorf("logKeys(%s) = %q, want those of the calls to loggers", s.path, got)
	}
}

package rota_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const maxLines = 600 // above it a file has two ideas

// A houseRule looks at one file. Bad is a made-up file that it must find fault with, good one
// that it must not: a rule that cannot fail is none.
type houseRule struct {
	name      string
	faults    func(source) []string
	bad, good [2]string // path and text
}

func houseRules() []houseRule {
	return []houseRule{
		{
			name:   "files stay short",
			faults: longFile,
			bad:    [2]string{"jobs/a.lua", strings.Repeat("\n", maxLines+1)},
			good:   [2]string{"jobs/a.lua", strings.Repeat("\n", maxLines)},
		},
		{
			name:   "no init functions",
			faults: initFunctions,
			bad:    [2]string{"jobs/a.go", "package jobs\nfunc init() {}\n"},
			good:   [2]string{"jobs/a.go", "package jobs\nfunc (c *Command) init() {}\n"},
		},
		{
			name:   "package names say something",
			faults: emptyNames,
			bad:    [2]string{"internal/util/a.go", "package util\n"},
			good:   [2]string{"internal/status/a.go", "package status\n"},
		},
		{
			name:   "the command is the command line, nothing else",
			faults: fullCommand,
			bad:    [2]string{"cmd/rota/main.go", "package main\nfunc main() { cli.Main() }\n"},
			good:   [2]string{"cmd/rota/main.go", "package main\nimport \"os\"\nfunc main() { os.Exit(cli.Main()) }\n"},
		},
		{
			name:   "a test that may skip asks for CI",
			faults: silentSkips,
			bad:    [2]string{"jobs/a_test.go", "package jobs\nfunc TestA(t *testing.T) { if os.Getuid() != 0 { t.Skip(\"needs root\") } }\n"},
			good: [2]string{"jobs/a_test.go", "package jobs\nfunc TestA(t *testing.T) { " +
				"if os.Getuid() != 0 && os.Getenv(\"CI\") == \"\" { t.Skip(\"needs root\") } }\n"},
		},
	}
}

func TestHouse_Rules(t *testing.T) {
	all := tree(t)
	for _, rule := range houseRules() {
		t.Run(rule.name, func(t *testing.T) {
			for i, sample := range [][2]string{rule.good, rule.bad} {
				s, err := newSource(sample[0], sample[1])
				if err != nil {
					t.Fatal(err)
				}
				if got := rule.faults(s); len(got) != i {
					t.Errorf("%d faults in the sample %s, want %d: %q", len(got), s.path, i, got)
				}
			}
			for _, s := range all {
				for _, fault := range rule.faults(s) {
					t.Errorf("%s: %s", s.path, fault)
				}
			}
		})
	}
}

func longFile(s source) []string {
	if n := strings.Count(s.text, "\n"); n > maxLines {
		return []string{fmt.Sprintf("%d lines, the most is %d: split it by its ideas", n, maxLines)}
	}
	return nil
}

// An init function runs in every program and test that links the package, in an order that no
// caller chose.
func initFunctions(s source) []string {
	var faults []string
	for _, fn := range functions(s) {
		if fn.Recv == nil && fn.Name.Name == "init" {
			faults = append(faults, "has an init function: let a constructor do it")
		}
	}
	return faults
}

func emptyNames(s source) []string {
	if s.file == nil {
		return nil
	}
	name := strings.TrimSuffix(s.file.Name.Name, "_test")
	if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc", "base", "shared"}, name) {
		return []string{fmt.Sprintf("package %q is named after nothing: name it after what it knows", name)}
	}
	return nil
}

// What stands in main cannot be called by a test. So there is one line.
func fullCommand(s source) []string {
	if s.file == nil || !within(s.dir(), "cmd") || s.forTests() {
		return nil
	}
	for _, decl := range s.file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.IMPORT {
			continue
		}
		var text bytes.Buffer
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "main" && len(fn.Body.List) == 1 {
			if err := printer.Fprint(&text, s.fset, fn.Body.List[0]); err != nil {
				return []string{err.Error()}
			}
		}
		if text.String() != "os.Exit(cli.Main())" {
			return []string{"may hold nothing but func main() { os.Exit(cli.Main()) }"}
		}
	}
	return nil
}

// A laptop may lack what a test needs, CI may not: a test that skips there is one that nobody
// runs. Which of the two it is has to be asked where the skip stands.
func silentSkips(s source) []string {
	var faults []string
	for _, fn := range functions(s) {
		skips, asks := 0, false
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isSkip(n) {
					skips++
				}
			case *ast.BasicLit:
				asks = asks || n.Value == `"CI"`
			}
			return true
		})
		if skips > 0 && !asks && s.forTests() {
			faults = append(faults, fmt.Sprintf("%s may skip in CI: it has to look at $CI and fail there", fn.Name.Name))
		}
	}
	return faults
}

// isSkip tells whether a call is that of a testing.TB, by the names that those go by.
func isSkip(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
		return false
	}
	recv, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, recv.Name)
}

// The design is to be learned from `go doc`, and a package without a comment says nothing there.
func TestHouse_EveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, s := range tree(t) {
		if s.file == nil || s.forTests() {
			continue
		}
		dir := path.Dir(s.path)
		said[dir] = said[dir] || s.file.Doc != nil
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("package %s has no package comment: want what it is, what it promises, who owns what", dir)
		}
	}
}

// functions are the declared functions and methods of a file.
func functions(s source) []*ast.FuncDecl {
	var all []*ast.FuncDecl
	if s.file == nil {
		return nil
	}
	for _, decl := range s.file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			all = append(all, fn)
		}
	}
	return all
}

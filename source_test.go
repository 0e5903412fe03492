package rota_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A source is one file of this module, as the rules of the house look at it. What a rule is
// given is made of text alone, so that a made-up violation passes through the same code as the
// real tree.
type source struct {
	path string // relative to the module's root, with slashes
	text string
	fset *token.FileSet
	file *ast.File // nil unless it is Go
}

// newSource parses text as what the ending of name says it is.
func newSource(name, text string) (source, error) {
	s := source{path: name, text: text, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" {
		return s, nil
	}
	file, err := parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	s.file = file
	return s, err
}

// dir is the package's directory, "." for the root.
func (s source) dir() string { return path.Dir(s.path) }

// forTests tells whether the file is part of no binary: a test, a helper of tests, or one of the
// test fleets.
func (s source) forTests() bool {
	return strings.HasSuffix(s.path, "_test.go") || within(s.dir(), "internal/redistest") ||
		within(s.dir(), "internal/sqltest") || within(s.dir(), "test")
}

// imports are the paths that the file imports, in order.
func (s source) imports() []string {
	var paths []string
	if s.file == nil {
		return nil
	}
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// within tells whether dir is root or lies below it.
func within(dir, root string) bool {
	return dir == root || strings.HasPrefix(dir, root+"/")
}

// tree reads every Go and Lua file of this module. It opens the files itself rather than asking
// `go list`: the test cache knows the files that a test opens, but not those that a child process
// reads, and would answer for a tree that has changed since (go help test, on cached results).
func tree(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name)
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".lua" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := newSource(filepath.ToSlash(name), string(text))
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatalf("reading the sources: %v", err)
	}
	if len(all) == 0 {
		t.Fatal("found no sources: the rules would hold for nothing")
	}
	return all
}

// enter leaves out what Go leaves out as well: hidden and underscored directories, test data, and
// modules of their own.
func enter(dir string) error {
	if dir == "." {
		return nil
	}
	base := filepath.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

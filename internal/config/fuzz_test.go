package config

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// FuzzLoad: whatever the main file holds, there is either a table that can be run or a list of
// faults that can be shown, one line each, at a line that the file has.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.toml", "testdata/good/*.toml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, text := range []string{
		"\xef\xbb\xbf", "[", "[[", "a", "a=", "a=[", "a={", "\"\"\"", "=", "[jobs]\n[jobs]", "a.b=1\na=1", "[jobs.a]\n[jobs.a.env]\n",
		"x=\"\\u\"", "[\"\"]\n\"\"=1\n", "a=[[[[", "[jobs.\"\\u001b[31m\"]\n", "include=[\"*\"]", "a = 0x", "a = 1979-05-27T07:32:00Z",
	} {
		f.Add([]byte(text))
	}
	info, err := os.Stat("testdata/good/empty.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := newLoader(plain()).build("rota.toml", text, info)
		if err == nil {
			if table := c.Table(t.Context(), nil); len(table) != len(c.Jobs) || c.TableHash() == "" {
				t.Errorf("build = a config of %d jobs and a table of %d", len(c.Jobs), len(table))
			}
			return
		}
		faults, ok := errors.AsType[*Faults](err)
		if !ok || c != nil || len(faults.All) == 0 {
			t.Fatalf("build = %v, %v, want nil and *Faults", c, err)
		}
		lines := strings.Count(string(text), "\n") + 1
		for _, fault := range faults.All {
			if s := fault.Error(); strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
				t.Errorf("fault %q is not one plain line", s)
			}
			if fault.Problem == "" || fault.Line < 0 || fault.Line > lines {
				t.Errorf("fault %+v, want a problem on one of %d lines", fault, lines)
			}
		}
	})
}

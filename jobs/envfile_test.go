//go:build linux

package jobs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseEnv_Values(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"no line end", "A=1", []string{"A=1"}},
		{"comments and empty lines", "\n# A=1\n  ; B=2\n\t\nC=3 # no comment\n", []string{"C=3 # no comment"}},
		{"blanks around", "  A =\t b c \t\nB=\n C = \n", []string{"A=b c", "B=", "C="}},
		{"the order is kept, twice is twice", "B=1\nA=2\nB=3\n", []string{"B=1", "A=2", "B=3"}},
		{"nothing is expanded", "A=$HOME/~ `id` %h *\n", []string{"A=$HOME/~ `id` %h *"}},
		{"= and quotes inside", `A=b="c"'d'` + "\n", []string{`A=b="c"'d'`}},
		{"escapes", `A=a\ b\\c\"d\$e\n` + "\n", []string{`A=a b\c"d$en`}},
		{"an escaped blank at the end stays", "A=a\\ \nB=b\\  \n", []string{"A=a ", "B=b "}},
		{"joined lines", "A=a\\\n b\\\nc\nB=1\n", []string{"A=a bc", "B=1"}},
		{"a backslash at the very end", `A=a\`, []string{`A=a\`}},
		{"single quotes", "A='a \\ \"b\" $c'\nB=''\n", []string{`A=a \ "b" $c`, "B="}},
		{"single quotes over lines", "A='1\n# 2\n\n3' \nB=1\n", []string{"A=1\n# 2\n\n3", "B=1"}},
		{"double quotes", `A="a \"b\" \\ \$c \` + "`" + ` \n 'd'"` + "\n", []string{`A=a "b" \ $c ` + "`" + ` \n 'd'`}},
		{"double quotes over lines", "A=\"1\n2\\\n3\"\n", []string{"A=1\n23"}},
		{"DOS", "\ufeffA=1\r\nB='2'\r\n\r\nC=3", []string{"A=1", "B=2", "C=3"}},
		{"lower case and digits", "_a9=ü\nhttp_proxy=x\n", []string{"_a9=ü", "http_proxy=x"}},
	} {
		got, err := ParseEnv(c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: ParseEnv(%q) = %q, %v, want %q", c.name, c.text, got, err, c.want)
		}
	}
}

func TestParseEnv_Refuses(t *testing.T) {
	const name = `what stands before the "=" is not the name of a variable`
	for text, want := range map[string]string{
		"A=1\n3cr3t\nB=2\n":   `line 2: it has no "=", and is neither empty nor a comment`,
		"A=1\\\n2\n3cr3t\n":   `line 3: it has no "=", and is neither empty nor a comment`,
		"A='1\n2'\n3cr3t\n":   `line 3: it has no "=", and is neither empty nor a comment`,
		"export A=3cr3t\n":    `line 1: it is shell: leave "export" out`,
		"\n3cr3t=\n":          "line 2: " + name,
		"3cr3t-b=1\n":         "line 1: " + name,
		"=3cr3t\n":            "line 1: " + name,
		"A B=3cr3t\n":         "line 1: " + name,
		"ROTA_JOB=3cr3t\n":    "line 1: variables that begin with ROTA_ are set by Rota alone",
		"A=1\nB='3cr3t\nC=1":  "line 2: its quote is never closed",
		"A=\"3cr3t\\\"\n":     "line 1: its quote is never closed",
		"A='3cr3t'b\n":        "line 1: something follows the closing quote",
		"A=\"3cr3t\" # why\n": "line 1: something follows the closing quote",
		"A=3cr3t\x00\n":       "line 1: it holds a NUL character",
		"A=3cr3t\xff\n":       "not UTF-8",
		strings.Repeat("#3cr3t\n", maxEnvFileBytes/7+1): "larger than 4194304 bytes",
	} {
		got, err := ParseEnv(text)
		if err == nil || err.Error() != want || got != nil {
			t.Errorf("ParseEnv(%.40q) = %q, %v, want %s", text, got, err, want)
		}
	}
}

// Whatever comes, ParseEnv answers; what it takes are variables, and what it says shows nothing.
func FuzzParseEnv(f *testing.F) {
	f.Add("A=1\n# c\nB='x\ny'\nC=\"\\\"\\$\"\nD=a\\\nb")
	f.Add("export A=1")
	f.Fuzz(func(t *testing.T, text string) {
		env, err := ParseEnv(text)
		if err != nil {
			if len(err.Error()) > 100 {
				t.Errorf("ParseEnv(%q) says %v", text, err)
			}
			return
		}
		for _, entry := range env {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || !isVariable(name) || strings.ContainsRune(entry, 0) {
				t.Errorf("ParseEnv(%q) takes %q for a variable", text, entry)
			}
		}
	})
}

func TestReadEnvFile_Files(t *testing.T) {
	good := writeFile(t, "good", "A=1\n", 0o600)
	if env, err := ReadEnvFile(good); err != nil || !slices.Equal(env, []string{"A=1"}) {
		t.Errorf("ReadEnvFile = %q, %v, want A=1", env, err)
	}
	bad := writeFile(t, "bad", "3cr3t\n", 0o600)
	if _, err := ReadEnvFile(bad); err == nil || err.Error() != "read "+bad+`: line 1: it has no "=", and is neither empty nor a comment` {
		t.Errorf("ReadEnvFile of a bad one = %v, want its name and line", err)
	}
	if _, err := ReadEnvFile(good + ".not"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadEnvFile of none = %v, want fs.ErrNotExist", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, os.DevNull, t.TempDir()} {
		if _, err := ReadEnvFile(path); !errors.Is(err, errNotRegular) {
			t.Errorf("ReadEnvFile(%s) = %v, want it refused", path, err)
		}
	}
}

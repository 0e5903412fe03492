package cli

import (
	"regexp"
	"strings"
	"testing"
)

func render(t *testing.T, colour bool) string {
	t.Helper()
	tab := newTable(colour, "STATE", "JOB", "STATE", "REASON")
	tab.row("backup", "failed", "exit code 3")
	tab.row("a-longer-name", "ok", "")
	tab.row("évier", "no host", "x")
	var out strings.Builder
	if _, err := tab.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTable_AlignsAndEndsItsLines(t *testing.T) {
	const want = "JOB            STATE    REASON\n" +
		"backup         failed   exit code 3\n" +
		"a-longer-name  ok\n" +
		"évier          no host  x\n"
	if got := render(t, false); got != want {
		t.Errorf("table:\n%q, want\n%q", got, want)
	}
}

// The escape sequences take no room on the screen, so without them a table with colours is the
// one without.
func TestTable_ColoursDoNotShift(t *testing.T) {
	coloured := render(t, true)
	if !strings.Contains(coloured, "\x1b[31mfailed\x1b[39m") || !strings.Contains(coloured, "\x1b[32mok\x1b[39m") {
		t.Errorf("table %q, want failed in red and ok in green", coloured)
	}
	bare := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured, "")
	var lines []string
	for line := range strings.Lines(bare) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	if got, want := strings.Join(lines, ""), render(t, false); got != want {
		t.Errorf("table without its colours:\n%s\nwant\n%s", got, want)
	}
}

func TestTable_ShowsNothingThatMovesTheCursor(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"words", "exit code 3, été", "exit code 3, été"},
		{"a tab and a line end, which would make cells and rows", "a\tb\nc", "a b c"},
		{"an escape sequence", "a\x1b[2J", "a\uFFFD[2J"},
		{"a carriage return and a bell", "a\r\a", "a\uFFFD\uFFFD"},
		{"a turn of the direction of writing", "a\u202eb", "a\uFFFDb"},
		{"a byte that is no UTF-8", "a\xffb", "a\uFFFDb"},
		{"a C1 control", "a\u009bb", "a\uFFFDb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := plain(tc.in); got != tc.want {
				t.Errorf("plain(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestTable_ColoursOnlyOnATerminal(t *testing.T) {
	var out strings.Builder
	a := &app{stdout: &out, env: func(string) string { return "" }}
	if a.colours() {
		t.Error("colours() is true for a standard output that is no terminal")
	}
}

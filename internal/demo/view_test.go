package demo

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// allLines is everything that can come in a demo, by itself: what the golden files hold.
func allLines(n int, s Style) []string {
	v := &view{hosts: hostNames(n), style: s}
	race := func(sec int, job string, token int64, late time.Duration, set map[int]cell) string {
		cells := make([]cell, n)
		for i := range cells {
			cells[i] = left
		}
		for i, c := range set {
			cells[i] = c
		}
		return v.row(&row{tick: at(sec), job: job, cells: cells, token: token, lag: late})
	}
	skip := &row{tick: at(3), job: slowJob, cells: make([]cell, n), holder: "web-2"}
	skip.cells[0], skip.cells[1] = skipped, killed
	over := *skip
	over.alive, over.holder = true, "web-1"
	nobody := &row{tick: at(4), job: quickJob, cells: make([]cell, n)}
	nobody.cells[0] = missed

	lines := v.header(20 * time.Second)
	lines = append(lines,
		race(1, quickJob, 1795982428007135, 5*time.Millisecond, map[int]cell{0: won, 1: lost}),
		race(1, slowJob, 1795982428002595, 1250*time.Millisecond, map[int]cell{1: won, 0: silent}))
	lines = append(lines, v.died("web-2", []string{slowJob})...)
	lines = append(lines, v.row(skip), v.row(&over), v.row(nobody),
		race(5, slowJob, 1795982431002888, 0, map[int]cell{0: won, 1: killed}))
	lines = append(lines, v.takeover(&takeover{slowJob, "web-2", "web-1", 1795982428002595, 1795982431002888})...)
	lines = append(lines, v.remain("web-2", 1))
	lines = append(lines, v.died("web-2", nil)...)
	lines = append(lines, v.drained([]ending{{host: "web-1", well: true}, {host: "web-3", well: true}}),
		v.drained([]ending{{host: "web-1", well: true}, {host: "web-3"}}))

	b := newBoard(v.hosts, jobNames())
	b.ticks, b.runs, b.doubles = 12, 11, 1
	b.open[slowJob] = openRun{host: "web-1"}
	return append(lines, v.status(b, 7600*time.Millisecond), v.status(b, -1))
}

func TestView_Golden(t *testing.T) {
	bad := judge(func() evidence {
		e := sound()
		e.witness = append(e.witness, wrote(slowJob, 5, "web-3", 200))
		e.ends[1] = ending{host: "web-3", how: "web-3 exited with 2; the end of its log:\n{\"msg\":\"one\"}\n{\"msg\":\"two\"}"}
		return e
	}())
	early := judge(evidence{hosts: 3, jobs: jobNames(), early: true, ends: []ending{{well: true}, {well: true}, {well: true}}})
	for _, tc := range []struct {
		file  string
		lines []string
	}{
		{"plain", allLines(3, Style{})},
		{"colour", allLines(3, Style{Color: true, Marks: true})},
		{"many", allLines(9, Style{Marks: true})},
		{"verdict", judge(sound()).Lines(Style{})},
		{"verdict-colour", judge(sound()).Lines(Style{Color: true})},
		{"verdict-failed", bad.Lines(Style{})},
		{"verdict-early", early.Lines(Style{})},
	} {
		t.Run(tc.file, func(t *testing.T) {
			path, got := filepath.Join("testdata", tc.file+".golden"), strings.Join(tc.lines, "\n")+"\n"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant, from %s:\n%s", got, path, want)
			}
		})
	}
}

// escapes are the colours, which take no room.
func escapes() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;]*m") }

func TestView_FitsInto80Columns(t *testing.T) {
	for n := LeastHosts; n <= MostHosts; n++ {
		for _, s := range []Style{{}, {Color: true, Marks: true}} {
			lines := allLines(n, s)
			lines = append(lines, (&view{hosts: hostNames(n), style: s}).header(MostFor)...)
			lines = append(lines, judge(sound()).Lines(s)...)
			for _, line := range lines {
				if w := utf8.RuneCountInString(escapes().ReplaceAllString(line, "")); w > 80 {
					t.Errorf("%d hosts, %+v: a line has %d columns, want 80 at most: %s", n, s, w, line)
				}
			}
		}
	}
}

func TestView_PlainIsASCIIWithoutEscapes(t *testing.T) {
	for _, n := range []int{3, 9} {
		for _, line := range append(allLines(n, Style{}), judge(sound()).Lines(Style{})...) {
			if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
				t.Errorf("a plain line has %q at %d: %q", line[i], i, line)
			}
		}
	}
}

func TestView_ColourChangesNoText(t *testing.T) {
	plain, colour := allLines(3, Style{Marks: true}), allLines(3, Style{Marks: true, Color: true})
	for i := range plain {
		if got := escapes().ReplaceAllString(colour[i], ""); got != plain[i] {
			t.Errorf("without its colours, line %d is %q, want %q", i, got, plain[i])
		}
	}
}

func TestView_StatusFitsTheTerminal(t *testing.T) {
	b := newBoard(hostNames(3), jobNames())
	for _, width := range []int{1, 20, 40} {
		got := (&view{hosts: b.hosts, style: Style{Width: width}}).status(b, time.Second)
		if len(got) >= width && got != "" {
			t.Errorf("width %d: status has %d columns, want less: %q", width, len(got), got)
		}
	}
}

func TestScreen_KeepsTheStatusLast(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out, live: true}
	s.print("one")
	s.show("status")
	s.show("status") // says nothing new, writes nothing
	s.print("two", "three")
	s.show("")
	if want := "one\n" + eraseLine + "status" + eraseLine + "two\nthree\nstatus" + eraseLine; out.String() != want {
		t.Errorf("written = %q, want %q", out.String(), want)
	}

	out.Reset()
	s = &screen{w: &out}
	s.show("status")
	s.print("one")
	if out.String() != "one\n" {
		t.Errorf("not live: written = %q, want the line alone", out.String())
	}
}

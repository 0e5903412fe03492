package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func at(hour int) time.Time { return time.Date(2026, 11, 30, hour, 0, 0, 0, time.UTC) }

// small is a day of a table in which two jobs fight over a lock.
func small() Chart {
	c := Chart{
		Title: "Preview of 24 hours on 5 hosts", Subtitle: "1,486 ticks: 1,450 run, 36 are skipped, none is missed",
		From: at(0), Until: at(24),
		Ticks: make([]int, 1440),
		Peaks: []Peak{{At: 120, Label: "02:00 9 ticks"}, {At: 125, Label: "02:05 5 ticks"}, {At: 1439, Label: "23:59 4 ticks"}},
	}
	for i := range c.Ticks {
		switch {
		case i == 120:
			c.Ticks[i] = 9
		case i%60 == 0:
			c.Ticks[i] = 3
		case i%5 == 0:
			c.Ticks[i] = 1
		}
	}
	every := func(n, lost int, busy float64) []Cell {
		var cells []Cell
		for range 24 {
			cells = append(cells, Cell{n, lost, busy})
		}
		return cells
	}
	nightly := make([]Cell, 24)
	nightly[2], nightly[3] = Cell{1, 0, 1}, Cell{0, 0, 0.4}
	c.Rows = []Row{
		{Job: "sync", Lock: "db", Cells: every(12, 3, 0.7), Note: "25 % skipped", Alarm: true},
		{Job: "nightly-report", Lock: "db", Cells: nightly},
		{Job: "beat", Lock: "beat", Cells: every(60, 0, 0.01), Note: "1,440 ticks"},
		{Job: "a-name-that-is-longer-than-anybody-would-like-to-read", Lock: "own", Cells: every(1, 1, 0), Note: "all missed", Alarm: true},
	}
	c.More = 7
	return c
}

func draw(t *testing.T, c Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, c); err != nil {
		t.Fatal(err)
	}
	// A person may look at what the tests draw.
	if path := os.Getenv("ROTA_TEST_PICTURE"); path != "" {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// elements parses a picture and counts its elements by their class.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					n[e.Name.Local+"."+a.Value]++
				}
			}
		}
	}
}

func TestSVG_ShowsWhatIsInTheChart(t *testing.T) {
	svg := draw(t, small())
	n := elements(t, svg)
	for class, want := range map[string]int{
		"path.bar": 1, "rect.ticks": 24 + 1 + 24 + 24 + 1, "rect.lost": 24 + 24 + 1, "text.lock": 1, "line.group": 1, "text.alarm": 2, "text.peak": 2,
	} {
		if n[class] != want {
			t.Errorf("%d of %s, want %d", n[class], class, want)
		}
	}
	for _, want := range []string{
		"Preview of 24 hours", "lock db", "nightly-report", "25 % skipped", "02:00 9 ticks", "… and 7 more", "UTC", ">22:00<", "prefers-color-scheme: dark",
		"sync from Nov 30 02:00: 12 ticks, 3 of them do not run in time, at work 70 % of the time", "a-name-that-is-longer-than-anybody…"[:30],
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if strings.Contains(svg, "02:05 5 ticks") {
		t.Error("a label stands in the place of a more crowded one's")
	}
	if strings.Contains(svg, ">a-name-that-is-longer-than-anybody-would-like-to-read<") {
		t.Error("a long name pushes the plot aside")
	}
}

func TestSVG_IsXMLWhateverTheNames(t *testing.T) {
	c := small()
	c.Title, c.Rows[0].Job, c.Rows[0].Lock, c.Rows[0].Note = "<script>&\"'", "a\x00b\x1b[31m", "\xff\xfe<", "]]>"
	c.Peaks[0].Label = "</text>"
	if svg := draw(t, c); strings.Contains(svg, "<script>") || strings.ContainsAny(svg, "\x00\x1b") {
		t.Error("a name got into the picture as it was")
	}
	elements(t, draw(t, c))
}

func TestSVG_OfNearlyNothing(t *testing.T) {
	for name, c := range map[string]Chart{
		"nothing at all":  {},
		"no job":          {Title: "x", From: at(0), Until: at(1), Ticks: make([]int, 60)},
		"one tick":        {From: at(0), Until: at(1), Ticks: []int{1}, Peaks: []Peak{{0, "1"}, {5, "outside"}, {-1, "outside"}}, Rows: []Row{{Job: "j", Cells: []Cell{{1, 1, 2}}}}},
		"cells of no row": {From: at(0), Until: at(1), Rows: []Row{{Job: "j", Lock: "l"}, {Job: "k", Lock: "l"}}},
		"a year":          {From: at(0), Until: at(0).AddDate(1, 0, 0), Ticks: make([]int, 525600)},
	} {
		t.Run(name, func(t *testing.T) { elements(t, draw(t, c)) })
	}
}

// Few labels, none less than a minute apart where there is room for minutes.
func TestScale_FewLabels(t *testing.T) {
	for _, span := range []time.Duration{time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 31 * 24 * time.Hour, 366 * 24 * time.Hour, 20 * 366 * 24 * time.Hour} {
		step, layout := scale(span)
		if n := int(span / step); n > 16 || n < 3 {
			t.Errorf("%d labels %q for %s, want 3 to 16", n, layout, span)
		}
	}
}

func TestSVG_SaysThatItCouldNotBeWritten(t *testing.T) {
	if err := SVG(failing{}, small()); err == nil {
		t.Error("no error from a writer that fails")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

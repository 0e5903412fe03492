package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rota/internal/config"
	"rota/internal/preview"
	"rota/internal/preview/picture"
)

// contended is the report of a day on five hosts with something in every section.
func contended() *preview.Report {
	at := func(hour, minute int) time.Time { return time.Date(2026, 10, 25, hour, minute, 0, 0, time.UTC) }
	ms := func(d time.Duration) preview.Millis { return preview.Millis(d) }
	r := &preview.Report{
		Window: preview.Window{From: at(0, 0), Until: at(24, 0)},
		Ticks:  preview.Ticks{Due: 12345, Ran: 12000, Skipped: 340, Missed: 5, Late: 2},
		Heat:   preview.Heat{Folded: true, Start: at(0, 0), Step: ms(time.Hour), Cells: 24, FineStep: ms(time.Minute), Fine: make([]int64, 1440)},
		Load: preview.Load{Second: at(2, 0), Ticks: 41, Fleets: []preview.FleetLoad{
			{Hosts: 1, Commands: 90}, {Hosts: 5, Commands: 120}, {Hosts: 50, Commands: 1234},
		}},
		Clocks: []preview.ClockChange{{
			Zone: "Europe/Berlin", At: at(1, 0), Before: ms(2 * time.Hour), After: ms(time.Hour),
			Jobs: []preview.ChangedJob{{Job: "nightly", Effect: preview.FirstPass, Text: "02:30 comes twice; it runs once, at the first pass, at 00:30Z"}},
		}},
		Advice:   []preview.Advice{{Kind: preview.AdviseSplay, Text: strings.Repeat("a sentence that is rather long, ", 5) + "and ends here"}},
		Warnings: []preview.Warning{{Kind: preview.WarnOverGap, Job: "sync", Text: "usually takes 7m, longer than the 5m to its next tick"}},
	}
	for i := range r.Heat.Fine {
		r.Heat.Fine[i] = int64(1 + i%5)
	}
	r.Heat.Fine[120] = 41
	for i := range 7 {
		r.Peaks = append(r.Peaks, preview.Peak{Minute: at(2, i), Ticks: int64(41 - i), Most: 30, Second: at(2, i), Jobs: []preview.JobCount{
			{Job: "sync-of-everything-there-is-and-more", Ticks: 12}, {Job: "nightly", Ticks: 1}, {Job: "another", Ticks: 1},
		}})
	}
	for i := range 20 {
		name := "job-" + string(rune('a'+i))
		if i == 3 {
			name = strings.Repeat("long-name-", 9)
		}
		j := preview.JobReport{
			Job: name, Lock: name, Hosts: 5, Ticks: preview.Ticks{Due: 1440, Ran: 1440},
			RunP50: ms(1500 * time.Millisecond), LagMax: ms(20 * time.Millisecond), Cells: make([]preview.Cell, 24),
		}
		if i < 2 {
			j.Lock, j.Skipped, j.Missed, j.Ran, j.OverGap = "db", 170, 2, 1268, 33
			j.Cells[2] = preview.Cell{Ticks: 12, Lost: 3, Busy: 0.5}
		}
		r.Jobs = append(r.Jobs, j)
	}
	r.Locks = []preview.LockReport{
		{Lock: "db", Jobs: []string{"job-a", "job-b"}, Claims: 2880, Held: 340, Busy: 0.72, ByPair: []preview.Contended{
			{Job: "job-a", Holder: "job-b", Times: 300}, {Job: "job-b", Holder: "job-b", Times: 30}, {Job: "job-b", Holder: "job-a", Times: 10},
		}},
		{Lock: "idle", Jobs: []string{"x", "y"}, Claims: 10},
	}
	for _, h := range preview.HostsNamed(5) {
		r.Hosts = append(r.Hosts, preview.HostReport{Host: h.Name, Wins: 2400, Share: 0.2, Most: 4, MaxRuns: 16})
	}
	r.Hosts[4].Full = 12
	return r
}

func previewText(t *testing.T, r *preview.Report) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.writePreview(r, preview.Options{Seed: 7}); err != nil {
		t.Fatal(err)
	}
	// A person may look at what the tests print.
	if path := os.Getenv("ROTA_TEST_TEXT"); path != "" {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestPreview_TextHasItAllInEightyColumns(t *testing.T) {
	text := previewText(t, contended())
	for _, want := range []string{
		"Preview of 24h from 2026-10-25 00:00Z on 5 hosts\n12,345 ticks: 12,000 run, 340 skipped (2.8 %), 5 missed (<0.1 %)\n",
		"HEAT  the ticks of each minute, at most 41\n", "█", "00:00       04:00",
		"02:00Z  41 ", "db    72 %  2,880   340 (12 %)  job-a by job-b ×300, job-b by itself ×30 … 1 more",
		"job-a  ", "170 (12 %)", "… and 5 more jobs", "HAD NO PLACE", "1,234", "clocks of Europe/Berlin go back by 1h\n  nightly: 02:30 comes twice",
		"- a sentence that is rather long,", "- sync: usually takes 7m", "seed 7;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(line, "db ") {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestPreview_TextOfNothing(t *testing.T) {
	r := &preview.Report{Warnings: []preview.Warning{{Kind: preview.WarnNoTicks, Text: "no tick is due in the window"}}}
	if text := previewText(t, r); strings.Contains(text, "HEAT") || !strings.Contains(text, "no tick is due") {
		t.Errorf("a window without ticks:\n%s", text)
	}
}

func TestPreview_PictureShowsContendedLocksFirst(t *testing.T) {
	c := chartOf(contended())
	if c.Rows[0].Job != "job-a" || c.Rows[1].Job != "job-b" || c.Rows[0].Lock != "db" || !c.Rows[0].Alarm || c.Rows[2].Alarm {
		t.Errorf("the rows begin with %+v", c.Rows[:3])
	}
	if c.Peaks[0].At != 120 || c.Peaks[0].Label != "02:00 41 ticks" || c.Ticks[120] != 41 {
		t.Errorf("the first peak is %+v", c.Peaks[0])
	}
	var b bytes.Buffer
	if err := picture.SVG(&b, c); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPreview_Durations(t *testing.T) {
	cfg := &config.Config{Path: "rota.toml", Jobs: []config.Job{{Name: "a"}, {Name: "nightly"}}}
	for _, c := range []struct {
		name, text string
		want       []time.Duration // of nightly
		fails      string
	}{
		{"a line", "# how long\n\nnightly 12m\n", []time.Duration{12 * time.Minute}, ""},
		{"several", "nightly 1s 2s\nnightly 3s", []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, ""},
		{"a history", `{"job":"nightly","outcome":"succeeded","duration_ms":1200}` + "\n" + `{"job":"nightly","outcome":"skipped","duration_ms":null}` + "\n" +
			`{"job":"nightly","outcome":"lost","duration_ms":9}` + "\n" + `{"job":"gone","outcome":"succeeded","duration_ms":9}`, []time.Duration{1200 * time.Millisecond}, ""},
		{"of each host", `{"job":"nightly@web-1","outcome":"failed","duration_ms":5}`, []time.Duration{5 * time.Millisecond}, ""},
		{"no duration", "nightly", nil, `:1: want a job and how long its runs take`},
		{"a bare number", "a 1s\nnightly 12", nil, `:2: 12 has no unit`},
		{"an unknown job", "nightli 1s", nil, `:1: there is no job "nightli" in rota.toml; did you mean "nightly"?`},
		{"no JSON", "{", nil, ":1: no entry of a history"},
		{"all faults", "nightly\nx 1s", nil, "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "durations")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			a := &app{stderr: io.Discard}
			got, err := a.readDurations(cfg, path)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || !slices.Equal(got["nightly"], c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

// A share that is neither none nor all does not read as if it were.
func TestShare(t *testing.T) {
	for of, want := range map[float64]string{0: "0 %", 0.0001: "<0.1 %", 0.05: "5.0 %", 0.5: "50 %", 0.995: "99.5 %", 0.9999: ">99.9 %", 1: "100 %"} {
		if got := share(of); got != want {
			t.Errorf("share(%v) = %q, want %q", of, got, want)
		}
	}
}

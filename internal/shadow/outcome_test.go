package shadow

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

// tableOf loads a config with these jobs.
func tableOf(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "rota.toml")
	text = fmt.Sprintf("state_dir = %q\n[host]\nname = \"h\"\n", filepath.Join(dir, "state")) + text
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const twoJobs = `
[jobs.a]
schedule = "* * * * * *"
command = ["true"]
lock = "db"
[jobs.b]
schedule = "* * * * * *"
command = ["true"]
lock = "db"
`

// said is what an event comes to, for comparing.
func said(e *Event) string {
	words := []string{string(e.What), e.Job, fmt.Sprint(e.Tick.UnixMilli() / 1000)}
	if e.Host != "" {
		words = append(words, "by "+e.Host)
	}
	if e.Next != "" {
		words = append(words, fmt.Sprintf("%s +%d", e.Next, e.Margin.Milliseconds()))
	}
	if e.Holder != "" {
		words = append(words, "held by "+e.HolderJob+" on "+e.Holder)
	}
	if e.Reason != "" {
		words = append(words, e.Reason)
	}
	if e.Outcome != "" {
		words = append(words, e.Outcome)
	}
	if e.Count > 0 {
		words = append(words, fmt.Sprintf("× %d", e.Count))
	}
	return strings.Join(words, " ")
}

func TestOutcome_WhatBecomesOfTicks(t *testing.T) {
	win := func(job, host string, tick, at int64) sight {
		return sight{What: won, Job: job, Lock: "db", Host: host, Tick: tick * 1000, At: at, Kind: ledger.Scheduled}
	}
	come := func(job, host string, tick, at int64) sight {
		return sight{What: came, Job: job, Lock: "db", Host: host, Tick: tick * 1000, At: at}
	}
	held := func(as what, job, host string, tick int64, by string) sight {
		return sight{What: as, Job: job, Lock: "db", Host: host, Tick: tick * 1000, At: tick*1000 + 2, Holder: by, HolderJob: "b"}
	}
	again := func(s sight, found ledger.Found) sight { s.Found = found; return s }
	type counts struct{ ticks, won, held, skipped, missed int }
	for _, tc := range []struct {
		name string
		in   []sight
		want []string
		a    counts // of job a
	}{
		{
			"the first of those that came later is next",
			[]sight{win("a", "x", 10, 10_003), come("a", "z", 10, 10_060), come("a", "y", 10, 10_031)},
			[]string{"won a 10 by x y +28"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"it may be heard of before the winner is",
			[]sight{come("a", "y", 10, 10_031), win("a", "x", 10, 10_003)},
			[]string{"won a 10 by x y +28"},
			counts{1, 1, 0, 0, 0},
		},
		{"alone nobody is next", []sight{win("a", "x", 10, 10_003)}, []string{"won a 10 by x"}, counts{1, 1, 0, 0, 0}},
		{
			"the winner does not come second to itself",
			[]sight{win("a", "x", 10, 10_003), come("a", "x", 10, 10_004)},
			[]string{"won a 10 by x"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"a clock a little behind is no margin below zero",
			[]sight{win("a", "x", 10, 10_003), come("a", "y", 10, 10_001)},
			[]string{"won a 10 by x y +0"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"of two that come at once the names decide",
			[]sight{win("a", "x", 10, 10_000), come("a", "z", 10, 10_030), come("a", "y", 10, 10_030)},
			[]string{"won a 10 by x y +30"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"a held lock skips, and who came after it is nobody's margin",
			[]sight{held(skipped, "a", "x", 10, "y"), come("a", "z", 10, 10_030)},
			[]string{"skipped a 10 by x held by b on y"},
			counts{1, 0, 1, 1, 0},
		},
		{
			"what waited is won later, and is one tick",
			[]sight{held(waiting, "a", "x", 10, "y"), come("a", "z", 10, 10_030), again(win("a", "x", 10, 12_000), ledger.FoundWait)},
			[]string{"waiting a 10 by x held by b on y", "won a 10 by x"},
			counts{1, 1, 1, 0, 0},
		},
		{
			"what waited before this process came is counted with its win",
			[]sight{again(win("a", "x", 10, 12_000), ledger.FoundWait)},
			[]string{"won a 10 by x"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"a newer tick that waits takes the place",
			[]sight{held(waiting, "a", "x", 10, "y"), held(waiting, "a", "x", 20, "y"), again(win("a", "x", 20, 21_000), ledger.FoundWait)},
			[]string{
				"waiting a 10 by x held by b on y", "skipped a 10 by x a newer tick took its place",
				"waiting a 20 by x held by b on y", "won a 20 by x",
			},
			counts{2, 1, 2, 1, 0},
		},
		{
			"so does a newer one that is won",
			[]sight{held(waiting, "a", "x", 10, "y"), win("a", "z", 20, 20_001)},
			[]string{"waiting a 10 by x held by b on y", "skipped a 10 by x a newer tick took its place", "won a 20 by z"},
			counts{2, 1, 1, 1, 0},
		},
		{
			"a rerun is a win, and no new tick",
			[]sight{win("a", "x", 10, 10_001), again(win("a", "y", 10, 16_000), ledger.FoundRerun)},
			[]string{"won a 10 by x", "won a 10 by y"},
			counts{1, 2, 0, 0, 0},
		},
		{
			"what nobody claimed is missed, and so is what was too late",
			[]sight{{What: unrun, Job: "a", Lock: "db", Host: "x", Tick: 10_000, At: 10_001, Count: 3}, {What: missed, Job: "a", Lock: "db", Host: "x", Tick: 10_000, At: 10_001}},
			[]string{"missed a 10 × 3", "missed a 10 by x × 1"},
			counts{4, 0, 0, 0, 4},
		},
		{
			"a lease that is lost ends",
			[]sight{win("a", "x", 10, 10_001), {What: ended, Job: "a", Lock: "db", Host: "x", Tick: 10_000, At: 15_000, Outcome: "lost"}},
			[]string{"won a 10 by x", "ended a 10 by x lost"},
			counts{1, 1, 0, 0, 0},
		},
		{
			"jobs of one instant are in the order in which they were decided",
			[]sight{win("b", "x", 10, 10_004), win("a", "y", 10, 10_002)},
			[]string{"won a 10 by y", "won b 10 by x"},
			counts{1, 1, 0, 0, 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutcome(tableOf(t, twoJobs), &past{}, []string{"h"})
			o.add(batch{Sights: tc.in}, instant(10_500))
			var got []string
			for _, e := range o.settle(instant(60_000)) {
				got = append(got, said(&e))
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("events: got %q, want %q", got, tc.want)
			}
			j := o.report("", time.Minute).Jobs[0]
			if got := (counts{j.Ticks, j.Won, j.Held, j.Skipped, j.Missed}); got != tc.a {
				t.Errorf("counts of a: got %+v, want %+v", got, tc.a)
			}
			o.settle(instant(10_500).Add(settledAfter + forgottenAfter))
			if len(o.open) > 0 {
				t.Errorf("%d ticks are still known after %s, want none", len(o.open), forgottenAfter)
			}
		})
	}
}

// A decision is told once, and not before the others can have come.
func TestOutcome_WaitsForWhoComesNext(t *testing.T) {
	o := newOutcome(tableOf(t, twoJobs), &past{}, []string{"h"})
	o.add(batch{Sights: []sight{{What: won, Job: "a", Host: "x", Tick: 10_000, At: 10_001}}}, instant(10_200))
	if e := o.settle(instant(10_001).Add(settledAfter - 1)); len(e) != 0 {
		t.Errorf("settle before it is time = %v, want nothing", e)
	}
	o.add(batch{Sights: []sight{{What: came, Job: "a", Host: "y", Tick: 10_000, At: 10_700}}}, instant(11_000))
	if e := o.settle(instant(10_001).Add(settledAfter)); len(e) != 1 || e[0].Next != "y" {
		t.Errorf("settle when it is time = %v, want the win with y next", e)
	}
	if e := o.settle(instant(30_000)); len(e) != 0 {
		t.Errorf("settle once more = %v, want nothing", e)
	}
}

func TestOutcome_Report(t *testing.T) {
	c := tableOf(t, twoJobs+"[jobs.off]\nschedule = \"@daily\"\nenabled = false\ncommand = [\"true\"]\n")
	p := &past{
		holds:  map[string]Hold{"a": {3 * time.Second, FromLedger, 7}, "b": {time.Second, Assumed, 0}},
		paused: map[string]bool{"b": true},
	}
	o := newOutcome(c, p, []string{"h-1", "h-10", "h-2"})
	for i := range int64(4) {
		at := (10 + i) * 1000
		o.add(batch{
			Sights: []sight{
				{What: won, Job: "a", Lock: "db", Host: "h-1", Tick: at, At: at + 1, Hold: 3000},
				{What: came, Job: "a", Lock: "db", Host: "h-2", Tick: at, At: at + 21},
				{What: skipped, Job: "b", Lock: "db", Host: "h-10", Tick: at, At: at + 2, Holder: "h-1", HolderJob: "a"},
			},
			Trips: map[string][]int64{"h-1": {1000, 2000}},
			Sent:  map[int64]int{10: 5, 10 + i: 10},
		}, instant(at+300))
	}
	o.add(batch{Sights: []sight{{What: won, Job: "b", Lock: "db", Host: "h-2", Tick: 20_000, At: 20_001}}}, instant(20_300))
	o.settle(instant(60_000))
	if notes := o.sawHosts([]ledger.Host{{Name: "h-1", Table: c.TableHash(), ClockOffset: 4 * time.Millisecond}, {Name: "z", Table: "other"}}); len(notes) != 1 || !strings.Contains(notes[0], "z") {
		t.Errorf("notes about a host with another table: %q, want one", notes)
	}
	if notes := o.sawHosts([]ledger.Host{{Name: "z", Table: "other"}}); len(notes) != 0 {
		t.Errorf("notes about the same once more: %q, want none", notes)
	}
	r := o.report("{rota}~dry.1:", 10*time.Second)
	if r.Event != "report" || r.Ticks != 9 || r.Shadow != "{rota}~dry.1:" {
		t.Errorf("report: event %q, %d ticks, shadow %q", r.Event, r.Ticks, r.Shadow)
	}
	a, b, off := r.Jobs[0], r.Jobs[1], r.Jobs[2]
	if a.MarginP50MS == nil || *a.MarginP50MS != 20 || a.HoldsMS != 3000 || a.HoldsFrom != FromLedger || a.Runs != 7 || a.Paused || !a.Enabled {
		t.Errorf("job a: %+v, margin %v", a, a.MarginP50MS)
	}
	if !reflect.DeepEqual(b.HeldBy, []HeldBy{{"a", "h-1", 4}}) || b.HoldsFrom != Assumed || !b.Paused || b.Skipped != 4 || b.Won != 1 {
		t.Errorf("job b: %+v", b)
	}
	if off.Name != "off" || off.Enabled || off.Ticks != 0 || off.MarginP50MS != nil {
		t.Errorf("job off: %+v", off)
	}
	if want := []LockReport{{"db", []string{"a", "b"}, []Contention{{"b", "a", 4}}}}; !reflect.DeepEqual(r.Locks, want) {
		t.Errorf("locks: got %+v, want %+v", r.Locks, want)
	}
	var names []string
	for _, h := range r.Hosts {
		names = append(names, h.Name)
	}
	if want := []string{"h-1", "h-2", "h-10", "z"}; !reflect.DeepEqual(names, want) {
		t.Errorf("hosts: got %q, want %q", names, want)
	}
	h := r.Hosts[0]
	if h.Wins != 4 || h.Share != 0.8 || h.Claims != (Latency{8, 1, 2}) || h.ClockOffsetMS == nil || *h.ClockOffsetMS != 4 || !h.Here {
		t.Errorf("host h-1: %+v", h)
	}
	if r.Hosts[3].Here {
		t.Error("host z is said to be here")
	}
	// 10 in second 10 and in each of the next three, and 5 more in second 10 by each of those.
	if r.Commands.PeakPerS != 25 || r.Commands.PeakAt.Unix() != 10 || r.Commands.MeanPerS != 13.75 {
		t.Errorf("commands: %+v, want 25 at the peak in second 10, 13.75 on average", r.Commands)
	}
}

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rota/internal/config"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

func minutely(t *testing.T) *config.Job {
	t.Helper()
	s, err := schedule.Parse("UTC", "* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	return &config.Job{Name: "backup", Schedule: s, Timezone: "UTC", Enabled: true}
}

func ofFleet(j *config.Job) ref { return ref{Job: j, key: j.Name} }

// entry is a run for the tick that many minutes before noon.
func entry(minutes int, outcome string) ledger.Entry {
	tick := noon.Add(-time.Duration(minutes) * time.Minute)
	e := ledger.Entry{
		Job: "backup", Tick: tick, Won: tick, Run: "run-" + outcome, Kind: ledger.Scheduled, Host: "web-1",
		Token: tick.UnixMicro(), Outcome: outcome,
	}
	if outcome != ledger.OutcomeRunning {
		e.Ended = tick.Add(time.Second)
	}
	return e
}

// unrun is a tick that nobody ran, that many minutes before noon.
func unrun(minutes int, outcome string) ledger.Entry {
	return ledger.Entry{
		Job: "backup", Tick: noon.Add(-time.Duration(minutes) * time.Minute), Kind: ledger.Scheduled,
		Outcome: outcome, Reason: "because",
	}
}

func TestView_StateOfAJob(t *testing.T) {
	slow := entry(3, "failed") // it ends after the tick that was skipped for it
	slow.Ended = noon.Add(-30 * time.Second)
	manual := unrun(0, ledger.OutcomeSkipped)
	manual.Kind = ledger.Manual

	for _, tc := range []struct {
		name     string
		disabled bool
		state    ledger.JobState
		hosts    int
		entries  []ledger.Entry
		want     string
		last     string // the outcome
		unrun    bool   // a tick went without a run since
	}{
		{name: "nothing is recorded", hosts: 1, want: "new"},
		{name: "the last run succeeded", hosts: 1, entries: []ledger.Entry{entry(2, "failed"), entry(1, "succeeded")}, want: "ok", last: "succeeded"},
		{name: "the last run failed", hosts: 1, entries: []ledger.Entry{entry(1, "failed"), entry(2, "succeeded")}, want: "failed", last: "failed"},
		{name: "the last run was lost", hosts: 1, entries: []ledger.Entry{entry(1, "lost")}, want: "lost", last: "lost"},
		{
			name: "the last tick was skipped", hosts: 1,
			entries: []ledger.Entry{entry(2, "succeeded"), unrun(1, "skipped")}, want: "skipped", last: "skipped", unrun: true,
		},
		{
			name: "the last tick was missed", hosts: 1,
			entries: []ledger.Entry{unrun(1, "missed")}, want: "missed", last: "missed", unrun: true,
		},
		{
			name: "a run failed after it kept a tick from running", hosts: 1,
			entries: []ledger.Entry{slow, unrun(2, "skipped")}, want: "failed", last: "failed", unrun: true,
		},
		{
			name: "a skip before the last run is over", hosts: 1,
			entries: []ledger.Entry{unrun(2, "skipped"), entry(1, "succeeded")}, want: "ok", last: "succeeded",
		},
		{
			name: "a request that was refused is no tick", hosts: 1,
			entries: []ledger.Entry{entry(1, "succeeded"), manual}, want: "ok", last: "succeeded",
		},
		{
			name: "it runs", hosts: 1,
			entries: []ledger.Entry{entry(2, "failed"), entry(1, "running")}, want: "running", last: "failed",
		},
		{name: "it runs on a host that just went", entries: []ledger.Entry{entry(1, "running")}, want: "running"},
		{name: "nobody is there to run it", entries: []ledger.Entry{entry(1, "succeeded")}, want: "no_host", last: "succeeded"},
		{
			name: "a tick waits for the lock", hosts: 1, state: ledger.JobState{Waiting: noon},
			entries: []ledger.Entry{entry(1, "succeeded")}, want: "waiting", last: "succeeded",
		},
		{name: "paused, though it failed", hosts: 1, state: pausedState(60), entries: []ledger.Entry{entry(1, "failed")}, want: "paused", last: "failed"},
		{name: "disabled, though paused", hosts: 1, disabled: true, state: pausedState(60), want: "disabled"},
		{
			name: "its cursor lies in the future", state: futureState(60),
			entries: []ledger.Entry{entry(1, "succeeded")}, want: "future", last: "succeeded",
		},
		{name: "it runs by hand, though its cursor lies in the future", hosts: 1, state: futureState(60), entries: []ledger.Entry{entry(1, "running")}, want: "running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minutely(t)
			job.Enabled = !tc.disabled
			v := viewJob(ofFleet(job), &tc.state, tc.entries, tc.hosts, noon)
			last := ""
			if v.Last != nil {
				last = v.Last.Outcome
			}
			if v.State != tc.want || last != tc.last || (v.unrun != nil) != tc.unrun {
				t.Errorf("state %q, last %q, a tick without a run: %t; want %q, %q, %t",
					v.State, last, v.unrun != nil, tc.want, tc.last, tc.unrun)
			}
			if (v.Next == nil) != tc.disabled {
				t.Errorf("next = %v of a job that is disabled: %t", v.Next, tc.disabled)
			}
		})
	}
}

// pausedState is a job that is paused for so many minutes after noon; 0: until resumed.
func pausedState(minutes int) ledger.JobState {
	h := &ledger.Pause{By: ledger.By{Who: "ada", Why: "upgrade"}, From: noon.Add(-time.Hour), Until: noon.Add(time.Duration(minutes) * time.Minute)}
	if minutes == 0 {
		h.Until = time.UnixMilli(1<<53 - 1)
	}
	return ledger.JobState{Paused: true, Pause: h}
}

// futureState is a job whose cursor lies so many minutes after noon.
func futureState(minutes int) ledger.JobState {
	return ledger.JobState{Future: true, Cursor: noon.Add(time.Duration(minutes) * time.Minute)}
}

func TestView_NextIsTheTickThatCanRun(t *testing.T) {
	both := func(job, fleet ledger.JobState) ledger.JobState {
		job.FleetPause, job.Paused = fleet.Pause, true
		return job
	}
	aheadOf := func(s ledger.JobState, cursor int) ledger.JobState {
		s.Future, s.Cursor = true, futureState(cursor).Cursor
		return s
	}
	later := pausedState(5)
	later.Pause.Until = later.Pause.Until.Add(time.Millisecond)
	early := pausedState(5)
	early.Pause.Until = early.Pause.Until.Add(-time.Millisecond)
	for _, tc := range []struct {
		name  string
		state ledger.JobState
		want  int // minutes after noon; -1: none
	}{
		{"it is not paused", ledger.JobState{}, 1},
		{"a tick that is due when the pause ends can run", pausedState(5), 5},
		{"so can one that is due a moment after", early, 5},
		{"a pause that ends within a minute", later, 6},
		{"a pause without an end", pausedState(0), -1},
		{"the fleet's pause is longer", both(pausedState(5), pausedState(7)), 7},
		{"its own pause is longer", both(pausedState(7), pausedState(5)), 7},
		{"the fleet's pause has no end", both(pausedState(7), pausedState(0)), -1},
		{"the fleet's alone", both(ledger.JobState{}, pausedState(7)), 7},
		{"its cursor lies ahead", futureState(9), 10},
		{"its cursor lies ahead of a pause's end", aheadOf(pausedState(5), 9), 10},
		{"its cursor lies ahead, and before a pause's end", aheadOf(pausedState(9), 5), 9},
		{"its cursor lies beyond all ticks", ledger.JobState{Future: true, Cursor: time.UnixMilli(1<<53 - 1)}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := viewJob(ofFleet(minutely(t)), &tc.state, nil, 1, noon)
			got := -1
			if v.Next != nil {
				got = int(v.Next.Sub(noon) / time.Minute)
			}
			if got != tc.want {
				t.Errorf("next = %v, %d minutes after noon, want %d", v.Next, got, tc.want)
			}
			if (v.Pause != nil) != tc.state.Paused {
				t.Errorf("pause = %v of a job that is paused: %t", v.Pause, tc.state.Paused)
			}
		})
	}
}

func TestView_HostsThatClaim(t *testing.T) {
	upgrade := ledger.By{Who: "ada", Why: "upgrade"}
	v := &view{Table: "t"}
	v.addHosts([]ledger.Host{
		{Name: "a", Table: "t"},
		{Name: "b", Table: "t", Draining: true},
		{Name: "c", Table: "t", Draining: true},
		{Name: "d", Table: "t"}, // it was told just now, and does not know yet
		{Name: "e", Table: "other", Labels: []string{"db"}},
		{Name: "g", Table: "t", Running: 3, MaxRuns: 4},
		{Name: "h", Table: "t", Running: 4, MaxRuns: 4},
	}, map[string]ledger.By{"c": upgrade, "d": {}, "f": upgrade})
	var states []string
	for _, h := range v.Hosts {
		states = append(states, h.Name+" "+v.hostState(&h))
	}
	if got, want := strings.Join(states, ", "), "a ok, b draining, c drained, d drained, e other table, g ok, h full"; got != want {
		t.Errorf("hosts are %s; want %s", got, want)
	}
	for _, tc := range []struct {
		what string
		r    ref
		want int
	}{
		{"any", ofFleet(&config.Job{}), 4},
		{"by label and name", ofFleet(&config.Job{Hosts: []string{"db", "a", "c"}}), 2},
		{"none that is there", ofFleet(&config.Job{Hosts: []string{"z"}}), 0},
		{"one host's own", ofFleet(&config.Job{Name: "j", Scope: scheduler.ScopeHost}).on("a"), 1},
		{"a drained host's own", ofFleet(&config.Job{Name: "j", Scope: scheduler.ScopeHost}).on("c"), 0},
		{"one host's own that may not run it", ofFleet(&config.Job{Name: "j", Scope: scheduler.ScopeHost, Hosts: []string{"db"}}).on("a"), 0},
	} {
		if got := v.claiming(tc.r); got != tc.want {
			t.Errorf("%s: %d hosts claim, want %d", tc.what, got, tc.want)
		}
	}
	if len(v.away) != 1 || v.away["f"] != upgrade {
		t.Errorf("away = %v, want f", v.away)
	}
	text, err := json.Marshal(v.Hosts[2])
	want := `{"name":"c","id":"","version":"","table":"t","labels":[],"running":0,"draining":true,"clock_offset_ms":0,"drained":{"who":"ada","why":"upgrade"}}`
	if err != nil || string(text) != want {
		t.Errorf("Marshal of a drained host = %s, %v, want %s", text, err, want)
	}
}

func TestView_HolderAndTokenAreOfTheNewestRun(t *testing.T) {
	running, before := entry(1, "running"), entry(2, "succeeded")
	state := ledger.JobState{HolderRun: running.Run, Left: 20 * time.Second}
	v := viewJob(ofFleet(minutely(t)), &state, []ledger.Entry{before, running}, 1, noon)
	if !v.Running || v.Holder == nil || *v.Holder != "web-1" || *v.Run != running.Run || *v.Token != running.Token || v.left != state.Left {
		t.Errorf("view of a running job: %+v, want holder, run, token and what is left of the lease", v)
	}
	v = viewJob(ofFleet(minutely(t)), &ledger.JobState{}, []ledger.Entry{before}, 1, noon)
	if v.Running || v.Holder != nil || v.Run != nil || v.Token == nil || *v.Token != before.Token {
		t.Errorf("view of a job that ran: %+v, want the token of the run and no holder", v)
	}
}

// With a splay the next tick is the one whose start is to come, unless it was claimed already.
func TestView_NextWithASplay(t *testing.T) {
	job := minutely(t)
	job.Splay = 50 * time.Second
	r := ofFleet(job)
	delay := r.delay()
	if delay < 10*time.Second {
		t.Fatalf("the delay is %s, want 10 s or more: choose another name", delay)
	}
	for _, tc := range []struct {
		name   string
		after  time.Duration // noon
		cursor time.Time
		want   int // minutes after noon
	}{
		{"its start is to come", delay - time.Second, noon.Add(-time.Minute), 0},
		{"it has started", delay + time.Second, noon, 1},
		{"its start was now, and it is not claimed", delay, noon.Add(-time.Minute), 1},
		{"nothing was ever decided", delay - time.Second, time.Time{}, 0},
	} {
		v := viewJob(r, &ledger.JobState{Cursor: tc.cursor}, nil, 1, noon.Add(tc.after))
		want := noon.Add(time.Duration(tc.want) * time.Minute)
		if v.Next == nil || !v.Next.Equal(want) || v.Start == nil || v.Start.Sub(*v.Next) != delay {
			t.Errorf("%s: next %v starts %v, want %s, %s later", tc.name, v.Next, v.Start, want, delay)
		}
	}
	if v := viewJob(ofFleet(minutely(t)), &ledger.JobState{}, nil, 1, noon); v.Start != nil {
		t.Errorf("start = %v of a job without a splay, want none", v.Start)
	}
}

// Runs that overlap are all there, also when more were recorded since than was read.
func TestView_RunsThatOverlap(t *testing.T) {
	newest, older := entry(1, "running"), entry(2, "running")
	going := func(e ledger.Entry) ledger.Going {
		return ledger.Going{Run: e.Run, Host: e.Host, Kind: e.Kind, Tick: e.Tick, Since: e.Won, Token: e.Token}
	}
	older.Run, older.Host = "run-older", "web-2"
	state := ledger.JobState{Going: []ledger.Going{going(newest), going(older)}, HolderRun: newest.Run}
	for what, entries := range map[string][]ledger.Entry{
		"all were read":     {newest, older},
		"only the older":    {older},
		"what ended since":  {entry(3, "succeeded"), entry(4, "failed")},
		"nothing was read ": nil,
	} {
		v := viewJob(ofFleet(minutely(t)), &state, entries, 1, noon)
		if !v.Running || *v.Run != newest.Run || *v.Holder != "web-1" || *v.Token != newest.Token || len(v.Runs) != 2 || more(&v) != ", and 1 more" {
			t.Errorf("%s: view = %+v, want the newest as the holder, and one more", what, v)
		}
	}
	if v := viewJob(ofFleet(minutely(t)), &ledger.JobState{}, nil, 1, noon); v.Runs == nil || len(v.Runs) != 0 || more(&v) != "" {
		t.Errorf("runs = %v of a job that does not run, want an empty list", v.Runs)
	}
}

package cli

import (
	"testing"
	"time"

	"rota/internal/config"
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
		{name: "paused, though it failed", hosts: 1, state: ledger.JobState{Paused: true}, entries: []ledger.Entry{entry(1, "failed")}, want: "paused", last: "failed"},
		{name: "disabled, though paused", hosts: 1, disabled: true, state: ledger.JobState{Paused: true}, want: "disabled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minutely(t)
			job.Enabled = !tc.disabled
			v := viewJob(job, &tc.state, tc.entries, tc.hosts, noon)
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

func TestView_HolderAndTokenAreOfTheNewestRun(t *testing.T) {
	running, before := entry(1, "running"), entry(2, "succeeded")
	state := ledger.JobState{HolderRun: running.Run, Left: 20 * time.Second}
	v := viewJob(minutely(t), &state, []ledger.Entry{before, running}, 1, noon)
	if !v.Running || v.Holder == nil || *v.Holder != "web-1" || *v.Run != running.Run || *v.Token != running.Token || v.left != state.Left {
		t.Errorf("view of a running job: %+v, want holder, run, token and what is left of the lease", v)
	}
	v = viewJob(minutely(t), &ledger.JobState{}, []ledger.Entry{before}, 1, noon)
	if v.Running || v.Holder != nil || v.Run != nil || v.Token == nil || *v.Token != before.Token {
		t.Errorf("view of a job that ran: %+v, want the token of the run and no holder", v)
	}
}

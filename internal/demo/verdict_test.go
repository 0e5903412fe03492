package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/scheduler/ledger"
)

// ran is the entry of a run.
func ran(job string, n int, host string, token int64, outcome string) ledger.Entry {
	return ledger.Entry{
		Job: job, Tick: at(n), Run: host + job + at(n).Format("05"), Kind: ledger.Scheduled, Host: host, Token: token,
		Outcome: outcome, Won: at(n).Add(2 * time.Millisecond),
	}
}

// unran is an entry about ticks that nobody ran.
func unran(job string, from, until int, outcome string) ledger.Entry {
	e := ledger.Entry{Job: job, Tick: at(from), Outcome: outcome, Reason: "for the test"}
	if until > from {
		e.Until, e.Count = at(until), until-from+1
	}
	return e
}

func wrote(job string, n int, host string, token int64) testimony {
	return testimony{tickOf{job, at(n).Unix()}, token, host}
}

// sound is a demo that passes: the run of report at tick 2 was lost with web-2, 3 and 4 skipped.
func sound() evidence {
	e := evidence{
		hosts: 3, jobs: jobNames(), from: at(0), until: at(5), killed: "web-2",
		ends: []ending{{host: "web-1", well: true}, {host: "web-3", well: true}},
	}
	for n := 1; n <= 5; n++ {
		e.due = append(e.due, tickOf{quickJob, at(n).Unix()}, tickOf{slowJob, at(n).Unix()})
		e.entries = append(e.entries, ran(quickJob, n, "web-1", int64(100*n), "succeeded"))
		e.witness = append(e.witness, wrote(quickJob, n, "web-1", int64(100*n)))
	}
	e.entries = append(e.entries,
		ran(slowJob, 1, "web-3", 101, "succeeded"),
		ran(slowJob, 2, "web-2", 201, "lost"),
		unran(slowJob, 3, 4, "skipped"),
		ran(slowJob, 5, "web-1", 501, "succeeded"))
	e.witness = append(e.witness, wrote(slowJob, 1, "web-3", 101), wrote(slowJob, 2, "web-2", 201), wrote(slowJob, 5, "web-1", 501))
	return e
}

func TestJudge_PassesWhatIsSound(t *testing.T) {
	v := judge(sound())
	if v.Result != Passed || len(v.Faults) > 0 {
		t.Fatalf("judge = %q with faults %q, want %q with none", v.Result, v.Faults, Passed)
	}
	got := []int{v.Due, v.Runs, v.Skipped, v.Missed, v.Unaccounted, v.Doubles, v.Lost, v.Takeovers, v.Drained, v.Witnessed}
	if want := []int{10, 8, 2, 0, 0, 0, 1, 1, 2, 8}; !slices.Equal(got, want) {
		t.Errorf("due, runs, skipped, missed, unaccounted, doubles, lost, takeovers, drained, witnessed = %v, want %v", got, want)
	}
	if want := (takenOver{slowJob, "web-1", 3 * time.Second}); v.takeover == nil || *v.takeover != want {
		t.Errorf("takeover = %+v, want %+v", v.takeover, want)
	}
}

// Each case breaks one thing in a sound demo. A verdict that does not see it is worth nothing.
func TestJudge_FindsWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(e *evidence)
		fault  string
		doubt  func(v *Verdict) bool // the number that must show it
	}{
		{
			"a tick that the ledger does not know",
			func(e *evidence) { e.entries, e.witness = e.entries[1:], e.witness[1:] },
			"the ledger knows nothing of the tick 12:00:01 of mail",
			func(v *Verdict) bool { return v.Unaccounted == 1 && v.Runs == 7 },
		},
		{
			"a tick beyond a range",
			func(e *evidence) { e.entries[7] = unran(slowJob, 3, 3, "skipped") },
			"the ledger knows nothing of the tick 12:00:04 of report",
			func(v *Verdict) bool { return v.Unaccounted == 1 && v.Skipped == 1 },
		},
		{
			"an entry of another job",
			func(e *evidence) { e.entries[7].Job = quickJob },
			"12:00:03 of report",
			func(v *Verdict) bool { return v.Unaccounted == 2 },
		},
		{
			"a double in the ledger",
			func(e *evidence) {
				e.entries = append(e.entries, ran(slowJob, 5, "web-3", 502, "succeeded"))
				e.witness = append(e.witness, wrote(slowJob, 5, "web-3", 502))
			},
			"the ledger has the tick 12:00:05 of report twice: on web-1 with token 501, on web-3 with token 502",
			func(v *Verdict) bool { return v.Doubles == 1 && v.Runs == 8 },
		},
		{
			"a double that only the jobs saw",
			func(e *evidence) { e.witness = append(e.witness, wrote(slowJob, 5, "web-3", 502)) },
			"the jobs' file has the tick 12:00:05 of report twice",
			func(v *Verdict) bool { return v.Doubles == 1 },
		},
		{
			"a double outside of the window",
			func(e *evidence) {
				e.entries = append(e.entries, ran(slowJob, 6, "web-1", 601, "succeeded"), ran(slowJob, 6, "web-3", 602, "succeeded"))
				e.witness = append(e.witness, wrote(slowJob, 6, "web-1", 601), wrote(slowJob, 6, "web-3", 602))
			},
			"the ledger has the tick 12:00:06 of report twice",
			func(v *Verdict) bool { return v.Doubles == 1 && v.Due == 10 },
		},
		{
			"a run that the ledger does not know",
			func(e *evidence) { e.witness[7].token++ },
			"the jobs' file has a run that the ledger does not know: 12:00:05 of report on web-1 with token 502",
			func(v *Verdict) bool { return v.Doubles == 0 },
		},
		{
			"a run that did nothing",
			func(e *evidence) { e.witness = e.witness[:7] },
			"the ledger has a run that wrote nothing: 12:00:05 of report on web-1 with token 501",
			func(v *Verdict) bool { return v.Witnessed == 7 },
		},
		{
			"a token that falls in the ledger",
			func(e *evidence) {
				e.entries[8].Token, e.witness[7].token = 200, 200
			},
			"in the ledger, the token of report does not rise: 201 for 12:00:02 of report, then 200 for 12:00:05 of report",
			func(v *Verdict) bool { return !v.TokensRising },
		},
		{
			"a token that was granted twice",
			func(e *evidence) { e.entries[8].Token, e.witness[7].token = 201, 201 },
			"does not rise: 201 for 12:00:02 of report, then 201",
			func(v *Verdict) bool { return !v.TokensRising },
		},
		{
			"writes in the wrong order",
			func(e *evidence) { e.witness[5], e.witness[6] = e.witness[6], e.witness[5] },
			"in the jobs' file, the token of report does not rise",
			func(v *Verdict) bool { return !v.TokensRising },
		},
		{
			"a line that is no run's",
			func(e *evidence) { e.illegible = []string{"mail 2026"} },
			`a line that no run writes: "mail 2026"`,
			func(*Verdict) bool { return true },
		},
		{
			"a process that outlived its host",
			func(e *evidence) { e.leftOver = []string{"process 77"} },
			"left over: process 77",
			func(v *Verdict) bool { return v.LeftOver == 1 },
		},
		{
			"a host that did not drain",
			func(e *evidence) { e.ends[1] = ending{host: "web-3", how: "web-3 exited with 2"} },
			"web-3 exited with 2",
			func(v *Verdict) bool { return v.Drained == 1 },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := sound()
			tc.damage(&e)
			v := judge(e)
			if all := strings.Join(v.Faults, "\n"); v.Result != Failed || !strings.Contains(all, tc.fault) {
				t.Errorf("judge = %q with faults\n%s\nwant %q with %q", v.Result, all, Failed, tc.fault)
			}
			if !tc.doubt(v) {
				t.Errorf("the numbers do not show it: %+v", v)
			}
			if v.Due != v.Runs+v.Skipped+v.Missed+v.Unaccounted {
				t.Errorf("%d ticks due are not %d runs + %d skipped + %d missed + %d unaccounted",
					v.Due, v.Runs, v.Skipped, v.Missed, v.Unaccounted)
			}
		})
	}
}

// What is no fault: ticks that were missed have an entry, and a run that was lost need not have
// come to write anything.
func TestJudge_AllowsWhatIsAccountedFor(t *testing.T) {
	e := sound()
	e.entries[7].Outcome = "missed"
	e.witness = slices.Delete(e.witness, 6, 7)
	v := judge(e)
	if v.Result != Passed || v.Missed != 2 || v.Skipped != 0 {
		t.Errorf("judge = %q, %d missed, %d skipped, faults %q; want %q, 2, 0, none", v.Result, v.Missed, v.Skipped, v.Faults, Passed)
	}
}

// A takeover is one only on another host, and only right after the lost run.
func TestJudge_CountsTakeovers(t *testing.T) {
	for _, tc := range []struct {
		name string
		host string // of the run after the lost one
		want int
	}{
		{"another host", "web-1", 1},
		{"the same host again", "web-2", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := judge(evidence{entries: []ledger.Entry{
				ran(slowJob, 1, "web-3", 1, "succeeded"), ran(slowJob, 2, "web-2", 2, "lost"),
				unran(slowJob, 3, 3, "skipped"), ran(quickJob, 3, "web-3", 3, "failed"),
				ran(slowJob, 4, tc.host, 4, "failed"), ran(slowJob, 5, "web-3", 5, "failed"),
			}})
			if v.Takeovers != tc.want || v.Lost != 1 {
				t.Errorf("takeovers, lost = %d, %d, want %d, 1", v.Takeovers, v.Lost, tc.want)
			}
		})
	}
}

func TestVerdict_IsOneObject(t *testing.T) {
	text, err := json.Marshal(judge(sound()))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"result":"passed","hosts":3,"jobs":["mail","report"],"from":"2026-11-29T12:00:00Z",` +
		`"until":"2026-11-29T12:00:05Z","early":false,"ticks_due":10,"runs":8,"skipped":2,"missed":0,"unaccounted":0,` +
		`"doubles":0,"lost":1,"takeovers":1,"tokens_rising":true,"witnessed":8,"killed":"web-2","left_over":0,"drained":2,"faults":[]}`
	if string(text) != want {
		t.Errorf("json =\n%s\nwant\n%s", text, want)
	}
}

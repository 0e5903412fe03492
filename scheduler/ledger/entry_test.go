package ledger

import (
	"encoding/json"
	"testing"
	"time"
)

// The JSON of an entry is promised to scripts (contract, section 5): names, their order,
// what is left out and what is null.
func TestEntry_JSON(t *testing.T) {
	tick := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	berlin := time.FixedZone("CET", 3600)
	ran := Entry{
		Job: "nightly-report", Tick: tick.In(berlin), Run: "01JD", Kind: Scheduled, Host: "web-1", Lock: "nightly-report",
		Token: 1795968430725800, Outcome: "succeeded", ExitCode: new(0), Won: tick.Add(4 * time.Millisecond),
		Started: tick.Add(7 * time.Millisecond), Ended: tick.Add(1207 * time.Millisecond), Attempt: 1, Definition: "9f3c",
		CPU: 812600 * time.Microsecond, PeakMemoryBytes: 536870912,
	}
	change := func(f func(*Entry)) Entry { e := ran; f(&e); return e }
	for name, c := range map[string]struct {
		entry Entry
		want  string
	}{
		"a run": {
			ran,
			`{"job":"nightly-report","tick":"2026-11-29T02:00:00Z","run":"01JD","kind":"scheduled","host":"web-1",` +
				`"lock":"nightly-report","token":1795968430725800,"outcome":"succeeded","reason":"",` +
				`"exit_code":0,"started":"2026-11-29T02:00:00.007Z","ended":"2026-11-29T02:00:01.207Z","lag_ms":4,"start_ms":7,"duration_ms":1200,` +
				`"cpu_ms":813,"peak_memory_bytes":536870912,` +
				`"attempt":1,"reruns":0,"definition":"9f3c"}`,
		},
		"a run that goes on": {
			change(func(e *Entry) {
				e.Outcome, e.ExitCode, e.Started, e.Ended, e.Attempt = OutcomeRunning, nil, time.Time{}, time.Time{}, 0
				e.CPU, e.PeakMemoryBytes = 0, 0
			}),
			`{"job":"nightly-report","tick":"2026-11-29T02:00:00Z","run":"01JD","kind":"scheduled","host":"web-1",` +
				`"lock":"nightly-report","token":1795968430725800,"outcome":"running","reason":"",` +
				`"exit_code":null,"lag_ms":4,"reruns":0,"definition":"9f3c"}`,
		},
		"a rerun that never started": {
			change(func(e *Entry) {
				e.Outcome, e.Kind, e.ExitCode, e.Started, e.Reruns, e.Reason = "failed", Rerun, nil, time.Time{}, 1, "no such file"
				e.CPU, e.PeakMemoryBytes = 0, 0
			}),
			`{"job":"nightly-report","tick":"2026-11-29T02:00:00Z","run":"01JD","kind":"rerun","host":"web-1",` +
				`"lock":"nightly-report","token":1795968430725800,"outcome":"failed","reason":"no such file",` +
				`"exit_code":null,"ended":"2026-11-29T02:00:01.207Z","lag_ms":4,"attempt":1,"reruns":1,"definition":"9f3c"}`,
		},
		"on the dot, with hardly any work": {
			change(func(e *Entry) {
				e.Won, e.Started, e.Ended = tick, tick, tick
				e.CPU, e.PeakMemoryBytes = 400*time.Microsecond, 0
			}),
			`{"job":"nightly-report","tick":"2026-11-29T02:00:00Z","run":"01JD","kind":"scheduled","host":"web-1",` +
				`"lock":"nightly-report","token":1795968430725800,"outcome":"succeeded","reason":"",` +
				`"exit_code":0,"started":"2026-11-29T02:00:00Z","ended":"2026-11-29T02:00:00Z","lag_ms":0,"start_ms":0,"duration_ms":0,"cpu_ms":0,` +
				`"attempt":1,"reruns":0,"definition":"9f3c"}`,
		},
		"a tick nobody ran": {
			Entry{Job: "j", Tick: tick, Kind: Scheduled, Outcome: OutcomeSkipped, Reason: "paused"},
			`{"job":"j","tick":"2026-11-29T02:00:00Z","kind":"scheduled","outcome":"skipped","reason":"paused","exit_code":null}`,
		},
		"a range": {
			Entry{Job: "j", Tick: tick, Until: tick.Add(time.Hour), Count: 60, Kind: Scheduled, Outcome: OutcomeMissed, Reason: "no host claimed it in time"},
			`{"job":"j","tick":"2026-11-29T02:00:00Z","until":"2026-11-29T03:00:00Z","count":60,"kind":"scheduled",` +
				`"outcome":"missed","reason":"no host claimed it in time","exit_code":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for what, v := range map[string]any{"value": c.entry, "pointer": &c.entry} {
				got, err := json.Marshal(v)
				if err != nil || string(got) != c.want {
					t.Errorf("Marshal(%s) = %s, %v\nwant %s", what, got, err, c.want)
				}
			}
		})
	}
}

func TestEntry_LagAndAt(t *testing.T) {
	tick := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	run := Entry{Tick: tick, Won: tick.Add(4 * time.Millisecond)}
	if run.Lag() != 4*time.Millisecond || !run.At().Equal(run.Won) {
		t.Errorf("Lag, At = %v, %v, want 4 ms, when it was won", run.Lag(), run.At())
	}
	skip := Entry{Tick: tick, Until: tick.Add(time.Hour)}
	if skip.Lag() != 0 || !skip.At().Equal(skip.Until) {
		t.Errorf("Lag, At of a range = %v, %v, want 0, its end", skip.Lag(), skip.At())
	}
}

func TestHost_JSON(t *testing.T) {
	h := Host{
		Name: "web-1", ID: "01JD", Version: "1.2.3", Table: "9f3c", Labels: []string{"db", "eu"},
		ClockOffset: -1500 * time.Microsecond, Running: 2, Draining: true, Beat: time.Unix(1, 0),
	}
	want := `{"name":"web-1","id":"01JD","version":"1.2.3","table":"9f3c","labels":["db","eu"],"running":2,"draining":true,"clock_offset_ms":-1}`
	got, err := json.Marshal(h)
	if err != nil || string(got) != want {
		t.Errorf("Marshal() = %s, %v\nwant %s", got, err, want)
	}
	var back Host
	if err := json.Unmarshal(got, &back); err != nil || back.Name != "web-1" || back.ClockOffset != -time.Millisecond || len(back.Labels) != 2 || !back.Draining {
		t.Errorf("Unmarshal() = %+v, %v, want the host, its offset in whole milliseconds", back, err)
	}
	if got, _ := json.Marshal(Host{Name: "x"}); string(got) != `{"name":"x","id":"","version":"","table":"","labels":[],"running":0,"draining":false,"clock_offset_ms":0}` {
		t.Errorf("Marshal(no labels) = %s, want an empty list", got)
	}
	if err := json.Unmarshal([]byte(`{"name":7}`), &back); err == nil {
		t.Error("Unmarshal(a number for a name) = nil, want an error")
	}
}

package cli

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// writeAll writes the view as tables, for lines of so many characters (0: any), and below them a line for
// each thing to know.
func (v *view) writeAll(w *bytes.Buffer, s *session, columns int, colour bool) {
	if len(v.Jobs) > 0 {
		// A token is long, and for those who look into a store. LAST shows a lag that matters.
		shapes := []shape{
			{},
			{omit: []string{"TOKEN"}},
			{omit: []string{"TOKEN"}, brief: distance},
			{omit: []string{"TOKEN"}, brief: bare},
			{omit: []string{"TOKEN", "LAG"}, brief: bare},
			{omit: []string{"TOKEN", "LAG", "HOLDER"}, brief: bare},
		}
		t := fit(columns, shapes, func(brief brevity) *table { return v.jobTable(colour, brief) })
		_, _ = t.WriteTo(w)
	} else {
		fmt.Fprintf(w, "no jobs in %s\n", s.cfg.Path)
	}
	if len(v.Hosts) > 0 {
		fmt.Fprintln(w)
		// STATE tells of a table that is another.
		shapes := []shape{
			{},
			{omit: []string{"TABLE"}},
			{omit: []string{"TABLE", "VERSION"}},
			{omit: []string{"TABLE", "VERSION", "CLOCK"}},
		}
		t := fit(columns, shapes, func(brevity) *table { return v.hostTable(colour) })
		_, _ = t.WriteTo(w)
	}
	v.writeBelow(w, func(notes *bytes.Buffer) { v.writeNotes(notes, s) })
}

// jobTable has a line for each job.
func (v *view) jobTable(colour bool, brief brevity) *table {
	t := newTable(colour, "STATE", "JOB", "STATE", "NEXT", "LAST", "HOLDER", "TOKEN", "LAG")
	for i := range v.Jobs {
		j := &v.Jobs[i]
		holder := "-"
		if j.Running {
			holder = *j.Holder
			if brief < bare {
				holder += " for " + span(v.Now.Sub(j.newest.Won)) + kindOf(j.newest)
			}
			holder += more(j)
		}
		t.row(j.Name, word(j.State), v.nextOf(j, brief), v.last(j, brief), holder, tokenOf(j.newest), lagOf(j.newest))
	}
	return t
}

func (v *view) hostTable(colour bool) *table {
	t := newTable(colour, "STATE", "HOST", "STATE", "VERSION", "TABLE", "CLOCK", "RUNNING")
	for _, host := range v.Hosts {
		t.row(host.Name, v.hostState(&host), host.Version, host.Table, offset(host.ClockOffset), places(&host))
	}
	return t
}

// writeJob writes the only job of the view, in full.
func (v *view) writeJob(w *bytes.Buffer, s *session) {
	j := &v.Jobs[0]
	t := newTable(false, "")
	t.row("job", j.Name)
	t.row("state", word(j.State))
	if j.fault != nil {
		t.row("", faultText(j.fault))
	}
	v.rowPaused(t, "paused", "", j.own)
	v.rowPaused(t, "every host", "paused ", j.every)
	v.rowPaused(t, "fleet", "paused ", v.Pause)
	if !j.cursor.IsZero() {
		t.row("cursor", stamp(j.cursor)+", "+since(j.cursor, v.Now)+": 'rota reset "+j.Name+"' takes it back to now")
	}
	t.row("schedule", j.Schedule+" ("+j.Timezone+")")
	if j.Next != nil {
		t.row("next", fmt.Sprintf("%s, %s", stamp(*j.Next), since(*j.Next, v.Now)))
		if zone := j.job.Schedule.Location(); zone.String() != "UTC" {
			t.row("", j.Next.In(zone).Format(localFormat)+" there")
		}
		if j.Start != nil {
			t.row("", fmt.Sprintf("it starts %s later, by its splay: %s, %s", took(j.Start.Sub(*j.Next)), stamp(*j.Start), since(*j.Start, v.Now)))
		}
	} else {
		t.row("next", "-")
	}
	t.row("last", v.last(j, wordy))
	if e := j.Last; e != nil {
		if e.Run != "" {
			t.row("", fmt.Sprintf("run %s on %s, took %s", e.Run, e.Host, tookOf(e)))
		}
		if reason := reasonOf(e, v.Now); reason != "" {
			t.row("", reason)
		}
	}
	if j.unrun != nil && j.unrun != j.Last {
		t.row(j.unrun.Outcome, reasonOf(j.unrun, v.Now))
	}
	holder := "-"
	if j.Running {
		holder = fmt.Sprintf("%s for %s%s, run %s", *j.Holder, span(v.Now.Sub(j.newest.Won)), kindOf(j.newest), *j.Run)
		if j.left > 0 {
			holder += fmt.Sprintf("; the lease lasts %s unless it is renewed", span(j.left))
		}
	}
	t.row("holder", holder)
	for _, g := range j.Runs[min(1, len(j.Runs)):] {
		t.row("", fmt.Sprintf("%s for %s, run %s of tick %s under token %d", g.Host, span(v.Now.Sub(g.Since)), g.Run, stamp(g.Tick), g.Token))
	}
	if len(j.job.Hosts) > 0 {
		t.row("hosts", strings.Join(j.job.Hosts, ", "))
	}
	if j.Waiting != nil {
		t.row("waiting", "tick "+stamp(*j.Waiting)+" waits for the lock")
	}
	t.row("token", tokenOf(j.newest))
	t.row("lag", lagOf(j.newest))
	_, _ = t.WriteTo(w)
	v.writeBelow(w, func(notes *bytes.Buffer) { v.writeHostNotes(notes, s) })
}

// faultText says what keeps a job from being claimed that somebody else has put there.
func faultText(err error) string {
	return plain(err.Error()) + ": it is not ours, and the job is not claimed until it is gone"
}

// rowPaused says of a pause all there is; its reason has a row of its own.
func (v *view) rowPaused(t *table, name, what string, h *ledger.Pause) {
	if h == nil {
		return
	}
	until := stamp(h.Until) + " (" + since(h.Until, v.Now) + ")"
	t.row(name, what+byUntil(h, until)+", since "+stamp(h.From))
	if h.Why != "" {
		t.row("", h.Why)
	}
}

// writeBelow separates notes from what stands above them, if there are any.
func (v *view) writeBelow(w *bytes.Buffer, write func(*bytes.Buffer)) {
	var notes bytes.Buffer
	if write(&notes); notes.Len() > 0 {
		fmt.Fprintln(w)
		_, _ = notes.WriteTo(w)
	}
}

// writeNotes says what the tables have no room for: why jobs are not as they should be.
func (v *view) writeNotes(w *bytes.Buffer, s *session) {
	if h := v.Pause; h != nil {
		fmt.Fprintf(w, "the fleet is %s\n", pausedText(h, clock(h.Until, v.Now)))
	}
	everywhere := "" // the job whose pause on every host was told last
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.fault != nil {
			fmt.Fprintf(w, "%s: %s\n", j.Name, faultText(j.fault))
		}
		if h := j.every; h != nil && everywhere != j.job.Name {
			everywhere = j.job.Name // they stand together
			fmt.Fprintf(w, "%s: on every host %s\n", everywhere, pausedText(h, clock(h.Until, v.Now)))
		}
		if h := j.own; h != nil {
			fmt.Fprintf(w, "%s: %s\n", j.Name, pausedText(h, clock(h.Until, v.Now)))
		}
		if !j.cursor.IsZero() {
			fmt.Fprintf(w, "%s: future: the newest tick decided, %s, lies ahead of redis' clock; 'rota reset %s' takes it back to now\n",
				j.Name, clock(j.cursor, v.Now), j.Name)
		}
		if j.Waiting != nil {
			fmt.Fprintf(w, "%s: tick %s waits for the lock\n", j.Name, clock(*j.Waiting, v.Now))
		}
		v.writeNoHost(w, j)
		if j.Last != nil && j.Last.Outcome != string(jobs.Succeeded) {
			v.writeNote(w, j.Last)
		}
		// Ticks that fall by the wayside beside runs that succeed: nothing in the table shows it.
		if j.unrun != nil && j.unrun != j.Last {
			v.writeNote(w, j.unrun)
		}
	}
	v.writeHostNotes(w, s)
}

// writeNoHost says why a job has no host, where others are there that claim.
func (v *view) writeNoHost(w *bytes.Buffer, j *jobView) {
	if j.State != "no_host" || !slices.ContainsFunc(v.Hosts, func(h hostView) bool { return h.claims() }) {
		return
	}
	switch {
	case j.job.host != "":
		fmt.Fprintf(w, "%s: its host does not claim\n", plain(j.Name))
	case len(j.job.Hosts) > 0:
		fmt.Fprintf(w, "%s: no host that may run it is there and claims: hosts = %s\n", j.Name, strings.Join(j.job.Hosts, ", "))
	}
}

func (v *view) writeNote(w *bytes.Buffer, e *ledger.Entry) {
	text := e.Job + ": " + e.Outcome
	if reason := reasonOf(e, v.Now); reason != "" {
		text += ": " + reason
	}
	if e.Run != "" {
		text += " (run " + e.Run + ")"
	}
	fmt.Fprintln(w, plain(text))
}

func (v *view) writeHostNotes(w *bytes.Buffer, s *session) {
	claiming := slices.ContainsFunc(v.Hosts, func(h hostView) bool { return h.claims() })
	switch {
	case len(v.Hosts) == 0:
		fmt.Fprintln(w, "no host is there: nothing runs until one is started with 'rota run'")
	case !claiming:
		fmt.Fprintln(w, "no host claims: all that are there are drained, or about to stop")
	}
	for _, h := range v.Hosts {
		if h.Drained != nil {
			fmt.Fprintln(w, drainedText(h.Name, *h.Drained))
		}
		if h.Table != v.Table {
			fmt.Fprintf(w, "%s has another table (%s) than %s (%s)\n", plain(h.Name), plain(h.Table), s.configName(), v.Table)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.away)) {
		fmt.Fprintln(w, drainedText(name, v.away[name])+" (it is not there)")
	}
}

// drainedText says by whom a host is drained, and why.
func drainedText(host string, by ledger.By) string {
	text := host + ": drained"
	if by.Who != "" {
		text += " by " + by.Who
	}
	if by.Why != "" {
		text += ": " + by.Why
	}
	return plain(text)
}

func (v *view) hostState(h *hostView) string {
	switch {
	case h.Drained != nil:
		return "drained"
	case h.Draining:
		return "draining"
	case h.Table != v.Table:
		return "other table"
	case h.MaxRuns > 0 && h.Running >= h.MaxRuns:
		return "full"
	}
	return "ok"
}

// nextOf is the next tick of a job, and with a splay when it starts for it.
func (v *view) nextOf(j *jobView, brief brevity) string {
	switch {
	case j.Next == nil:
		return "-"
	case brief >= distance:
		return since(*j.Next, v.Now)
	}
	text := since(*j.Next, v.Now) + ", " + clock(*j.Next, v.Now)
	if j.Start != nil {
		text += " (starts " + clock(*j.Start, v.Now) + ")"
	}
	return text
}

// kindOf tells what a run is for, unless it is the usual.
func kindOf(e *ledger.Entry) string {
	if e == nil || e.Kind == "" || e.Kind == ledger.Scheduled {
		return ""
	}
	return " (" + plain(string(e.Kind)) + ")"
}

// more tells how many runs go on beside the newest.
func more(j *jobView) string {
	if n := len(j.Runs) - 1; n > 0 {
		return ", and " + strconv.Itoa(n) + " more"
	}
	return ""
}

// places is how many runs a host has, of how many it may have.
func places(h *hostView) string {
	if h.MaxRuns == 0 {
		return strconv.Itoa(h.Running)
	}
	return strconv.Itoa(h.Running) + "/" + strconv.Itoa(h.MaxRuns)
}

// last is the newest outcome and when that was.
func (v *view) last(j *jobView, brief brevity) string {
	if j.Last == nil {
		return "-"
	}
	at := endOf(j.Last)
	text := j.Last.Outcome + " " + since(at, v.Now)
	if brief >= distance {
		return text
	}
	return text + ", " + clock(at, v.Now)
}

// word is a state as people read it; the JSON has no blanks in it.
func word(state string) string {
	if state == "no_host" {
		return "no host"
	}
	return state
}

// offset is how far a clock is ahead.
func offset(d time.Duration) string {
	if d < 0 {
		return "-" + took(-d)
	}
	return "+" + took(d)
}

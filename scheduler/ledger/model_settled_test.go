package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// settled checks what must be true once the faults are over.
func (w *world) settled() {
	if len(w.faults) > 0 {
		return
	}
	states, err := w.led.State(w.t.Context(), []string{"j", "k"})
	if err != nil {
		w.fault("State() = %v", err)
		return
	}
	for _, s := range states {
		entries, err := w.led.History(w.t.Context(), Query{Jobs: []string{s.Job}})
		if err != nil {
			w.fault("History() = %v", err)
			return
		}
		w.accounted(s, entries)
		w.appended(s.Job)
		if !s.Open.IsZero() {
			w.fault("tick %s of %s is still open", w.since(s.Open), s.Job)
		}
		w.notBlocked(s, entries)
	}
	if open := w.client.SMembers(w.t.Context(), "{m}:open").Val(); len(open) > 0 {
		w.fault("heartbeats are still told of ticks given back: %v", open)
	}
	if left := w.client.XLen(w.t.Context(), "{m}:requests").Val(); left != 0 {
		w.fault("%d requests were never answered", left)
	}
}

// accounted checks that every tick ran or has its reason, and that no entry is made up.
func (w *world) accounted(s JobState, entries []Entry) {
	grids := []grid{grid(w.jobs[s.Job].every), grid(w.edited[s.Job].every)}
	ran, other := map[string][]Entry{}, map[string][]string{}
	answers := map[string]int{}
	for _, e := range entries {
		if e.Request != "" {
			answers[e.Request]++
		}
		if e.Kind == Manual {
			if _, ok := w.asked[e.Request]; !ok && len(w.flushes) == 0 {
				w.fault("an entry for request %q, which nobody made", e.Request)
			}
		}
		if e.Run != "" {
			if e.Kind != Manual {
				ran[of(s.Job, e.Tick)] = append(ran[of(s.Job, e.Tick)], e)
			}
			w.entryIsTrue(e)
			continue
		}
		if e.Kind == Manual {
			continue
		}
		last, step := e.Tick, min(grids[0], grids[1])
		if e.Count > 0 {
			last = e.Until
		}
		for t := e.Tick; !t.After(last); t = t.Add(time.Duration(step)) {
			other[of(s.Job, t)] = append(other[of(s.Job, t)], e.Outcome+": "+e.Reason)
			if at := t.Sub(w.epoch); s.Job == "j" && e.Reason == unclaimed && w.pausedAt(at) {
				w.fault("tick %s of %s is missed, and there was a pause", w.since(t), s.Job)
			}
			if !t.Equal(step.at(t)) {
				w.fault("an entry of tick %s, which is none: %s", w.since(t), e.Reason)
			}
		}
	}
	from := w.epoch.Add(w.created[s.Job])
	if w.jobs[s.Job].hash != w.edited[s.Job].hash {
		from = w.epoch.Add(max(w.created[s.Job], slices.Max(w.edits))) // by one of the tables it was not due
	}
	step := max(grids[0], grids[1])
	for t := step.at(from).Add(time.Duration(step)); !t.After(s.Cursor); t = t.Add(time.Duration(step)) {
		key := of(s.Job, t)
		if len(ran[key])+len(other[key]) == 0 {
			w.fault("tick %s of %s is unaccounted for", w.since(t), s.Job)
		}
	}
	w.rerunOrReason(s, ran, other)
	for key, why := range other {
		if len(why) > 1 {
			w.fault("%s has more than one reason not to have run: %q", key, why)
		}
		for _, e := range ran[key] {
			forgot := w.flushedBetween(w.granted[e.Run].at, w.now)
			if !strings.HasPrefix(why[0], "skipped: its rerun was") && (!forgot || why[0] == "missed: "+unclaimed) {
				w.fault("%s ran (%s, %s), and there is %q", key, e.Run, e.Outcome, why)
			}
		}
	}
	if s.Job == "j" {
		for id := range w.asked {
			if answers[id] != 1 {
				w.fault("request %s has %d entries, want 1", id, answers[id])
			}
		}
	}
}

// unclaimed is the reason of a tick in a gap.
const unclaimed = "no host claimed it in time"

// pausedAt tells whether an instant lies in a pause that has ended.
func (w *world) pausedAt(at time.Duration) bool {
	return slices.ContainsFunc(w.paused, func(p span) bool {
		return p.from.Truncate(time.Millisecond) <= at && at < p.until.Truncate(time.Millisecond)
	})
}

// appended checks that of each run there is one start and one end at most, however often they
// were sent, and that a run which could have been run again was, or has its reason.
func (w *world) appended(job string) {
	counts := map[string]int{}
	for _, m := range w.client.XRange(w.t.Context(), "{m}:job:"+job+":runs", "-", "+").Val() {
		counts[fmt.Sprint(m.Values["ev"], " of ", m.Values["run"])]++
	}
	for what, n := range counts {
		if n > 1 {
			w.fault("%d times the %s", n, what)
		}
	}
}

// rerunOrReason checks that a tick whose only run died was run again, or is said not to be.
func (w *world) rerunOrReason(s JobState, ran map[string][]Entry, other map[string][]string) {
	if w.jobs[s.Job].onCrash != "rerun" || w.edited[s.Job].onCrash != "rerun" || len(w.flushes) > 0 {
		return
	}
	for key, runs := range ran {
		e := runs[0]
		newest := s.Last != nil && (s.Last.Run == e.Run || s.Last.Won.Before(e.Won))
		if len(runs) == 1 && e.Kind != Rerun && !newest && (e.Outcome == OutcomeLost || e.Outcome == "interrupted") && len(other[key]) == 0 && !w.overlaps(s.Job) {
			w.fault("%s ended %s, was not run again, and nothing says why", key, e.Outcome)
		}
	}
}

// overlaps tells whether runs of a job may overlap: then only the newest is run again.
func (w *world) overlaps(job string) bool {
	return w.jobs[job].overlap == "allow" || w.edited[job].overlap == "allow"
}

// entryIsTrue checks a run's entry against what really happened.
func (w *world) entryIsTrue(e Entry) {
	if _, ok := w.granted[e.Run]; !ok {
		w.fault("an entry of run %s, which was never granted", e.Run)
	}
	if w.abandoned[e.Run] {
		w.fault("an entry of run %s (%s), which was given back", e.Run, e.Outcome)
	}
	reported, ok := w.reported[e.Run]
	switch {
	case ok && e.Outcome != reported:
		w.fault("%s is %s (%s), and its host reported %s", e.Run, e.Outcome, e.Reason, reported)
	case !ok && e.Outcome != OutcomeLost && e.Outcome != OutcomeRunning && len(w.flushes) == 0:
		w.fault("%s is %s, and nobody reported that", e.Run, e.Outcome)
	}
}

// notBlocked checks that the last ticks ran as if nothing had ever happened.
func (w *world) notBlocked(s JobState, entries []Entry) {
	if s.Running && s.Left > modelTTL {
		w.fault("%s holds its lease for %v", s.Job, s.Left)
	}
	every := max(w.jobs[s.Job].every, w.edited[s.Job].every)
	newest := grid(every).at(w.time().Add(-modelGap / 2))
	if s.Cursor.Before(newest) {
		w.fault("the cursor of %s is at %s, and %s was due", s.Job, w.since(s.Cursor), w.since(newest))
	}
	// By then the longest run of before has ended.
	for t := newest; t.After(w.epoch.Add(modelFaults + modelLong + modelTTL)); t = t.Add(-every) {
		if !slices.ContainsFunc(entries, func(e Entry) bool {
			return e.Tick.Equal(t) && (e.Run != "" && e.Outcome != OutcomeLost || strings.HasSuffix(e.Reason, " for k") || strings.HasSuffix(e.Reason, " for j"))
		}) {
			w.fault("tick %s of %s did not run: it is blocked", w.since(t), s.Job)
		}
	}
}

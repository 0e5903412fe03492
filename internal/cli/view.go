package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// view is a fleet as it is at one instant; its JSON is that of status.
type view struct {
	Namespace string        `json:"namespace"`
	Table     string        `json:"table"` // hash of the table of this config
	Now       time.Time     `json:"now"`   // by Redis' clock
	Pause     *ledger.Pause `json:"pause"` // of the whole fleet; null: none
	Jobs      []jobView     `json:"jobs"`
	Hosts     []hostView    `json:"hosts"`

	away map[string]ledger.By // hosts that were drained and are not there
}

// jobView is one job. What there is none of is null.
type jobView struct {
	Name     string        `json:"name"`
	Schedule string        `json:"schedule"`
	Timezone string        `json:"timezone"`
	Enabled  bool          `json:"enabled"`
	State    string        `json:"state"`
	Next     *time.Time    `json:"next"` // the next tick that can run
	Last     *ledger.Entry `json:"last"` // the newest outcome; of a run that ended, or of a tick nobody ran
	Holder   *string       `json:"holder"`
	Run      *string       `json:"run"` // that is running
	Token    *int64        `json:"token"`
	Waiting  *time.Time    `json:"waiting"` // the tick that waits for the lock
	Paused   bool          `json:"paused"`
	Pause    *ledger.Pause `json:"pause"` // its own, that on every host, or the fleet's: the one that ends last
	Running  bool          `json:"running"`

	Start *time.Time     `json:"start"` // when it starts for the next tick, if it has a splay
	Runs  []ledger.Going `json:"runs"`  // all that are running, the newest first: several only where they may overlap

	job    ref
	newest *ledger.Entry // the newest run, running or not
	unrun  *ledger.Entry // the newest skip or miss, if it is of a later tick than the last run that ended
	left   time.Duration // of the newest run's lease, if it is running
	own    *ledger.Pause // the pause of the job itself
	every  *ledger.Pause // that of what it is on every host
	fault  error         // a key of the job that holds something else
	cursor time.Time     // if it lies in the future
}

// hostView is a host, and who drained it.
type hostView struct {
	ledger.Host
	Drained *ledger.By // nil: nobody
}

// MarshalJSON adds to what the host says of itself what was said to it.
func (h hostView) MarshalJSON() ([]byte, error) {
	said, err := json.Marshal(h.Host)
	if err != nil {
		return nil, err
	}
	drained, err := json.Marshal(h.Drained)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(said[:len(said)-1], `,"drained":%s}`, drained), nil
}

// claims tells whether the host takes part in the races.
func (h *hostView) claims() bool { return !h.Draining && h.Drained == nil }

// view reads the fleet's state, of one job unless only is "".
func (s *session) view(ctx context.Context, only string) (*view, error) {
	v := &view{Namespace: s.cfg.Namespace, Table: s.cfg.TableHash(), Jobs: []jobView{}}
	hosts, err := ask(ctx, s, s.led.Hosts)
	if err != nil {
		return nil, err
	}
	table := s.table()
	if only != "" {
		r, err := findRef(s.cfg, only)
		if err != nil {
			return nil, err
		}
		table = []ref{r}
	}
	table = spread(table, hosts)
	names := keys(table)
	steering, err := ask(ctx, s, s.led.Steering)
	if err != nil {
		return nil, err
	}
	// Of a job that runs on every host, and no host is there, the ledger knows no more than its pause.
	records := make([]string, len(table))
	for i, r := range table {
		records[i] = r.pauseKey()
	}
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) { return s.led.State(ctx, records) })
	if err != nil {
		return nil, err
	}
	// Eight hold a run that goes on, the last one that ended, and all that is known of it.
	recent, err := ask(ctx, s, func(ctx context.Context) (all [][]ledger.Entry, err error) {
		all, v.Now, err = s.led.Recent(ctx, names, 8)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	if h, ok := steering.Paused[ledger.AllJobs]; ok && h.Active(v.Now) {
		v.Pause = &h
	}
	v.addHosts(hosts, steering.Drained)
	for i, r := range table {
		v.Jobs = append(v.Jobs, viewJob(r, &states[i], recent[i], v.claiming(r), v.Now))
	}
	return v, nil
}

// addHosts sorts the hosts that are there from those that are only drained.
func (v *view) addHosts(hosts []ledger.Host, drained map[string]ledger.By) {
	v.Hosts, v.away = []hostView{}, drained
	for _, host := range hosts {
		h := hostView{Host: host}
		if by, ok := v.away[h.Name]; ok {
			h.Drained = &by
			delete(v.away, h.Name)
		}
		v.Hosts = append(v.Hosts, h)
	}
}

// claiming is how many hosts claim the ticks of a job.
func (v *view) claiming(r ref) (n int) {
	for _, h := range v.Hosts {
		if h.claims() && r.mayRun(h.Host) {
			n++
		}
	}
	return n
}

// viewJob puts together what is known of a job, on a fleet of so many hosts that claim its ticks.
func viewJob(r ref, state *ledger.JobState, entries []ledger.Entry, claiming int, now time.Time) jobView {
	v := jobView{
		Name: r.key, Schedule: strings.Join(r.Schedule.Specs(), "; "), Timezone: r.Timezone, Enabled: r.Enabled,
		Paused: state.Paused, Pause: state.PausedBy(), Runs: state.Going, job: r, own: state.Pause, every: state.EveryPause, fault: state.Err,
	}
	if v.Runs == nil {
		v.Runs = []ledger.Going{}
	}
	if state.Future {
		v.cursor = state.Cursor
	}
	if next, ok := v.next(state.Cursor, now); ok {
		v.Next = &next
		if r.Splay > 0 && !r.everywhere() {
			v.Start = new(next.Add(r.delay()))
		}
	}
	if !state.Waiting.IsZero() {
		v.Waiting = &state.Waiting
	}
	running := v.sort(entries)
	if len(v.Runs) > 0 && (running == nil || running.Run != v.Runs[0].Run) {
		// Of many that overlap, its start lies further back than was read; it is in the record.
		running = entryOf(r.key, &v.Runs[0])
		if v.newest == nil || v.newest.Token < running.Token {
			v.newest = running
		}
	}
	if running != nil {
		v.Running, v.Holder, v.Run, v.newest = true, &running.Host, &running.Run, running
		if state.HolderRun == running.Run {
			v.left = state.Left
		}
	}
	if v.newest != nil {
		v.Token = &v.newest.Token
	}
	v.State = v.state(claiming)
	return v
}

// entryOf is the history's entry of a run that goes on.
func entryOf(job string, g *ledger.Going) *ledger.Entry {
	return &ledger.Entry{
		Job: job, Tick: g.Tick, Run: g.Run, Kind: g.Kind, Host: g.Host, Token: g.Token, Won: g.Since,
		Outcome: ledger.OutcomeRunning,
	}
}

// next is the next tick that can run, if nobody changes anything: one whose start is still to come,
// and that is not decided. One that is due at the very end of a pause can. A pause without an end has it
// beyond the last tick there is.
func (v *jobView) next(cursor, now time.Time) (time.Time, bool) {
	if !v.Enabled {
		return time.Time{}, false
	}
	after := now.Add(-v.job.delay())
	if cursor.After(after) && cursor.Before(now) {
		after = cursor
	}
	if v.Pause != nil {
		after = v.Pause.Until.Add(-1)
	}
	if v.cursor.After(after) {
		after = v.cursor
	}
	return v.job.Schedule.Next(after)
}

// sort finds among the entries of the job those that matter now, and returns the run that is
// running, nil if none is.
func (v *jobView) sort(entries []ledger.Entry) (running *ledger.Entry) {
	var ended, unrun *ledger.Entry
	for i := range entries {
		e := &entries[i]
		if e.Token > 0 && (v.newest == nil || e.Token > v.newest.Token) {
			v.newest = e
		}
		switch {
		case e.Run == "" && e.Kind == ledger.Manual:
			// A request that was refused; who asked was told, and no tick went without a run.
		case e.Run == "":
			unrun = later(unrun, e)
		case e.Outcome != ledger.OutcomeRunning:
			ended = later(ended, e)
		case running == nil || e.Token > running.Token:
			running = e
		}
	}
	if unrun != nil && (ended == nil || unrun.At().After(ended.At())) {
		v.unrun = unrun
	}
	v.Last = later(ended, unrun)
	return running
}

// later is the entry that got its outcome last; either may be nil.
func later(a, b *ledger.Entry) *ledger.Entry {
	if a == nil || b != nil && endOf(b).After(endOf(a)) {
		return b
	}
	return a
}

// state is the one word for a job: what keeps it from running, or what it does, or how it went.
func (v *jobView) state(claiming int) string {
	switch {
	case !v.Enabled:
		return "disabled"
	case v.fault != nil:
		return "conflict"
	case v.Paused:
		return "paused"
	case v.Running:
		return "running"
	case !v.cursor.IsZero():
		return "future"
	case claiming == 0:
		return "no_host"
	case v.Waiting != nil:
		return "waiting"
	case v.Last == nil:
		return "new"
	case v.Last.Outcome == string(jobs.Succeeded):
		return "ok"
	}
	return v.Last.Outcome
}

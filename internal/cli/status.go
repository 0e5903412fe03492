package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/jobs"
	"rota/scheduler/ledger"
)

func (a *app) statusCmd() *cobra.Command {
	var watch, asJSON bool
	c := &cobra.Command{
		Use:   "status [JOB]",
		Short: "Show jobs and hosts as they are now",
		Long: `Show the jobs of the table, or one of them in full, and the hosts of the fleet.

STATE is ok only for a job that will run and whose last tick succeeded. It is disabled, paused,
running, waiting (a tick waits for the lock), no host (nobody is there to run it), new (nothing
is recorded yet), or else the last outcome: failed, timed_out, lost, cancelled, interrupted,
skipped, missed. HOLDER is the host that holds the job's lease; TOKEN and LAG, how late it was
won, are of the newest run. TABLE is a hash of a host's table, CLOCK how far its clock is ahead
of Redis'. Times are by Redis' clock.

With --watch it is drawn again every second until interrupted; where standard output is no
terminal, printed again, with --json an object a line.`,
		Example: `  rota status --watch
  rota status --json | jq -r '.jobs[] | select(.state != "ok") | .name'`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.status(c.Context(), args, watch, asJSON) },
	}
	c.Flags().BoolVar(&watch, "watch", false, "again every second")
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: jobs, hosts")
	return c
}

func (a *app) status(ctx context.Context, args []string, watch, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	only := ""
	if len(args) > 0 {
		if _, err := findJob(s.cfg, args[0]); err != nil {
			return err
		}
		only = args[0]
	}
	// A whole answer is written at once: half a table is none.
	show := func(v *view, w io.Writer) error {
		var text bytes.Buffer
		switch {
		case asJSON:
			if err := json.NewEncoder(&text).Encode(v); err != nil {
				return err
			}
		case only != "":
			v.writeJob(&text, s)
		default:
			v.writeAll(&text, s, a.colours())
		}
		_, err := w.Write(text.Bytes())
		return err
	}
	if watch {
		return a.watch(ctx, asJSON, func(ctx context.Context) (*view, error) { return s.view(ctx, only) }, show)
	}
	v, err := s.view(ctx, only)
	if err != nil {
		return err
	}
	return show(v, a.stdout)
}

// view is a fleet as it is at one instant; its JSON is that of status.
type view struct {
	Namespace string        `json:"namespace"`
	Table     string        `json:"table"` // hash of the table of this config
	Now       time.Time     `json:"now"`   // by Redis' clock
	Jobs      []jobView     `json:"jobs"`
	Hosts     []ledger.Host `json:"hosts"`
}

// jobView is one job. What there is none of is null.
type jobView struct {
	Name     string        `json:"name"`
	Schedule string        `json:"schedule"`
	Timezone string        `json:"timezone"`
	Enabled  bool          `json:"enabled"`
	State    string        `json:"state"`
	Next     *time.Time    `json:"next"`
	Last     *ledger.Entry `json:"last"` // the newest outcome; of a run that ended, or of a tick nobody ran
	Holder   *string       `json:"holder"`
	Run      *string       `json:"run"` // that is running
	Token    *int64        `json:"token"`
	Waiting  *time.Time    `json:"waiting"` // the tick that waits for the lock
	Paused   bool          `json:"paused"`
	Running  bool          `json:"running"`

	job    *config.Job
	newest *ledger.Entry // the newest run, running or not
	unrun  *ledger.Entry // the newest skip or miss, if it is of a later tick than the last run that ended
	left   time.Duration // of the newest run's lease, if it is running
}

// view reads the fleet's state, of one job unless only is "".
func (s *session) view(ctx context.Context, only string) (*view, error) {
	var table []*config.Job
	var names []string
	for i := range s.cfg.Jobs {
		if j := &s.cfg.Jobs[i]; only == "" || j.Name == only {
			table, names = append(table, j), append(names, j.Name)
		}
	}
	v := &view{Namespace: s.cfg.Namespace, Table: s.cfg.TableHash(), Jobs: []jobView{}}
	hosts, err := ask(ctx, s, s.led.Hosts)
	if err != nil {
		return nil, err
	}
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) { return s.led.State(ctx, names) })
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
	v.Hosts = append([]ledger.Host{}, hosts...)
	for i, j := range table {
		v.Jobs = append(v.Jobs, viewJob(j, &states[i], recent[i], len(hosts), v.Now))
	}
	return v, nil
}

// viewJob puts together what is known of a job.
func viewJob(j *config.Job, state *ledger.JobState, entries []ledger.Entry, hosts int, now time.Time) jobView {
	v := jobView{
		Name: j.Name, Schedule: strings.Join(j.Schedule.Specs(), "; "), Timezone: j.Timezone,
		Enabled: j.Enabled, Paused: state.Paused, job: j,
	}
	if next, ok := j.Schedule.Next(now); ok && j.Enabled {
		v.Next = &next
	}
	if !state.Waiting.IsZero() {
		v.Waiting = &state.Waiting
	}
	running := v.sort(entries)
	if running != nil {
		v.Running, v.Holder, v.Run, v.newest = true, &running.Host, &running.Run, running
		if state.HolderRun == running.Run {
			v.left = state.Left
		}
	}
	if v.newest != nil {
		v.Token = &v.newest.Token
	}
	v.State = v.state(hosts)
	return v
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
func (v *jobView) state(hosts int) string {
	switch {
	case !v.Enabled:
		return "disabled"
	case v.Paused:
		return "paused"
	case v.Running:
		return "running"
	case hosts == 0:
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

package cli

import (
	"bufio"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rota/scheduler"
)

// nextFlags are the flags of next.
type nextFlags struct {
	limit       int
	from, until string
	json        bool
}

func (a *app) nextCmd() *cobra.Command {
	var f nextFlags
	c := &cobra.Command{
		Use:   "next [JOB]",
		Short: "List the coming ticks",
		Long: `List the coming ticks of all jobs, or of one, in UTC and in the zone of the job.

They are computed from the config alone. A tick is after --from, and not after --until. A time
T is RFC 3339, as 2026-11-01T03:00:00Z, or a duration from now, as 36h or 14d. START is when a job
with a splay starts for the tick; that of one that runs on every host is told of JOB@HOST.`,
		Example: `  rota next nightly-report -n 3
  rota next --from 2026-10-24T22:00:00Z --until 2026-10-26T06:00:00Z`,
		Args: takes("[JOB]"),
		RunE: func(_ *cobra.Command, args []string) error { return a.next(args, f) },
	}
	c.Flags().IntVarP(&f.limit, "number", "n", 10, "at most `N` ticks in all")
	c.Flags().StringVar(&f.from, "from", "", "ticks after `T` (default now)")
	c.Flags().StringVar(&f.until, "until", "", "ticks up to and with `T`")
	c.Flags().BoolVar(&f.json, "json", false, "print an object a line: job, tick, local, and start with a splay")
	return c
}

// pageRows are the rows of a page of `rota next`, which has a header of its own: columns are aligned
// in memory, and somebody may ask for a hundred million ticks.
const pageRows = 10000

func (a *app) next(args []string, f nextFlags) error {
	now := time.Now()
	from, until, err := f.window(now)
	if err != nil {
		return err
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	var refs []ref
	for i := range cfg.Jobs {
		refs = append(refs, ref{Job: &cfg.Jobs[i], key: cfg.Jobs[i].Name})
	}
	if len(args) > 0 {
		r, err := findRef(cfg, args[0])
		if err != nil {
			return err
		}
		if !r.Enabled {
			a.note("job %q is disabled: it has no ticks", r.Name)
			return nil
		}
		refs = []ref{r}
	}
	ticks := upTo(scheduler.Plan(nominal(refs), from), f.limit, until)
	if f.json {
		return a.nextJSON(ticks, refs)
	}
	// A splay that no job has needs no column.
	header := []string{"TICK", "LOCAL", "ZONE", "", "JOB"}
	splay := slices.ContainsFunc(refs, func(r ref) bool { return r.Splay > 0 })
	if splay {
		header = slices.Insert(header, 1, "START")
	}
	t, rows := newTable(false, "", header...), 0
	for d := range ticks {
		if rows == pageRows {
			if _, err := t.WriteTo(a.stdout); err != nil {
				return err
			}
			t, rows = newTable(false, "", header...), 0
		}
		rows++
		s, r := d.Job.Schedule, refs[d.Index]
		row := []string{stamp(d.Tick), d.Tick.In(s.Location()).Format(localFormat), s.Zone(), since(d.Tick, now), r.key}
		if splay {
			row = slices.Insert(row, 1, startOf(r, d.Tick))
		}
		t.row(row...)
	}
	_, err = t.WriteTo(a.stdout)
	return err
}

// startOf is when the job starts for a tick, as a cell beside that.
func startOf(r ref, tick time.Time) string {
	switch at := tick.Add(r.delay()); {
	case r.everywhere() && r.Splay > 0:
		return "by host"
	case at.YearDay() != tick.YearDay():
		return stamp(at)
	default:
		return clock(at, tick)
	}
}

// window reads the flags that say which ticks.
func (f *nextFlags) window(now time.Time) (from, until time.Time, err error) {
	if err := atLeastOne(f.limit); err != nil {
		return from, until, err
	}
	from = now
	if f.from != "" {
		if from, err = parseTime("from", f.from, now, ahead); err != nil {
			return from, until, err
		}
	}
	if f.until != "" {
		if until, err = parseTime("until", f.until, now, ahead); err != nil {
			return from, until, err
		}
		if !until.After(from) {
			return from, until, usage("--until: %s is not after %s", until.Format(time.RFC3339), from.UTC().Format(time.RFC3339))
		}
	}
	return from, until, nil
}

// nominal is a table of jobs with every start at its tick, which is the order in which they are
// listed: a splay moves the start, not the tick.
func nominal(refs []ref) []scheduler.Job {
	table := make([]scheduler.Job, len(refs))
	for i, r := range refs {
		table[i] = scheduler.Job{Name: r.key, Schedule: r.Schedule, Disabled: !r.Enabled}
	}
	return table
}

// upTo ends ticks after limit of them, and after until unless that is zero.
func upTo(ticks iter.Seq[scheduler.Due], limit int, until time.Time) iter.Seq[scheduler.Due] {
	return func(yield func(scheduler.Due) bool) {
		n := 0
		for d := range ticks {
			if !until.IsZero() && d.Tick.After(until) || !yield(d) {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

func (a *app) nextJSON(ticks iter.Seq[scheduler.Due], refs []ref) error {
	w := bufio.NewWriter(a.stdout)
	enc := json.NewEncoder(w)
	for d := range ticks {
		r := refs[d.Index]
		line := struct {
			Job   string     `json:"job"`
			Tick  string     `json:"tick"`
			Local string     `json:"local"`           // with its offset: a fold has two of one local time
			Start *time.Time `json:"start,omitempty"` // the tick and the job's splay, where it has one
		}{r.key, d.Tick.UTC().Format(time.RFC3339), d.Tick.In(d.Job.Schedule.Location()).Format(time.RFC3339), nil}
		if r.Splay > 0 && !r.everywhere() {
			line.Start = new(d.Tick.Add(r.delay()).UTC())
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return w.Flush()
}

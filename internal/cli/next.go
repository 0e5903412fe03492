package cli

import (
	"bufio"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
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
T is RFC 3339, as 2026-11-01T03:00:00Z, or a duration from now, as 36h or 14d.`,
		Example: `  rota next nightly-report -n 3
  rota next --from 2026-10-24T22:00:00Z --until 2026-10-26T06:00:00Z`,
		Args: takes("[JOB]"),
		RunE: func(_ *cobra.Command, args []string) error { return a.next(args, f) },
	}
	c.Flags().IntVarP(&f.limit, "number", "n", 10, "at most `N` ticks in all")
	c.Flags().StringVar(&f.from, "from", "", "ticks after `T` (default now)")
	c.Flags().StringVar(&f.until, "until", "", "ticks up to and with `T`")
	c.Flags().BoolVar(&f.json, "json", false, "print an object a line: job, tick, local")
	return c
}

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
	table := nominal(cfg)
	if len(args) > 0 {
		job, err := findJob(cfg, args[0])
		if err != nil {
			return err
		}
		if !job.Enabled {
			a.note("job %q is disabled: it has no ticks", job.Name)
			return nil
		}
		table = slices.DeleteFunc(table, func(j scheduler.Job) bool { return j.Name != job.Name })
	}
	ticks := upTo(scheduler.Plan(table, from), f.limit, until)
	if f.json {
		return a.nextJSON(ticks)
	}
	t := newTable(false, "", "TICK", "LOCAL", "ZONE", "", "JOB")
	for d := range ticks {
		s := d.Job.Schedule
		t.row(stamp(d.Tick), d.Tick.In(s.Location()).Format(localFormat), s.Zone(), since(d.Tick, now), d.Job.Name)
	}
	_, err = t.WriteTo(a.stdout)
	return err
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

// nominal is the table with every start at its tick: a splay moves the start, not the tick.
func nominal(c *config.Config) []scheduler.Job {
	table := c.Table(nil)
	for i := range table {
		table[i].Splay = 0
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

func (a *app) nextJSON(ticks iter.Seq[scheduler.Due]) error {
	w := bufio.NewWriter(a.stdout)
	enc := json.NewEncoder(w)
	for d := range ticks {
		err := enc.Encode(struct {
			Job   string `json:"job"`
			Tick  string `json:"tick"`
			Local string `json:"local"` // with its offset: a fold has two of one local time
		}{d.Job.Name, d.Tick.UTC().Format(time.RFC3339), d.Tick.In(d.Job.Schedule.Location()).Format(time.RFC3339)})
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// historyFlags are the flags of history.
type historyFlags struct {
	limit          int
	outcome, since string
	json           bool
}

// outcomes are all that a history entry can have.
func outcomes() []string {
	return []string{
		ledger.OutcomeRunning, string(jobs.Succeeded), string(jobs.Failed), string(jobs.TimedOut), ledger.OutcomeLost,
		string(jobs.Cancelled), string(jobs.Interrupted), ledger.OutcomeSkipped, ledger.OutcomeMissed,
	}
}

func (a *app) historyCmd() *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:   "history [JOB]",
		Short: "List runs, skips and misses, newest first",
		Long: `List runs, skips and misses of all jobs, or of one, newest first.

LAG is how late a run was won after its tick, TOOK how long it lasted. CPU is the processor time that
all its processes used together, MEM the most memory at a time, page cache included, where the host has
cgroups with a memory controller; elsewhere that of the largest process. Ticks that nobody ran, one after
the other, are one line. A time T is RFC 3339, as 2026-11-29T02:00:00Z, or a duration: that
long ago, as 90m or 14d. A job that is in the ledger and not in the table any more can be named.
One that runs on every host is JOB@HOST on each; JOB alone is all hosts that are there.

Outcomes: ` + strings.Join(outcomes(), ", ") + `.`,
		Example: `  rota history nightly-report -n 5
  rota history --outcome failed --since 24h --json | jq -r .run`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.history(c.Context(), args, f) },
	}
	c.Flags().IntVarP(&f.limit, "number", "n", 20, "at most `N` entries")
	c.Flags().StringVar(&f.outcome, "outcome", "", "only entries with the outcome `X`")
	c.Flags().StringVar(&f.since, "since", "", "nothing before `T`")
	c.Flags().BoolVar(&f.json, "json", false, "print an object a line")
	return c
}

func (a *app) history(ctx context.Context, args []string, f historyFlags) error {
	if _, err := f.query(time.Now()); err != nil {
		return err
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	// The ledger's times are by Redis' clock, and so is what "1h ago" means.
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	q, err := f.query(now)
	if err != nil {
		return err
	}
	refs := s.table()
	var unknown error
	if len(args) > 0 {
		r, err := findRef(s.cfg, args[0])
		refs, unknown = []ref{r}, err
	}
	if unknown != nil {
		q.Jobs = args[:1] // it may have left the table
	} else if refs, err = s.spread(ctx, refs); err != nil {
		return err
	} else {
		q.Jobs = keys(refs)
	}
	entries, err := ask(ctx, s, func(ctx context.Context) ([]ledger.Entry, error) { return s.led.History(ctx, q) })
	switch {
	case err != nil:
		return err
	case len(entries) == 0 && unknown != nil:
		return unknown
	case f.json:
		return a.historyJSON(entries)
	case len(entries) == 0:
		a.note("the ledger has no such entries")
		return nil
	}
	return a.historyTable(entries, now, len(q.Jobs) == 1 && len(args) > 0)
}

// historyTable prints entries for people, of one job without the column that would say so.
func (a *app) historyTable(entries []ledger.Entry, now time.Time, one bool) error {
	header := []string{"TICK", "", "JOB", "OUTCOME", "HOST", "TOKEN", "LAG", "TOOK", "CPU", "MEM", "RUN", "REASON"}
	if one {
		header = slices.Delete(header, 2, 3)
	}
	t := newTable(a.colours(), "OUTCOME", header...)
	for i := range entries {
		e := &entries[i]
		row := []string{
			clock(e.Tick, now), since(e.Tick, now), e.Job, e.Outcome, orDash(e.Host), tokenOf(e),
			lagOf(e), tookOf(e), cpuOf(e), memoryOf(e), orDash(e.Run), reasonOf(e, now),
		}
		if one {
			row = slices.Delete(row, 2, 3)
		}
		t.row(row...)
	}
	_, err := t.WriteTo(a.stdout)
	return err
}

// query reads the flags that say which entries.
func (f *historyFlags) query(now time.Time) (ledger.Query, error) {
	q := ledger.Query{Limit: f.limit, Outcome: f.outcome}
	if err := atLeastOne(f.limit); err != nil {
		return q, err
	}
	if f.outcome != "" && !slices.Contains(outcomes(), f.outcome) {
		hint := didYouMean(nearest(f.outcome, outcomes()))
		if hint == "" {
			hint = "outcomes are " + strings.Join(outcomes(), ", ")
		}
		return q, &exitError{code: exitUsage, text: fmt.Sprintf("--outcome: there is no outcome %q", f.outcome), hint: hint}
	}
	if f.since == "" {
		return q, nil
	}
	var err error
	q.Since, err = parseTime("since", f.since, now, ago)
	return q, err
}

func (a *app) historyJSON(entries []ledger.Entry) error {
	w := bufio.NewWriter(a.stdout)
	enc := json.NewEncoder(w)
	for i := range entries {
		if err := enc.Encode(entries[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}

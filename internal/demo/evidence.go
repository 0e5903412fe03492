package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"rota/scheduler"
	"rota/scheduler/ledger"
)

// dueTicks computes what was due in (from, until], from the schedules alone: what the hosts say
// they saw is not asked, for a tick that all of them overlooked must be missed here. It is the
// same plan that they follow, and package schedule has tests of its own.
func dueTicks(table []scheduler.Job, from, until time.Time) []tickOf {
	var due []tickOf
	for d := range scheduler.Plan(table, from) {
		if d.At.After(until) {
			break
		}
		due = append(due, tickOf{d.Job.Name, d.Tick.Unix()})
	}
	return due
}

// lastDue is each job's newest tick among due; zero if it had none.
func lastDue(due []tickOf, jobs []string) []time.Time {
	last := make([]time.Time, len(jobs))
	for _, d := range due {
		if i := slices.Index(jobs, d.job); i >= 0 {
			last[i] = time.Unix(d.tick, 0)
		}
	}
	return last
}

// readLedger returns all entries of the jobs, oldest first: in the order in which the claims were
// won, which is the one that tokens must rise in.
func readLedger(ctx context.Context, l *ledger.Ledger, jobs []string) ([]ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*opTimeout)
	defer cancel()
	entries, err := l.History(ctx, ledger.Query{Jobs: jobs})
	slices.Reverse(entries)
	return entries, err
}

// readWitness reads the file that the jobs wrote, in the order in which they did. If there is none,
// no run has made it. A line that cannot be read is kept as it is: dropping it could hide a double.
func readWitness(path string) (runs []testimony, illegible []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("the jobs' file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if t, ok := parseTestimony(line); ok {
			runs = append(runs, t)
		} else {
			illegible = append(illegible, line)
		}
	}
	return runs, illegible, nil
}

// parseTestimony reads "job tick token host".
func parseTestimony(line string) (testimony, bool) {
	f := strings.Split(line, " ")
	if len(f) != 4 {
		return testimony{}, false
	}
	tick, err := time.Parse(time.RFC3339, f[1])
	token, err2 := strconv.ParseInt(f[2], 10, 64)
	return testimony{tickOf{f[0], tick.Unix()}, token, f[3]}, errors.Join(err, err2) == nil
}

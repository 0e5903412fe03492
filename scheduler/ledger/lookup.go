package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Recent returns the newest entries of each job, in the order of jobs, and Redis' clock. It reads
// what [Ledger.History] reads, but only the end of it, so that a view of the whole table costs
// little: the newest n skips and misses, and the newest n things that were recorded of runs,
// which are two or three a run. The entries of a job are in no order. Of a key that holds another
// type there are none; State names it.
func (l *Ledger) Recent(ctx context.Context, jobs []string, n int64) ([][]Entry, time.Time, error) {
	pipe := l.client.Pipeline()
	clock := l.askTime(ctx, pipe)
	runs := make([]*redis.XMessageSliceCmd, len(jobs))
	skips := make([]*redis.XMessageSliceCmd, len(jobs))
	for i, job := range jobs {
		runs[i] = pipe.XRevRangeN(ctx, l.keys.runs(job), "+", "-", n)
		skips[i] = pipe.XRevRangeN(ctx, l.keys.skips(job), "+", "-", n)
	}
	if err := execEach(ctx, pipe); err != nil {
		return nil, time.Time{}, fmt.Errorf("recent: %w", err)
	}
	var all []Entry
	ends := make([]int, len(jobs))
	for i, job := range jobs {
		all = append(all, mergeRuns(job, runs[i].Val())...)
		for _, m := range skips[i].Val() {
			all = append(all, readEntry(job, m))
		}
		ends[i] = len(all)
	}
	if err := l.judgeRunning(ctx, all); err != nil {
		return nil, time.Time{}, err
	}
	out, from := make([][]Entry, len(jobs)), 0
	for i, end := range ends {
		out[i], from = all[from:end:end], end
	}
	return out, clock().UTC(), nil
}

// runPage is how many entries are looked through at once for those of one run.
const runPage = 256

// Run returns the entry of one run. The error matches [ErrNoRun] when the ledger does not know
// the id, or not any more. It reads from the run's start on until its end; each round trip may take
// as long as ctx had left for the first.
func (l *Ledger) Run(ctx context.Context, id string) (Entry, error) {
	trips := tripsOf(ctx)
	q := runQuery{id: id, from: "-"}
	for _, step := range []func(context.Context, *runQuery) error{l.whereIsRun, l.failsOfRun, l.pageOfRun, l.judgeRun} {
		for again := true; again; again = q.more {
			trip, cancel := trips.begin(ctx)
			err := step(trip, &q)
			cancel()
			if err != nil {
				return Entry{}, err
			}
		}
	}
	return q.entries[0], nil
}

// runQuery is what is known so far of one run.
type runQuery struct {
	id, job string
	from    string // where in the stream it goes on
	ended   bool   // its host's word was found
	more    bool   // the step is to be taken again
	found   []redis.XMessage
	entries []Entry
}

// take picks what is about the run.
func (q *runQuery) take(messages []redis.XMessage) {
	for _, m := range messages {
		if m.Values["run"] == q.id {
			q.found = append(q.found, m)
			q.ended = q.ended || readEntry(q.job, m).word == reported
		}
	}
}

func (l *Ledger) whereIsRun(ctx context.Context, q *runQuery) error {
	kept := l.client.HMGet(ctx, l.keys.run(q.id), "job", "start")
	if err := commandError(kept); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	q.job, q.from = text(kept.Val(), 0), cmp.Or(text(kept.Val(), 1), q.from)
	if q.job == "" {
		return ErrNoRun
	}
	return nil
}

func (l *Ledger) failsOfRun(ctx context.Context, q *runQuery) error {
	fails := l.client.XRange(ctx, l.keys.fails(q.job), "-", "+")
	q.take(fails.Val())
	if err := commandError(fails); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func (l *Ledger) pageOfRun(ctx context.Context, q *runQuery) error {
	if q.ended {
		q.more = false
		return nil
	}
	page := l.client.XRangeN(ctx, l.keys.runs(q.job), q.from, "+", runPage)
	if err := commandError(page); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	messages := page.Val()
	q.take(messages)
	if q.more = !q.ended && len(messages) == runPage; q.more {
		q.from = "(" + messages[len(messages)-1].ID
	}
	return nil
}

func (l *Ledger) judgeRun(ctx context.Context, q *runQuery) error {
	q.entries = mergeRuns(q.job, q.found)
	if len(q.entries) == 0 {
		return ErrNoRun
	}
	return l.judgeRunning(ctx, q.entries)
}

// clockSlack is how far Redis' clock may step back between a request and its answer.
const clockSlack = time.Minute

// Answered finds the entry that answers a request: its run, or a skip that says why there is
// none. ok is false while no host has taken it. Of r, ID and Job are looked at.
func (l *Ledger) Answered(ctx context.Context, r Request) (e Entry, ok bool, err error) {
	// Stream ids are instants of Redis' clock, the request's too: nothing older can answer it.
	ms, _, _ := strings.Cut(r.ID, "-")
	asked, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return Entry{}, false, fmt.Errorf("ledger: request id %q is not MILLISECONDS-NUMBER", r.ID)
	}
	from := strconv.FormatInt(max(0, asked-clockSlack.Milliseconds()), 10)
	pipe := l.client.Pipeline()
	runs := pipe.XRevRange(ctx, l.keys.runs(r.Job), "+", from)
	skips := pipe.XRevRange(ctx, l.keys.skips(r.Job), "+", from)
	if err := exec(ctx, pipe); err != nil {
		return Entry{}, false, fmt.Errorf("request of %q: %w", r.Job, err)
	}
	entries := mergeRuns(r.Job, runs.Val())
	for _, m := range skips.Val() {
		entries = append(entries, readEntry(r.Job, m))
	}
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Request == r.ID })
	if i < 0 {
		return Entry{}, false, nil
	}
	return entries[i], true, nil
}

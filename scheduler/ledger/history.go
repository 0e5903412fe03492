package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Query selects from the history.
type Query struct {
	Jobs    []string  // of these jobs; none: of no job
	Limit   int       // at most this many entries; 0: all there are
	Outcome string    // only these; "": all
	Since   time.Time // not before; zero: all
}

// History returns entries, newest first. A run is shown as running only while its lease
// lives; one whose host died and that nobody has recorded yet is shown as lost.
//
// With a Limit it reads only as much of the streams as that needs, page by page; each round trip
// may take as long as ctx had left for the first. A key that holds another type is an error that
// matches [locking.ErrConflict] and names it: a history with a hole in it would look like one.
func (l *Ledger) History(ctx context.Context, q Query) ([]Entry, error) {
	pages := l.newPages(q)
	trips := tripsOf(ctx)
	for {
		trip, cancel := trips.begin(ctx)
		err := pages.read(trip)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		var entries []Entry
		for _, j := range pages.jobs {
			entries = append(entries, mergeRuns(j.name, slices.Concat(j.runs.read, j.fails.read))...)
			for _, m := range j.skips.read {
				entries = append(entries, readEntry(j.name, m))
			}
		}
		trip, cancel = trips.begin(ctx)
		err = l.judgeRunning(trip, entries)
		cancel()
		if err != nil {
			return nil, err
		}
		entries = slices.DeleteFunc(entries, func(e Entry) bool {
			return q.Outcome != "" && e.Outcome != q.Outcome || e.At().Before(q.Since)
		})
		slices.SortStableFunc(entries, func(a, b Entry) int {
			return cmp.Or(b.At().Compare(a.At()), compareIDs(b.id, a.id), cmp.Compare(b.Run, a.Run))
		})
		if pages.enough(entries) {
			if q.Limit > 0 && len(entries) > q.Limit {
				entries = entries[:q.Limit]
			}
			return entries, nil
		}
	}
}

// mergeRuns makes one entry a run of all that was appended about it, in any order: starts and
// ends. An end from the run's own host beats "lost", which another host wrote for it. A
// repeated end is the same end, so the first stands; a repeated start is a grant made anew,
// so the last does.
func mergeRuns(job string, messages []redis.XMessage) []Entry {
	byRun := map[string]*Entry{}
	for _, m := range messages {
		e := readEntry(job, m)
		have := byRun[e.Run]
		if have == nil {
			byRun[e.Run] = &e
			continue
		}
		winner, other := have, &e
		if first := compareIDs(e.id, have.id) < 0; e.word > have.word || e.word == have.word && first == (e.word != started) {
			winner, other = &e, have
		}
		// Another host's word does not know all that the start said.
		if winner.Won.IsZero() {
			winner.Won = other.Won
		}
		winner.Request = cmp.Or(winner.Request, other.Request)
		winner.Who = cmp.Or(winner.Who, other.Who)
		byRun[e.Run] = winner
	}
	out := make([]Entry, 0, len(byRun))
	for _, e := range byRun {
		out = append(out, *e)
	}
	return out
}

func readEntry(job string, m redis.XMessage) Entry {
	text := func(k string) string { s, _ := m.Values[k].(string); return s }
	number := func(k string) int64 { n, _ := strconv.ParseInt(text(k), 10, 64); return n }
	e := Entry{
		Job: job, Tick: instant(number("tick")), Until: instant(number("until")), Count: int(number("count")),
		Run: text("run"), Kind: Kind(text("kind")), Host: text("host"), Lock: text("lock"), Token: number("token"),
		Outcome: text("outcome"), Reason: text("reason"), Won: instant(number("won")),
		Started: instant(number("started")), Ended: instant(number("ended")), Attempt: int(number("attempt")),
		Reruns: int(number("reruns")), Definition: text("definition"), Late: text("late") != "",
		CPU: time.Duration(number("cpu_us")) * time.Microsecond, PeakMemoryBytes: number("peak_bytes"),
		Request: text("request"), Who: text("who"), Holder: text("holder"), id: m.ID, lease: text("lease"),
	}
	if code, err := strconv.Atoi(text("code")); err == nil {
		e.ExitCode = &code
	}
	_, own := m.Values["attempt"] // only a run's own host knows its attempts
	switch {
	case text("ev") == "start":
		e.Outcome = OutcomeRunning
	case own:
		e.word = reported
	default:
		e.word = presumed
	}
	if e.Run == "" && e.Kind == "" {
		e.Kind = Scheduled
	}
	if e.Late && e.Reason == "" {
		e.Reason = "reported late"
	} else if e.Late {
		e.Reason += " (reported late)"
	}
	return e
}

// judgeRunning looks at the leases of the entries that have no end. A run whose outcome came after the
// entries were read is left as it was then, going on: its finish frees the lease and marks its key in
// one step.
func (l *Ledger) judgeRunning(ctx context.Context, entries []Entry) error {
	pipe := l.client.Pipeline()
	leases, ended := map[int]*redis.StringCmd{}, map[int]*redis.BoolCmd{}
	for i := range entries {
		if entries[i].Outcome == OutcomeRunning {
			leases[i] = pipe.Get(ctx, entries[i].lease)
			ended[i] = pipe.HExists(ctx, l.keys.run(entries[i].Run), "ended")
		}
	}
	if len(leases) == 0 {
		return nil
	}
	if err := execEach(ctx, pipe); err != nil { // whoever put something else there holds no lease
		return fmt.Errorf("history: leases: %w", err)
	}
	for i, lease := range leases {
		if leaseFence(lease.Val()) != entries[i].Token && !ended[i].Val() {
			entries[i].Outcome = OutcomeLost
			entries[i].Reason = "the lease ended and " + entries[i].Host + " reported no outcome"
		}
	}
	return nil
}

// leaseFence reads the fencing token out of a lock's value TOKEN|FENCE|TTL_MS|HOLDER.
func leaseFence(value string) int64 {
	parts := strings.SplitN(value, "|", 4)
	if len(parts) != 4 {
		return 0
	}
	n, _ := strconv.ParseInt(parts[1], 10, 64)
	return n
}

// compareIDs orders stream ids.
func compareIDs(a, b string) int {
	am, as, _ := strings.Cut(a, "-")
	bm, bs, _ := strings.Cut(b, "-")
	n := func(s string) int64 { v, _ := strconv.ParseInt(s, 10, 64); return v }
	return cmp.Or(cmp.Compare(n(am), n(bm)), cmp.Compare(n(as), n(bs)))
}

// ErrNoRun says that the ledger knows no run by that id, or none any more.
var ErrNoRun = errors.New("ledger: no such run")

// Output returns what is kept of what a run printed: while it runs, nothing. The error
// matches [ErrNoRun] when the run is unknown or trimmed.
func (l *Ledger) Output(ctx context.Context, run string) ([]byte, error) {
	pipe := l.client.Pipeline()
	out := pipe.Get(ctx, l.keys.output(run))
	exists := pipe.HExists(ctx, l.keys.run(run), "job")
	if err := exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if text, err := out.Bytes(); err == nil {
		return text, nil
	}
	if !exists.Val() {
		return nil, ErrNoRun
	}
	return nil, nil
}

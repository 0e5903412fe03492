package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/locking"
	"rota/scheduler/ledger"
)

// wantFree checks that all places of a host are free again, and that nobody waits for one.
func (h *host) wantFree(t *testing.T, when string) {
	t.Helper()
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	if h.room.free != h.opt.MaxRuns || len(h.room.waiting) != 0 {
		t.Errorf("%s: %d of %d places are free and %d wait, want all and none", when, h.room.free, h.opt.MaxRuns, len(h.room.waiting))
	}
}

// started is the order in which handlers were called.
func (f *fleet) started() (order []string) {
	for _, r := range f.ran() {
		order = append(order, r.Job)
	}
	return order
}

// A place is for what was won, and for what may have been: after any other answer it is free, whoever
// asked.
func TestRoom_OnlyAWinKeepsAPlace(t *testing.T) {
	conflict := fmt.Errorf("claim: %w", locking.ErrConflict)
	unknown := fmt.Errorf("claim: %w", locking.ErrUnavailable)
	for _, c := range []struct {
		name string
		d    ledger.Decision
		keep bool
	}{
		{"held, skipped", ledger.Decision{Answer: ledger.Held, Decided: ledger.Skipped, Holder: "other"}, false},
		{"held, waiting", ledger.Decision{Answer: ledger.Held, Decided: ledger.Waiting, Holder: "other"}, false},
		{"held, it waits already", ledger.Decision{Answer: ledger.Held, Holder: "other"}, false},
		{"already", ledger.Decision{Answer: ledger.Already}, false},
		{"early", ledger.Decision{Answer: ledger.Early, Wait: time.Minute}, false},
		{"late, missed", ledger.Decision{Answer: ledger.Late, Decided: ledger.OutcomeMissed}, false},
		{"late, to be caught up", ledger.Decision{Answer: ledger.Late}, false},
		{"behind", ledger.Decision{Answer: ledger.Behind}, false},
		{"paused", ledger.Decision{Answer: ledger.Paused}, false},
		{"drained", ledger.Decision{Answer: ledger.Drained}, false},
		{"future", ledger.Decision{Answer: ledger.Future}, false},
		{"refused", ledger.Decision{Err: conflict}, false},
		{"unknown", ledger.Decision{Err: unknown}, true},
	} {
		for _, owed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, owed %t", c.name, owed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					j := job(t, "j", "0 12 * * *", f.handler(time.Second))
					j.Counts, j.Misfire = true, MisfireOnce
					h := f.start("h0", maxRuns(1), j)
					time.Sleep(time.Second)
					tab := h.current()
					due, _ := newest(&tab.jobs[0], 0, time.Now())
					claim := h.newTry(tab, due)
					claim.owed = owed
					if !h.room.enter(claim) {
						t.Fatal("there is no place")
					}
					h.settle(claim, answer{Decision: c.d, sent: h.keeper.Now()})
					if claim.placed != c.keep {
						t.Errorf("the try has a place: %t, want %t", claim.placed, c.keep)
					}
					if c.keep {
						// It was refused after all, before anybody knew.
						if h.settle(claim, answer{Decision: ledger.Decision{Answer: ledger.Already}, sent: h.keeper.Now()}); claim.placed {
							t.Error("the try has a place after an answer")
						}
					}
					h.wantFree(t, "at the end")
				})
			})
		}
	}
}

// A tick waits for its lock, and when that is free a reload has moved its start ahead: it is early, and
// takes no place from others until it is due.
func TestRoom_AnEarlyTickHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(time.Second))
		j.Counts, j.Overlap, j.Lock = true, OverlapQueue, "disk"
		k := job(t, "k", "*/5 * * * *", f.handler(time.Second))
		k.Counts = true
		h := f.start("h0", maxRuns(1), j, k)
		until(t, "00:59:50")
		f.holds("disk", 2*time.Minute)
		until(t, "01:01:00")
		later := j
		later.Splay = 59 * time.Minute
		delay := later.Delay()
		if delay < 10*time.Minute {
			t.Fatalf("the splay is %s, want one that lasts", delay)
		}
		if err := h.Reload([]Job{later, k}, "next"); err != nil {
			t.Fatal(err)
		}
		until(t, "01:02:30")
		h.wantFree(t, "while the tick is early")
		time.Sleep(time.Until(instant("01:00:30").Add(delay)))
		for _, e := range f.history("k") {
			if e.Outcome != "succeeded" {
				t.Errorf("k: the tick of %s is %s, want all of them run", e.Tick, e.Outcome)
			}
		}
		if e := f.history("j"); len(e) == 0 || e[len(e)-1].Outcome != "succeeded" || e[len(e)-1].Won.Before(instant("01:00:00").Add(delay)) {
			t.Errorf("j: the history says %q, want the tick of 01:00 run %s late", f.says("j"), delay)
		}
	})
}

// Who has waited longest is next, however long the look takes whether its tick is still open, and
// whoever comes in that moment.
func TestRoom_FirstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		var table []Job
		for i, spec := range []string{"0 1 0 * * *", "10 1 0 * * *", "20 1 0 * * *", "30 1 0 * * *"} {
			j := job(t, fmt.Sprintf("job-%d", i), spec, f.handler(time.Second))
			j.Counts, j.StartDeadline = true, 10*time.Minute
			table = append(table, j)
		}
		table[0].Handler = f.handler(29900 * time.Millisecond)
		h := f.start("h0", maxRuns(1), table...)
		until(t, "00:01:25")
		proxy.DelayRequests(1_000_000, redistest.Named("get"), 200*time.Millisecond)
		until(t, "00:02:00")
		if got, want := f.started(), []string{"job-0", "job-1", "job-2", "job-3"}; !slices.Equal(got, want) {
			t.Errorf("the jobs began in the order %q, want %q, in which they came", got, want)
		}
		h.wantFree(t, "at the end")
	})
}

// Ticks that are owed wait in the same line: on a host that is never free for a moment they have their
// turn too, of whichever kind they are.
func TestRoom_OwedTicksHaveTheirTurn(t *testing.T) {
	for _, c := range []struct {
		name string
		owes func(j *Job)
		want string
	}{
		{"caught up", func(j *Job) { j.Misfire, j.StartDeadline = MisfireAll, 5*time.Second }, "01:00:00 succeeded misfire"},
		{"waited for its lock", func(j *Job) { j.Overlap, j.Lock = OverlapQueue, "db" }, "01:00:00 succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				// Three jobs keep one place busy: each waits when the one before it ends.
				var table []Job
				for i := range 3 {
					j := job(t, fmt.Sprintf("busy-%d", i), "*/15 * * * * *", f.handler(7*time.Second))
					j.Counts, j.StartDeadline = true, 14*time.Second
					table = append(table, j)
				}
				j := job(t, "j", "0 1 * * *", f.handler(time.Second))
				j.Counts, j.StartDeadline = true, 30*time.Second
				c.owes(&j)
				h := f.start("h0", maxRuns(1), append(table, j)...)
				until(t, "00:59:59")
				f.holds("db", 42*time.Second)
				until(t, "01:01:45")
				f.wantSays("j", c.want)
				h.stop()
				<-h.ended
			})
		})
	}
}

// A tick that is owed and waits for a place is looked at again when there is one: what another host has
// done meanwhile takes none.
func TestRoom_OwedTickThatIsPaidElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		long := job(t, "long", "59 1 * * *", f.handler(10*time.Minute))
		j := job(t, "j", "0 * * * *", f.handler(time.Second))
		long.Counts, long.Hosts = true, []string{"h0"}
		j.Counts, j.Misfire, j.StartDeadline = true, MisfireAll, 30*time.Second
		h := f.start("h0", maxRuns(1), long, j)
		until(t, "02:05:00") // j waits for a place
		f.start("h1", nil, long, j)
		until(t, "02:07:00")
		f.wantSays("j", "01:00:00 succeeded", "02:00:00 succeeded misfire")
		until(t, "02:10:00")
		if e := f.history("j"); len(e) != 2 || e[1].Host != "h1" {
			t.Errorf("j: the history says %+v, want two runs, the second on h1", e)
		}
		h.wantFree(t, "after the long run")
		h.tending.mu.Lock()
		defer h.tending.mu.Unlock()
		if n := len(h.tending.jobs); n != 0 {
			t.Errorf("%d jobs are still looked after, want none", n)
		}
	})
}

// A claim that was refused, and whose place somebody else has meanwhile, waits behind him.
func TestRoom_RefusedClaimsWaitInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		spoilt := job(t, "spoilt", "1 0 * * *", f.handler(time.Second))
		j := job(t, "j", "2 1 0 * * *", f.handler(20*time.Second))
		spoilt.Counts, spoilt.StartDeadline, j.Counts = true, 10*time.Minute, true
		if _, err := f.redis.Lpush("{t}:lock:spoilt", "no lease"); err != nil {
			t.Fatal(err)
		}
		h := f.start("h0", maxRuns(1), spoilt, j)
		until(t, "00:01:10")
		f.redis.Del("{t}:lock:spoilt")
		until(t, "00:01:24")
		if got, want := f.started(), []string{"j", "spoilt"}; !slices.Equal(got, want) {
			t.Errorf("the jobs began in the order %q, want %q, as soon as there was a place", got, want)
		}
		until(t, "00:01:40")
		h.wantFree(t, "at the end")
	})
}

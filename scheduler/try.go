package scheduler

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"rota/locking"
	"rota/scheduler/ledger"
)

// try is one host's attempt to win one tick. It is sent with the same run and token until its
// answer is known or its time is over; each try belongs to one goroutine at a time.
type try struct {
	table   *table
	due     Due
	claim   ledger.Claim
	request ledger.Request // ID "": nobody asked for it by hand
	owed    bool           // it is tend's, which looks after its job anyway
	placed  bool           // it has taken a place of the room
	unsure  bool           // it may have been won: since it was sent without an answer, nothing has told
	backoff time.Duration
}

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
	// refusedBackoff is for a Redis that answers and refuses: a wrong password, a foreign key.
	refusedBackoff = 5 * time.Second
	// tidyTries bounds how often a given-up claim is given back while Redis is away; then
	// its lease has long ended, and the next claim of the job accounts for it.
	tidyTries = 30
)

func (s *Scheduler) newTry(tab *table, d Due) *try {
	j := d.Job
	t := &try{table: tab, due: d, claim: ledger.Claim{
		Job: j.Name, Lock: j.LockName(), Kind: ledger.Scheduled,
		Tick: d.Tick, Due: d.At, Prev: d.Prev, Deadline: d.Deadline,
		Run: ulid.Make().String(), Token: locking.NewToken(), Host: s.opt.Host,
		Definition: j.Definition, ScheduleHash: j.ScheduleHash,
		TTL: s.opt.TTL, Expire: s.expiry(j, d),
		Overlap: orDefault(j.Overlap, OverlapSkip), Misfire: orDefault(j.Misfire, MisfireSkip),
		OnCrash: orDefault(j.OnCrash, CrashSkip), MaxParallel: j.Parallel(),
	}}
	if s.raced(j) {
		t.claim.Table, t.claim.Index = tab.hash, d.Index
	}
	if j.Overlap == OverlapAllow {
		// Each run has a lease of its own, and the lock still counts their tokens. No lock's name
		// has a colon.
		t.claim.Lease = t.claim.Lock + ":" + strconv.FormatInt(d.Tick.Unix(), 10)
	}
	if j.Misfire == MisfireAll && j.Schedule != nil {
		t.claim.Back = s.backFor(d)
	}
	if j.Schedule != nil {
		t.claim.Count = countTicks(j)
	}
	return t
}

// backFor is the oldest tick that a claim under misfire "all" leaves to be run. Nothing is older than a
// tick whose predecessor is known decided, and that is the usual case: else a hundred are counted.
func (s *Scheduler) backFor(d Due) time.Time {
	s.mu.Lock()
	decided := s.decided[d.Job.Name]
	s.mu.Unlock()
	if !d.Prev.After(decided) {
		return d.Tick
	}
	tick := d.Tick
	if n, ok := newest(d.Job, d.Index, s.clock.Now()); ok {
		tick = later(tick, n.Tick)
	}
	return backOf(d.Job, tick)
}

func orDefault[T ~string](v, otherwise T) string {
	if v == "" {
		return string(otherwise)
	}
	return string(v)
}

// send claims in one pipeline. What is settled by the answer is done; the rest goes on alone.
func (s *Scheduler) send(ctx context.Context, tries []*try) {
	for i, d := range s.ask(ctx, tries) {
		if t := tries[i]; !s.settle(t, d) { //nolint:contextcheck // giving back outlives the race
			s.work.Go(func() { s.chase(ctx, t, d.Decision) })
		}
	}
}

// answer is a decision and the instant before it was asked for.
type answer struct {
	ledger.Decision
	sent locking.Instant
}

func (s *Scheduler) ask(ctx context.Context, tries []*try) []answer {
	claims := make([]ledger.Claim, len(tries))
	s.mu.Lock()
	for i, t := range tries {
		c := &t.claim
		c.Known, c.Since, c.Floor = s.decided[c.Job], s.sinceOf(t.table, c.Job), s.floors[c.Lock]
		c.Race = !t.owed && c.Kind == ledger.Scheduled
		claims[i] = *c
	}
	s.mu.Unlock()
	// The answer is worth having after the race is over: a win must be given back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.OpTimeout)
	defer cancel()
	sent := s.keeper.Now()
	decisions := s.opt.Ledger.Claim(ctx, claims)
	got := s.keeper.Now()
	out := make([]answer, len(tries))
	for i, d := range decisions {
		out[i] = answer{d, sent}
		s.observe(&claims[i], d, sent, got)
		s.heard(sent, d.Now, d.Err)
		s.sawFence(claims[i].Lock, d.Fence)
		s.sawEpoch(d.Epoch)
	}
	return out
}

// arrival is the try as it waits for a place.
func (t *try) arrival() arrival {
	return arrival{table: t.table, due: t.due, request: t.request, owed: t.owed}
}

// over tells whether it is too late to ask again.
func (t *try) over(now time.Time) bool {
	return !t.claim.Deadline.IsZero() && now.After(t.claim.Deadline)
}

// chase repeats a try until it is settled. Whatever its answer, it is settled by the deadline.
func (s *Scheduler) chase(ctx context.Context, t *try, d ledger.Decision) {
	t.backoff = firstBackoff
	for {
		wait := t.backoff
		switch {
		case d.Err != nil && unanswered(d.Err):
			t.backoff = min(2*t.backoff, lastBackoff)
		case d.Err != nil:
			t.backoff = min(2*t.backoff, refusedBackoff)
		case d.Answer == ledger.Early:
			wait = d.Wait
		}
		running := sleep(ctx, wait)
		if over := t.over(s.clock.Now()); !running || over {
			s.room.leave(&t.placed)
			if t.unsure {
				s.log.Debug("gave up claim", "job", t.claim.Job, "tick", t.claim.Tick, "err", d.Err)
				s.giveBack(t, "the claim was not answered in time") //nolint:contextcheck // it outlives the race
			}
			if running {
				s.misfires(t)
			}
			return
		}
		if !s.room.enter(t) {
			s.room.wait(t.arrival()) // it cannot have been won, so another try is as good
			return
		}
		var a answer
		s.call(func(context.Context) { a = s.ask(ctx, []*try{t})[0] }) //nolint:contextcheck // the deadline begins when there is room
		if s.settle(t, a) {                                            //nolint:contextcheck // giving back outlives the race
			return
		}
		d = a.Decision
	}
}

// settle acts on an answer. False: it settles nothing, the try goes on.
func (s *Scheduler) settle(t *try, a answer) bool {
	c := &t.claim
	log := s.log.With("job", c.Job, "tick", c.Tick)
	t.unsure = a.Err != nil && (t.unsure || unanswered(a.Err))
	if !t.unsure && (a.Err != nil || a.Answer != ledger.Won) {
		s.room.leave(&t.placed) // it may be refused, or early, for long
	}
	if a.Err != nil {
		if !unanswered(a.Err) && s.newRefusal(c.Job, a.Err) {
			// Somebody must act, and may do so within the start deadline.
			log.Warn("claim refused by redis", "lock", s.opt.Ledger.LeaseKey(c.Lock), "err", a.Err)
		}
		return false
	}
	if a.Answer != ledger.Future {
		s.newRefusal(c.Job, nil)
	}
	s.tellUnrun(c.Job, a.Unrun)
	switch a.Answer {
	case ledger.Won:
		s.decides(c)
		s.won(t, a)
	case ledger.Early:
		return false
	case ledger.Held:
		switch a.Decided {
		case ledger.Skipped:
			s.decides(c)
			if a.Holder == "" {
				log.Info("tick skipped", "outcome", "skipped", "reason", "max_parallel runs are going")
				break
			}
			log.Info("tick skipped", "outcome", "skipped", "reason", "the lock is held", "lock", c.Lock,
				"holder", a.Holder, "holder_job", a.HolderJob, "run", a.HolderRun, "since", a.HolderFrom)
		case ledger.Waiting:
			s.decides(c)
			log.Info("tick waits", "lock", c.Lock, "holder", a.Holder, "holder_job", a.HolderJob, "run", a.HolderRun, "since", a.HolderFrom)
			s.awaits(t, a)
		default:
			s.awaits(t, a) // it waits already: by another host, or by a claim of ours without an answer
		}
	case ledger.Already:
		s.know(c.Job, minTime(a.Base, a.Now))
		if !t.owed && c.Kind != ledger.Manual {
			s.guard(t.due.Job, c.Tick)
		}
		log.Debug("claim lost", "reason", "decided already")
	case ledger.Late:
		if a.Decided == "" {
			log.Debug("tick not claimed", "reason", "its start deadline had passed", "deadline", c.Deadline)
			s.misfires(t)
			break
		}
		s.decides(c)
		why := "its start deadline had passed"
		if c.Barred == hostsFull {
			why = hostsFull
		}
		log.Warn("tick missed", "outcome", a.Decided, "reason", why, "deadline", c.Deadline)
	case ledger.Behind:
		log.Debug("tick not claimed", "reason", "older ones must be claimed first", "decided", a.Base)
		s.misfires(t)
	case ledger.Future:
		s.forget(c.Job)
		if s.newRefusal(c.Job, errFuture) {
			log.Warn("tick not claimed", "reason", "the newest decided tick lies ahead of redis' clock",
				"decided", a.Base, "remedy", "rota reset "+c.Job)
		}
	default:
		log.Debug("tick not claimed", "reason", string(a.Answer))
	}
	return true
}

// misfires has the job of a tick looked after that is to be caught up, or waits for others that are.
func (s *Scheduler) misfires(t *try) {
	if !t.owed && catchesUp(t.due.Job) {
		s.tending.add(t.claim.Job, s.rankFor(t.due.Job), time.Now())
	}
}

// awaits has the job of a tick looked after that waits for the lock: this host alone may know it.
func (s *Scheduler) awaits(t *try, a answer) {
	c := &t.claim
	// First this, for what is asked for below may be done in no time.
	if !t.owed || a.Decided != "" {
		wait := patience(0, a.Left)
		if s.tending.freedSince(c.Lock, a.sent.Time()) {
			wait = 0 // the hint came before the answer
		}
		s.tending.addOwn(c.Job, 0, time.Now().Add(wait))
	}
	if c.Overlap == string(OverlapReplace) && a.HolderJob == c.Job {
		if s.runsHere(a.HolderRun) {
			s.keeper.RenewNow() // brings that its end is asked for
		} else {
			s.work.Go(func() { s.call(func(ctx context.Context) { s.opt.Ledger.Urge(ctx, a.HolderRun) }) })
		}
	}
}

var errFuture = errors.New("scheduler: the cursor lies ahead of redis' clock")

// unanswered tells that a failed claim may have been won: Redis gave no answer, or the answer
// was lost. Any other error is an answer.
func unanswered(err error) bool {
	return errors.Is(err, locking.ErrUnavailable) || errors.Is(err, context.Canceled)
}

// newRefusal remembers why a job's claims are refused, nil: they are not, and tells whether
// that is news: one line for a reason, not one a tick.
func (s *Scheduler) newRefusal(job string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.refusals[job]
	if text == "" {
		delete(s.refusals, job)
	} else {
		s.refusals[job] = text
	}
	return text != was
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// giveBack abandons a claim, won or unknown, and keeps at it for a while: until then nobody
// else can take the tick. It does not wait.
func (s *Scheduler) giveBack(t *try, reason string) {
	s.tending.givesBack(t.claim.Job, time.Now())
	s.work.Go(func() {
		wait := firstBackoff
		for range tidyTries {
			var err error
			s.call(func(ctx context.Context) { err = s.opt.Ledger.Abandon(ctx, &t.claim, reason) })
			if err == nil {
				return
			}
			if !sleep(s.ending, wait) {
				return
			}
			wait = min(2*wait, lastBackoff)
		}
	})
}

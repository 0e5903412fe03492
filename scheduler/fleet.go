package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"rota/locking"
	"rota/scheduler/ledger"
)

// heart sends this host's heartbeats until ctx ends, and takes in what they bring back: the
// other hosts, Redis' clock, runs asked for by hand, ticks given back.
func (s *Scheduler) heart(ctx context.Context) {
	var last, refused string
	var said time.Time
	for {
		wait := ledger.BeatEvery
		err := s.beat(ctx, &last)
		if err != nil {
			wait = lastBackoff
		}
		// A Redis that is away is reported by presence. One that answers and refuses (a wrong
		// password, a missing right) waits for somebody to act: said once for each reason.
		if err == nil || errors.Is(err, locking.ErrUnavailable) {
			refused = ""
		} else if text := err.Error(); text != refused || time.Since(said) >= remind {
			refused, said = text, time.Now()
			s.log.Error("redis refused the heartbeat", "err", err, "effect", "nothing is claimed until somebody acts")
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.beatNow:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (s *Scheduler) beat(ctx context.Context, last *string) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.OpTimeout)
	defer cancel()
	after := *last
	if after == "" {
		after = "0"
	}
	sent := s.keeper.Now()
	f, err := s.opt.Urgent.Beat(call, s.self(), ulid.Make().String(), after)
	s.heard(sent, f.Now, err)
	if err != nil {
		return err
	}
	// The first beat finds what a daemon left here that was killed a moment ago. Whoever
	// writes over our own beats is alive.
	if f.Before != nil && f.Before.ID != s.id && s.beaten {
		s.alarmTwin(f.Before)
	}
	s.beaten = true
	fewer := s.compare(f.Hosts)
	if s.forgot(ctx, f, last) {
		return s.beat(ctx, last) // once more: it shows what was written back
	}
	s.mu.Lock()
	before := s.fleet
	s.fleet, s.labels = s.fleet[:0:0], map[string][]string{}
	for _, h := range f.Hosts {
		s.labels[h.Name] = h.Labels
		if !h.Draining && !drained(f.Steering, h.Name) {
			s.fleet = append(s.fleet, h.Name)
		}
	}
	if s.since.IsZero() {
		s.since = f.Now
		close(s.contact)
	}
	told := drained(f.Steering, s.opt.Host)
	changed := told != s.drained
	s.drained = told
	fewer = fewer || slices.ContainsFunc(before, func(h string) bool { return !slices.Contains(s.fleet, h) })
	same := slices.Equal(before, s.fleet)
	s.mu.Unlock()
	if !same {
		s.rerank(s.current()) // hosts that start together find each other only now
	}
	if fewer {
		s.lookAll(s.current()) // what another host looked after
	}
	switch {
	case changed && told:
		s.log.Warn("host drained", "host", s.opt.Host, "effect", "it claims nothing until rota drain --undo")
	case changed:
		s.log.Info("host claims again", "host", s.opt.Host)
		s.lookBack()
	}
	s.findHosts(s.current(), time.Now())
	for _, r := range f.Requests {
		*last = r.ID
		s.take(ctx, r)
	}
	s.reopen(f.Open)
	return nil
}

// self is what this host says of itself.
func (s *Scheduler) self() ledger.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ledger.Host{
		Name: s.opt.Host, ID: s.id, Version: s.opt.Version, Table: s.table.hash, Labels: s.opt.Labels,
		ClockOffset: s.clock.offset(), Running: len(s.runs), MaxRuns: s.opt.MaxRuns, Draining: s.draining || s.drained,
	}
}

// alarmTwin reports, once for each, another daemon under this host's name: the two share a
// rank, and one state directory would be a wrong one.
func (s *Scheduler) alarmTwin(other *ledger.Host) {
	s.mu.Lock()
	known := s.twins[other.ID]
	s.twins[other.ID] = true
	s.mu.Unlock()
	if !known {
		s.log.Error("two daemons use one host name", "host", other.Name, "other", other.ID)
	}
}

// take races for a run that a person asked for.
func (s *Scheduler) take(ctx context.Context, r ledger.Request) {
	tab := s.current()
	job, _ := tab.job(r.Job)
	if job == nil || job.elsewhere || s.isStuck(r.Job) {
		return // a host that has the job, and can run it, answers
	}
	k := rank(job.Name, r.Asked(), s.opt.Host, s.rivals(job))
	s.spawn(func() {
		if !sleep(ctx, s.turnOf(k)) {
			return
		}
		if t := s.manualTry(tab, job, r); s.room.enter(t) {
			s.send(ctx, []*try{t})
		} else {
			s.room.wait(t.arrival())
		}
	})
}

// manualTry is the claim for a run that a person asked for.
func (s *Scheduler) manualTry(tab *table, job *Job, r ledger.Request) *try {
	asked := r.Asked()
	t := s.newTry(tab, Due{Job: job, Index: -1, Tick: asked, At: asked, Deadline: asked.Add(ledger.RequestPatience)})
	t.request = r
	t.claim.Kind, t.claim.Request, t.claim.Who, t.claim.Force, t.claim.Due = ledger.Manual, r.ID, r.Who, r.Force, time.Time{}
	if job.Overlap == OverlapAllow {
		t.claim.Lease = t.claim.Lock + ":" + r.ID // two may be asked for in one second
	}
	if job.Disabled {
		t.claim.Barred = "disabled"
	}
	return t
}

// reopen has the jobs looked at of which a tick was won and given back. The set keeps naming them
// until some host has won it.
func (s *Scheduler) reopen(names []string) {
	tab := s.current()
	now := time.Now()
	for _, name := range names {
		if j, _ := tab.job(name); j != nil {
			k := s.rankFor(j)
			s.tending.add(name, k, now.Add(s.turnOf(k)))
		}
	}
}

// listen makes the heart beat at once when a script hints that there is something to see.
func (s *Scheduler) listen(ctx context.Context) {
	sub := s.opt.Ledger.Hints(ctx)
	defer func() { _ = sub.Close() }()
	for {
		select {
		case m, ok := <-sub.Channel():
			if !ok {
				return
			}
			switch what, name, _ := strings.Cut(m.Payload, " "); what {
			case "request", "drain", "open":
				s.beatSoon()
			case "lost":
				job, rest, _ := strings.Cut(name, " ")
				run, host, _ := strings.Cut(rest, " ")
				s.lost(job)
				s.log.Warn("run lost", "job", job, "run", run, "host", host, "outcome", "lost",
					"reason", "its lease ended and its host reported no outcome")
			case "free":
				s.freed(name)
			case "cancel", "end":
				if s.runsHere(name) {
					s.keeper.RenewNow() // the renewal brings who asked, and why
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// lost has a job looked at of which a run is recorded as lost, if its tick may be run again.
func (s *Scheduler) lost(name string) {
	if j, _ := s.current().job(name); j != nil && j.OnCrash == CrashRerun {
		k := s.rankFor(j)
		s.tending.add(name, k, time.Now().Add(s.turnOf(k)))
	}
}

// runsHere tells whether a run goes on on this host.
func (s *Scheduler) runsHere(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.grant.Claim.Run == id {
			return true
		}
	}
	return false
}

// compare reports hosts that went without leaving, and hosts whose table is another than this
// one's: a job that both have at different times runs at both. It tells whether a host has gone,
// whichever way.
func (s *Scheduler) compare(hosts []ledger.Host) (fewer bool) {
	s.mu.Lock()
	was, own := s.seen, s.table.hash
	s.seen = map[string]ledger.Host{}
	var strange []string
	for _, h := range hosts {
		s.seen[h.Name] = h
		if h.Table != own && h.Name != s.opt.Host {
			strange = append(strange, h.Name)
		}
	}
	now := s.seen
	text := strings.Join(strange, " ")
	news := text != s.strange
	s.strange = text
	s.mu.Unlock()
	for name, h := range was {
		if _, ok := now[name]; ok || name == s.opt.Host {
			continue
		}
		fewer = true
		if !h.Draining {
			s.log.Warn("host went away", "host", name, "last", h.Beat, "running", h.Running)
		}
	}
	switch {
	case news && text != "":
		s.log.Warn("hosts have another table", "hosts", text, "table", own, "effect", "a job that differs may run by both")
	case news:
		s.log.Info("hosts have the same table again", "table", own)
	}
	return fewer
}

// heard takes in what an answer of Redis, or its absence, tells: its clock, and whether it is
// there. A Redis that is away costs one line when it goes and one when it is back.
func (s *Scheduler) heard(sent locking.Instant, now time.Time, err error) {
	if err == nil && !now.IsZero() && s.clock.observe(sent, now) {
		s.keeper.RenewNow()
		s.log.Warn("redis clock jumped", "now", now)
	}
	if s.redis.heard(s.log, err) {
		s.lookBack()
	}
}

// lookBack makes the loop look for ticks that could not be claimed until now.
func (s *Scheduler) lookBack() {
	select {
	case s.returned <- struct{}{}:
	default: // it will
	}
}

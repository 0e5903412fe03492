package shadow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

const (
	// settledAfter is how long a decision is kept back, so that whoever comes next is known, and that all
	// processes tell the ticks in one order: the last turn of a race is within a second of its tick, and
	// two exchanges follow.
	settledAfter = 1500 * time.Millisecond
	// forgottenAfter is how long after that its tick is known for those who come late.
	forgottenAfter = time.Minute
)

// outcome is what came of the ticks that all processes saw. It has no clock: whoever adds to it says
// when it is, by Redis' clock.
type outcome struct {
	open    map[tickKey]*decided
	waiting map[string]decided // by job, the tick that waits for its lock
	stats   *stats
	tables  string // the hosts with another table, as said last
}

// decided is one decision about a tick, on its way to be shown.
type decided struct {
	Event
	key   tickKey
	heard time.Time
	shown bool
	came  []arrival // other hosts
}

type arrival struct {
	host string
	at   time.Time
}

func newOutcome(c *config.Config, p *past, names []string) *outcome {
	return &outcome{open: map[tickKey]*decided{}, waiting: map[string]decided{}, stats: newStats(c, p, names)}
}

// add takes in what a process saw, in the order in which it did.
func (o *outcome) add(b batch, now time.Time) {
	o.stats.sent(b.Sent)
	for host, trips := range b.Trips {
		o.stats.trips(host, trips)
	}
	for i := range b.Sights {
		o.addSight(&b.Sights[i], now)
	}
}

func (o *outcome) addSight(s *sight, now time.Time) {
	key := tickKey{s.Job, s.Tick}
	e := Event{Tick: instant(s.Tick), Job: s.Job, Lock: s.Lock, Host: s.Host, At: instant(s.At)}
	switch s.What {
	case came:
		d := o.open[key]
		if d == nil { // of the two exchanges, the winner's is the later one
			d = &decided{key: key, heard: now}
			o.open[key] = d
		}
		d.came = append(d.came, arrival{s.Host, instant(s.At)})
	case won:
		e.What, e.Kind, e.Holds = EventWon, s.Kind, time.Duration(s.Hold)*time.Millisecond
		// What is not new was counted when it was decided, or before this process came.
		fresh := s.Found == ledger.FoundNew || s.Found == ledger.FoundWait
		if w, ok := o.waiting[s.Job]; ok && !w.Tick.After(e.Tick) {
			delete(o.waiting, s.Job)
			fresh = fresh && !w.Tick.Equal(e.Tick)
			if w.Tick.Before(e.Tick) {
				o.superseded(&w, e.At, now)
			}
		}
		o.decide(key, e, now)
		o.stats.won(&e, fresh)
	case skipped, waiting:
		e.What, e.Holder, e.HolderJob = EventSkipped, s.Holder, s.HolderJob
		if s.What == waiting {
			e.What = EventWaiting
			if w, ok := o.waiting[s.Job]; ok && w.Tick.Before(e.Tick) {
				o.superseded(&w, e.At, now)
			}
			o.waiting[s.Job] = decided{Event: e, key: key}
		}
		o.decide(key, e, now)
		o.stats.held(&e)
	case missed, unrun:
		e.What, e.Count = EventMissed, max(1, s.Count)
		if s.What == unrun {
			// They lie before the tick that was claimed, of which there is more to say.
			key.tick, e.Host = -key.tick, ""
		}
		o.decide(key, e, now)
		o.stats.missed(&e)
	case ended:
		e.What, e.Outcome = EventEnded, s.Outcome
		o.decide(tickKey{s.Job + " ended", s.Tick}, e, now)
		o.stats.ended(&e)
	}
}

// superseded tells that a tick that waited is skipped for a newer one.
func (o *outcome) superseded(w *decided, at, now time.Time) {
	e := w.Event
	e.At, e.What, e.Reason, e.Holder, e.HolderJob = at, EventSkipped, "a newer tick took its place", "", ""
	o.decide(w.key, e, now)
	o.stats.superseded(&e)
}

// decide keeps a decision to be shown. One that is kept of the same tick is another one: it waited and
// is won now, or it is run again.
func (o *outcome) decide(key tickKey, e Event, now time.Time) {
	d := o.open[key]
	if d == nil || d.What != "" {
		if d != nil && !d.shown {
			o.open[tickKey{key.job + " before", key.tick}] = d
		}
		d = &decided{key: key}
		o.open[key] = d
	}
	d.Event, d.heard = e, now
}

// settle returns the decisions that are old enough to be shown, by tick, and forgets old ones.
func (o *outcome) settle(now time.Time) []Event {
	var out []Event
	for key, d := range o.open {
		if !d.shown && d.What != "" && now.Sub(d.At) >= settledAfter {
			d.shown = true
			if d.What == EventWon {
				d.next()
				o.stats.margin(&d.Event)
			}
			out = append(out, d.Event)
		}
		if now.Sub(d.heard) >= settledAfter+forgottenAfter {
			delete(o.open, key)
		}
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), a.Tick.Compare(b.Tick), cmp.Compare(a.Job, b.Job), cmp.Compare(a.What, b.What),
			b.Count-a.Count, cmp.Compare(a.Host, b.Host))
	})
	return out
}

// next finds who came next after the win. A host that looked knows the instant by its estimate of
// Redis' clock, which may be a round trip behind: it saw the win, so it came after it.
func (d *decided) next() {
	const behind = 100 * time.Millisecond
	for _, a := range d.came {
		margin := a.at.Sub(d.At)
		if a.host == d.Host || margin < -behind {
			continue
		}
		if margin = max(0, margin); d.Next == "" || margin < d.Margin || margin == d.Margin && a.host < d.Next {
			d.Next, d.Margin = a.host, margin
		}
	}
}

// sawHosts takes in who is there, and tells what is odd about it.
func (o *outcome) sawHosts(hosts []ledger.Host) []string {
	own := o.stats.table
	var odd []string
	for i := range hosts {
		o.stats.host(&hosts[i])
		if hosts[i].Table != own {
			odd = append(odd, hosts[i].Name)
		}
	}
	text := fmt.Sprint(odd)
	if text == o.tables || len(odd) == 0 && o.tables == "" {
		return nil
	}
	o.tables = text
	if len(odd) == 0 {
		return []string{"all hosts have the same table again"}
	}
	return []string{fmt.Sprintf("hosts with another table than this one's: %s", text[1:len(text)-1])}
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

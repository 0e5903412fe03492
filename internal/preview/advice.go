package preview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rota/scheduler/schedule"
)

const (
	mostAdvice  = 10
	crowded     = 10        // ticks in one second that are worth spreading
	leastTrials = 150_000   // ticks that trials may replay, however small the table is
	mostTrials  = 1_000_000 // and however large
	leastGain   = 10        // per cent
	trialCost   = 500       // ticks that a trial counts for at least: it has to be set up
)

// adviser tries changes. Each trial replays the jobs concerned for at most a day with the change, and only
// what helps by a tenth or more is advice. It stops when its trials have replayed as many ticks as the
// window had, within bounds: a small table is cheap to try, and a large one must not take longer to advise on
// than to replay.
type adviser struct {
	ctx      context.Context
	opt      *Options
	rep      *Report
	budget   int64
	all      int64
	progress func(float64)
	out      []Advice
}

func advise(ctx context.Context, opt *Options, rep *Report, progress func(float64)) ([]Advice, error) {
	budget := min(max(rep.Ticks.Due, leastTrials), mostTrials)
	a := &adviser{ctx: ctx, opt: opt, rep: rep, budget: budget, all: budget, progress: progress, out: []Advice{}}
	for _, step := range []func() error{a.splays, a.locks} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(a.out, func(x, y Advice) int {
		return cmp.Or(cmp.Compare(y.gain(), x.gain()), cmp.Compare(y.Before, x.Before))
	})
	return a.out[:min(len(a.out), mostAdvice)], nil
}

// trial replays some jobs for a part of the window. ok is false if that was not possible within the budget.
func (a *adviser) trial(jobs []Job, from time.Time, length time.Duration) (rep *Report, ok bool, err error) {
	if a.budget <= 0 {
		return nil, false, nil
	}
	opt := *a.opt
	opt.Jobs, opt.From, opt.For, opt.seen = jobs, from, length, nil
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	r := newReplay(&opt)
	r.most = a.budget
	if err := r.run(ctx, func(float64) {}); err != nil {
		return nil, false, err
	}
	rep = r.counts()
	a.budget -= max(rep.Ticks.Due, trialCost)
	a.progress(1 - max(0, float64(a.budget))/float64(a.all))
	return rep, !r.tooMany, nil
}

// day is a part of the window of a day at most, around an instant.
func (a *adviser) day(around time.Time) (from time.Time, length time.Duration) {
	const day = 24 * time.Hour
	end := a.opt.From.Add(a.opt.For)
	from = around.Truncate(day)
	if from.Before(a.opt.From) {
		from = a.opt.From
	}
	return from, min(day, end.Sub(from))
}

// splays tries to spread the jobs of the fullest minute.
func (a *adviser) splays() error {
	if len(a.rep.Peaks) == 0 || a.rep.Load.Ticks < crowded {
		return nil
	}
	peak := a.rep.Peaks[0]
	for i := range a.rep.Peaks {
		if a.rep.Peaks[i].Most > peak.Most {
			peak = a.rep.Peaks[i]
		}
	}
	var names []string
	least := time.Duration(0)
	in := map[string]bool{}
	for _, c := range peak.Jobs {
		in[c.Job] = true
	}
	for i := range a.opt.Jobs {
		j := &a.opt.Jobs[i]
		if !in[j.Name] || j.Splay > 0 || j.Schedule == nil {
			continue
		}
		gap := j.Schedule.MinGap()
		if gap < time.Minute {
			continue // its ticks are as many as its starts can be spread over
		}
		names = append(names, j.Name)
		if least == 0 || gap < least {
			least = gap
		}
	}
	if len(names) < 2 {
		return nil
	}
	// An hour is enough to see the minute, and where its jobs go.
	from := peak.Minute.Truncate(time.Hour)
	if from.Before(a.opt.From) {
		from = a.opt.From
	}
	length := min(2*time.Hour, a.opt.From.Add(a.opt.For).Sub(from))
	before, ok, err := a.trial(a.opt.Jobs, from, length)
	if err != nil || !ok {
		return err
	}
	best := Advice{Kind: AdviseSplay, Jobs: names, Key: "splay", What: "ticks in the fullest second", Before: before.Load.Ticks, After: before.Load.Ticks}
	for _, splay := range []time.Duration{30 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if splay >= least {
			break
		}
		changed := a.changed(names, func(j *Job) { j.Splay = splay })
		after, ok, err := a.trial(changed, from, length)
		if err != nil {
			return err
		}
		// Spread, a job may meet another one at its lock: that would be no help.
		if ok && after.Load.Ticks < best.After && after.Ticks.Lost() <= before.Ticks.Lost() {
			gain := best.Before - best.After
			if gain > 0 && (best.Before-after.Load.Ticks)*100 < gain*120 {
				break // longer is hardly better
			}
			best.After, best.Value = after.Load.Ticks, short(splay)
		}
	}
	if !helps(best) {
		return nil
	}
	best.Text = fmt.Sprintf("splay = %q for the %d jobs of %s UTC: the fullest second has %d ticks instead of %d",
		best.Value, len(names), peak.Minute.Format("15:04"), best.After, best.Before)
	a.out = append(a.out, best)
	return nil
}

// locks tries what keeps jobs that share a lock out of each other's way: another minute, and, if they need
// not exclude each other, a lock of their own.
func (a *adviser) locks() error {
	for i := range a.rep.Locks {
		l := &a.rep.Locks[i]
		if len(l.Jobs) < 2 || l.Held == 0 {
			continue
		}
		var names []string
		for _, p := range l.ByPair {
			if p.Job != p.Holder && !slices.Contains(names, p.Job) {
				names = append(names, p.Job)
			}
		}
		if len(names) == 0 {
			continue
		}
		from, length := a.day(a.worst(l))
		jobs := a.only(l.Jobs)
		before, ok, err := a.trial(jobs, from, length)
		if err != nil || !ok {
			return err
		}
		var best Advice
		for _, name := range names[:min(len(names), 3)] {
			adv, err := a.minute(name, l.Lock, jobs, before, from, length)
			if err != nil {
				return err
			}
			if adv.gain() > best.gain() {
				best = adv
			}
		}
		if helps(best) {
			a.out = append(a.out, best)
		}
		if err := a.ownLock(names[0], l.Lock, jobs, before, from, length); err != nil {
			return err
		}
	}
	return nil
}

// worst is an instant of the window at which a lock is contended, as far as the cells tell.
func (a *adviser) worst(l *LockReport) time.Time {
	most, at := int64(-1), 0
	for i, c := range l.Cells {
		if c.Lost > most {
			most, at = c.Lost, i
		}
	}
	if a.rep.Heat.Folded && !l.Since.IsZero() {
		return l.Since
	}
	if a.rep.Heat.Folded && len(a.rep.Peaks) > 0 && a.opt.For > 24*time.Hour {
		return a.opt.From.Add(24 * time.Hour) // a whole day
	}
	return a.rep.Heat.Start.Add(time.Duration(at) * a.rep.Heat.Step.Duration())
}

// minute tries other minutes for a job whose spec names one. It returns the best of them, which may be no
// help.
func (a *adviser) minute(name, lock string, jobs []Job, before *Report, from time.Time, length time.Duration) (Advice, error) {
	best := Advice{Kind: AdviseTime, Jobs: []string{name}, Key: "schedule", What: "ticks lost, or waiting for the lock", Before: harm(before), After: harm(before)}
	at := slices.IndexFunc(jobs, func(j Job) bool { return j.Name == name })
	for _, shift := range []int{5, 10, 15, 20, 30, 45} {
		rule, text, ok := shifted(jobs[at].Schedule, shift)
		if !ok {
			return best, nil
		}
		changed := slices.Clone(jobs)
		changed[at].Schedule = rule
		after, ok, err := a.trial(changed, from, length)
		if err != nil || !ok {
			return best, err
		}
		// A few ticks may fall out of the part that is replayed, or come into it.
		if h := harm(after); h < best.After && after.Ticks.Due >= before.Ticks.Due {
			best.After, best.Value = h, text
		}
		if best.After == 0 {
			break
		}
	}
	best.Text = fmt.Sprintf("schedule = %q for %s: the jobs of the lock %q lose, or keep waiting, %d ticks in %s instead of %d",
		best.Value, name, lock, best.After, short(length), best.Before)
	return best, nil
}

// ownLock tries a lock of its own for a job.
func (a *adviser) ownLock(name, lock string, jobs []Job, before *Report, from time.Time, length time.Duration) error {
	at := slices.IndexFunc(jobs, func(j Job) bool { return j.Name == name })
	changed := slices.Clone(jobs)
	changed[at].Lock = name
	if jobs[at].LockName() == name {
		return nil // the others took its name
	}
	after, ok, err := a.trial(changed, from, length)
	if err != nil || !ok {
		return err
	}
	adv := Advice{
		Kind: AdviseLock, Jobs: []string{name}, Key: "lock", Value: name, What: "ticks lost, or waiting for the lock",
		Before: harm(before), After: harm(after),
	}
	if helps(adv) {
		adv.Text = fmt.Sprintf("lock = %q for %s, if it need not exclude the other jobs of the lock %q: they lose, or keep waiting, %d ticks in %s instead of %d",
			name, name, lock, adv.After, short(length), adv.Before)
		a.out = append(a.out, adv)
	}
	return nil
}

// harm is how many ticks found the lock held by another job, or were lost.
func harm(r *Report) int64 {
	n := r.Ticks.Skipped - r.Ticks.Skips.Other
	for i := range r.Locks {
		for _, p := range r.Locks[i].ByPair {
			if p.Job != p.Holder {
				n += p.Times
			}
		}
	}
	return n
}

// gain is how much less there is, in per cent: what is counted differs from one kind to the other.
func (a *Advice) gain() int64 { return (a.Before - a.After) * 100 / max(a.Before, 1) }

func helps(a Advice) bool { return a.gain() >= leastGain }

// changed is the table with a change to some jobs.
func (a *adviser) changed(names []string, change func(*Job)) []Job {
	out := slices.Clone(a.opt.Jobs)
	for i := range out {
		if slices.Contains(names, out[i].Name) {
			change(&out[i])
		}
	}
	return out
}

// only is the part of the table with those names.
func (a *adviser) only(names []string) []Job {
	return slices.DeleteFunc(slices.Clone(a.opt.Jobs), func(j Job) bool { return !slices.Contains(names, j.Name) })
}

// shifted is a schedule some minutes later in its hour. ok is false unless it is one spec that names one
// minute.
func shifted(s *schedule.Schedule, minutes int) (rule *schedule.Schedule, spec string, ok bool) {
	if s == nil || len(s.Specs()) != 1 {
		return nil, "", false
	}
	fields := strings.Fields(s.Specs()[0])
	zone := fields[:0:0]
	if strings.Contains(fields[0], "=") {
		zone, fields = fields[:1], fields[1:]
	}
	at := len(fields) - 5
	if at < 0 || at > 1 {
		return nil, "", false
	}
	minute, err := strconv.Atoi(fields[at])
	if err != nil {
		return nil, "", false
	}
	fields[at] = strconv.Itoa((minute + minutes) % 60)
	spec = strings.Join(slices.Concat(zone, fields), " ")
	rule, err = schedule.Parse(s.Zone(), spec)
	return rule, spec, err == nil
}

// short writes whole hours and minutes as people do.
func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return d.String()
}

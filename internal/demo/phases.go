package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// pump takes in what comes until done says so, or until the limit is over. It asks at every pulse
// at least. Once somebody is in a hurry it returns at once.
func (d *demo) pump(ctx context.Context, limit time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Rows also become due by waiting, and the status counts down, when no host says anything.
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for ctx.Err() == nil && !d.hurry && !done() {
		select {
		case <-d.queue.ready:
		case <-beat.C:
		case <-d.opt.Signals:
			d.early, d.hurry = true, d.early
		case <-ctx.Done():
		}
		d.takeIn()
	}
}

// takeIn handles what the queue holds, then shows what may be shown, and kills when it is time.
func (d *demo) takeIn() {
	for _, m := range d.queue.take() {
		switch {
		case m.asked:
			d.early = true
		case m.remains != nil:
			d.seen = m.remains
			if n := len(m.remains.left); n > 0 {
				d.screen.print(d.view.remain(m.host.name, n))
			}
		case m.ended:
			m.host.ended, m.host.code = true, m.code
		default:
			m.host.remember(m.line)
			if e, ok := parseLine(m.host.name, m.line); ok {
				d.board.add(e, time.Now())
				d.takeAim(e)
			}
		}
	}
	now := time.Now()
	d.showRows(now, false)
	if d.target != nil && now.After(d.target.at) {
		d.strike()
	}
	if !d.board.from.IsZero() {
		d.screen.show(d.view.status(d.board, d.stop.Sub(now)))
	}
	if d.screen.err != nil {
		d.early = true
	}
}

// showRows prints the rows that are complete. What is said of the kill comes after the rows of the
// tick that it hit, whose last hosts may answer later.
func (d *demo) showRows(now time.Time, all bool) {
	for _, r := range d.board.flush(now, all) {
		if r.tick.After(d.hit) {
			d.showKill()
		}
		d.screen.print(d.view.row(r))
		if r.took != nil {
			d.screen.print(d.view.takeover(r.took)...)
		}
	}
	if !d.board.waits(d.hit) {
		d.showKill()
	}
}

func (d *demo) showKill() {
	if d.notice != nil {
		d.screen.print(d.notice...)
		d.notice = nil
	}
}

// takeAim looks for the run to kill a host in: one of the slow job, after two fifths of the time,
// so that there is time to see how it was before and how it is afterwards. A run that ended before
// it could be hit was not it.
func (d *demo) takeAim(e event) {
	switch {
	case d.stop.IsZero() || d.killed != nil || e.job != slowJob:
	case e.kind == runStarted && e.tick.After(d.board.from):
		if d.slow++; d.slow >= int(d.opt.For*2/5/time.Second) {
			d.target = &aim{host: e.host, tick: e.tick, token: e.token, at: time.Now().Add(killAfter)}
		}
	case e.kind == runEnded && d.target != nil && d.target.token == e.token:
		d.target = nil
	}
}

// strike kills the host aimed at, and only it: what becomes of its run is what is to be seen.
func (d *demo) strike() {
	for _, h := range d.hosts {
		if h.name != d.target.host || h.ended {
			continue
		}
		// Afterwards nobody can tell any more whose children they were.
		below := descendants(h.cmd.Process.Pid)
		h.signal(syscall.SIGKILL)
		h.killed, d.killed = true, h
		d.others.Go(func() {
			d.queue.put(message{host: h, remains: awaitGone(below, h.config, leaseTTL)})
		})
		d.hit, d.notice = d.target.tick, d.view.died(h.name, d.board.die(h.name))
	}
	d.target = nil
}

// awaitHosts waits until all hosts are in the ledger. A heartbeat is the word that counts: it takes
// the process, its config, its way to Redis and a script.
func (d *demo) awaitHosts(ctx context.Context) error {
	limit := cmp.Or(d.opt.up, upWithin)
	up := map[string]bool{}
	d.pump(ctx, limit, func() bool {
		call, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		hosts, _ := d.ledger.Hosts(call) // it is asked again
		for _, h := range hosts {
			up[h.Name] = true
		}
		return len(up) == len(d.hosts) || d.early || d.fallen() != nil
	})
	if h := d.fallen(); h != nil {
		return errors.New(h.failed(h.end()))
	}
	for _, h := range d.hosts {
		switch {
		case up[h.name]:
		case d.early:
			return errors.New("ended before all hosts were up")
		default:
			return errors.New(h.failed(fmt.Sprintf("did not come up within %s", limit)))
		}
	}
	return nil
}

// fallen is a host that ended and should not have; nil: there is none.
func (d *demo) fallen() *host {
	for _, h := range d.hosts {
		if h.ended && !h.killed {
			return h
		}
	}
	return nil
}

// running are the hosts that have not ended.
func (d *demo) running() []*host {
	return slices.DeleteFunc(slices.Clone(d.hosts), func(h *host) bool { return h.ended })
}

// settle waits until the last tick of each job is decided, whatever that waits for: the next one's
// claim, a second later, says what became of it. It goes on until all hosts have said something
// about it, and a moment longer: whoever won, and is told to drain before it has read that, gives
// the tick back.
func (d *demo) settle(ctx context.Context, due []tickOf) {
	last := lastDue(due, jobNames())
	d.pump(ctx, settleWithin, func() bool {
		call, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		cursors, _, err := d.ledger.Cursors(call, jobNames())
		for i := range cursors {
			if cursors[i].Tick.Before(last[i]) {
				return false
			}
		}
		return err == nil
	})
	read := time.Now().Add(aMoment)
	d.pump(ctx, patience, func() bool { return time.Now().After(read) && len(d.board.pending) == 0 })
}

// drain asks the hosts that are left to end, waits for that, and says how they did.
func (d *demo) drain(ctx context.Context) []ending {
	// A daemon that has gone already did not drain, whatever its exit code says.
	fallen := slices.DeleteFunc(slices.Clone(d.hosts), func(h *host) bool { return !h.ended })
	for _, h := range d.hosts {
		h.signal(syscall.SIGTERM)
	}
	d.pump(ctx, drainWithin, func() bool {
		// The look for what the kill left may still go on, if the kill came last.
		return len(d.running()) == 0 && (d.killed == nil || d.seen != nil)
	})
	stuck := d.running()
	for _, h := range stuck {
		h.signal(syscall.SIGKILL)
	}
	d.others.Wait() // all hosts are dead or dying, so nothing keeps these
	d.takeIn()
	d.showRows(time.Now(), true)
	d.screen.show("")

	var ends []ending
	for _, h := range d.hosts {
		switch {
		case h.killed:
		case d.hurry && slices.Contains(stuck, h):
			ends = append(ends, ending{host: h.name, how: h.name + " was killed at the second signal, before it had drained"})
		case slices.Contains(stuck, h):
			ends = append(ends, ending{host: h.name, how: h.failed("did not drain, and was killed")})
		case slices.Contains(fallen, h) || h.code != 0:
			ends = append(ends, ending{host: h.name, how: h.failed(h.end())})
		default:
			ends = append(ends, ending{host: h.name, well: true})
		}
	}
	d.screen.print(d.view.drained(ends), "")
	return ends
}

// leftOver names the processes that outlived their hosts: by the lease of the one that was
// killed, or by now.
func (d *demo) leftOver() []string {
	left := runsUnder(d.dir)
	if d.seen != nil {
		for _, p := range d.seen.left {
			if !slices.Contains(left, p) {
				left = append(left, p)
			}
		}
	}
	var names []string
	for _, p := range left {
		names = append(names, fmt.Sprintf("process %d", p.pid))
		p.kill()
	}
	return names
}

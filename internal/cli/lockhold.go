package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"rota/internal/config"
	"rota/jobs"
	"rota/locking"
	"rota/scheduler"
)

// leaseTimes are those of one lease of rota lock.
type leaseTimes struct{ ttl, renewEvery, grace time.Duration }

// lockTimes are the config's, or those of another ttl in the same proportions. One is refused in which
// three renewals and the grace do not fit any more: what is fixed of it does not shrink.
func lockTimes(c *config.Config, flag string) (leaseTimes, error) {
	t := leaseTimes{c.Lease.TTL, c.Lease.RenewEvery, c.Lease.LossGrace}
	if flag == "" {
		return t, nil
	}
	ttl, err := config.ParseDuration(flag)
	if err != nil {
		return t, usage("--ttl: %v", err)
	}
	const longest = 24 * time.Hour
	if ttl > longest {
		return t, usage("--ttl: %s is longer than %s: as long would a dead holder keep the lock", flag, longest)
	}
	ttl = ttl.Round(time.Millisecond)
	scaled := func(d, to time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(to) / float64(t.ttl))
	}
	// A call that hangs is given up within a fraction of the lease too, see locking.Options.CallTimeout.
	fits := func(ttl time.Duration) bool {
		return ttl >= scheduler.LeastTTL(scaled(t.renewEvery, ttl), scaled(t.grace, ttl), scaled(c.Redis.OpTimeout, ttl))
	}
	if !fits(ttl) {
		least := t.ttl.Truncate(time.Millisecond) // which fits, as the load of the config has seen
		for below := time.Duration(0); least-below > time.Millisecond; {
			if middle := ((below + least) / 2).Truncate(time.Millisecond); fits(middle) {
				least = middle
			} else {
				below = middle
			}
		}
		return t, usage("--ttl: %s is too short to renew in and to end a command in; the smallest that will do is %s",
			flag, least)
	}
	return leaseTimes{ttl, scaled(t.renewEvery, ttl), scaled(t.grace, ttl)}, nil
}

// A hold keeps a command and its lease together: the command may go on for as long as the lease is renewed,
// and whoever asks for the end of the lease ends the command. It is the one of a daemon's runs
// (scheduler/hold.go) for one command and without a table.
//
// It owns two goroutines, from run until that returns: one takes in signals and the loss of the lease, the
// other asks after each renewal whether somebody wants the end.
type hold struct {
	times    leaseTimes
	failFast bool
	note     func(string) // says something to who sits at the terminal

	deadlines jobs.Deadlines
	renewed   chan struct{} // one that waits is enough
	failed    chan error    // a renewal, likewise

	mu      sync.Mutex // guards what follows, and that deadlines move in order
	locker  *locking.Locker
	lease   *locking.Lease // nil until run
	over    error          // why the command may not go on: the lease is being lost
	asked   string         // why somebody wants the end
	isAsked bool
	trouble error // of the last renewal, if that failed
	killed  bool  // by a second signal
}

func newHold(t leaseTimes, failFast bool) *hold {
	return &hold{times: t, failFast: failFast, renewed: make(chan struct{}, 1), failed: make(chan error, 1)}
}

// observe is the Locker's: it hears what becomes of the lease.
func (h *hold) observe(e locking.Event) {
	switch e.Kind { //nolint:exhaustive // the others are heard by who waits for them
	case locking.EventRenewed:
		h.vouch()
		select {
		case h.renewed <- struct{}{}:
		default:
		}
	case locking.EventRetried:
		h.mu.Lock()
		h.trouble = e.Err
		h.mu.Unlock()
		if h.failFast {
			select {
			case h.failed <- e.Err:
			default:
			}
		}
	}
}

// vouch moves the deadlines to what the lease allows. The warden keeps them, whatever becomes of this process.
func (h *hold) vouch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = nil
	if h.lease != nil && h.over == nil {
		kill := h.lastInstant()
		h.deadlines.Move(kill-h.times.grace, kill)
	}
}

// lastInstant is when the last process must be killed, to be dead by the trust deadline.
func (h *hold) lastInstant() time.Duration {
	return h.lease.TrustedUntil().Boottime() - scheduler.KillMargin(h.times.ttl)
}

// lose ends the command for the sake of a lease that is being lost, or that is another's already: its grace
// runs from now, and not beyond what the lease allows.
func (h *hold) lose(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return
	}
	h.over = why
	now := h.locker.Now().Boottime()
	h.deadlines.Move(now, min(now+h.times.grace, h.lastInstant()))
}

// run sees the command through. When it returns, nothing of the command lives that the warden knows of.
func (h *hold) run(locker *locking.Locker, lease *locking.Lease, signals <-chan os.Signal, c jobs.Command, r jobs.Run) jobs.Result {
	h.mu.Lock()
	h.locker, h.lease = locker, lease
	h.mu.Unlock()
	h.vouch()
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	passed, kill := make(chan os.Signal, 1), make(chan struct{})
	c.Signals, r.Kill, r.Deadlines = passed, kill, &h.deadlines
	// Stopped by ^Z this process would renew no lease, and the command would die of that.
	stops := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(stops, syscall.SIGTSTP)
		defer signal.Stop(stops)
	}
	gone := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { h.watch(gone, signals, stops, passed, kill, end) })
	work.Go(func() { h.ask(ctx, gone, end) })
	result := c.Run(ctx, r)
	close(gone)
	end(nil)
	work.Wait()
	return result
}

// watch passes the first signal on, has the second one kill, and looks after the lease.
func (h *hold) watch(gone <-chan struct{}, signals, stops <-chan os.Signal, passed chan<- os.Signal, kill chan<- struct{}, end context.CancelCauseFunc) {
	lost := h.lease.Done()
	for heard := 0; ; {
		select {
		case <-gone:
			return
		case sig := <-signals:
			switch heard++; heard {
			case 1:
				passed <- sig // there is room
			case 2:
				h.mu.Lock()
				h.killed = true
				h.mu.Unlock()
				close(kill)
			}
			continue
		case <-stops:
			h.note("not stopped: the command goes on while the lease is renewed, and ^C ends it")
			continue
		case err := <-h.failed:
			h.lose(fmt.Errorf("a renewal failed: %w", err))
		case <-lost:
			lost = nil
			h.lose(h.lease.Err())
		}
		end(jobs.ErrLost)
	}
}

// ask looks after each renewal whether somebody wants the lease to end. What cannot be asked is asked
// again after the next one.
func (h *hold) ask(ctx context.Context, gone <-chan struct{}, end context.CancelCauseFunc) {
	for {
		select {
		case <-gone:
			return
		case <-h.renewed:
		}
		reason, asked, err := h.lease.Asked(ctx)
		if err != nil || !asked {
			continue
		}
		h.mu.Lock()
		h.asked, h.isAsked = reason, true
		h.mu.Unlock()
		end(fmt.Errorf("%w: %s", jobs.ErrCancelled, reason))
		return
	}
}

// lost tells whether the command was ended for the sake of the lease, or has gone on without one; nil if
// neither. The release is the last word about that. Cause puts the failure of a call to Redis into words.
func (h *hold) lost(name string, r jobs.Result, released error, cause func(error) string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	const lost = "the lease was lost: "
	text, late := "", errors.Is(released, locking.ErrLost)
	loss, _ := errors.AsType[*locking.LossError](errors.Join(h.over, released))
	switch {
	case r.Outcome == jobs.Cancelled && h.isAsked:
		text = "ended: " + h.asked
	case !late && (r.Outcome != jobs.Lost || h.killed && h.over == nil):
		return nil
	case loss != nil && loss.Reason == locking.ReasonRefused:
		text = lost + h.instead()
	case loss != nil && loss.Reason == locking.ReasonDeadline:
		text = lost + overdue(loss.Err, cause)
	case late || h.over != nil:
		text = lost + cmp.Or(h.over, released).Error()
	case r.ExitCode == nil:
		text = r.Reason // it was about to end before the start, or the warden was lost
	default:
		text = lost + overdue(h.trouble, cause)
	}
	return &exitError{code: exitLost, text: name + ": " + plain(text)}
}

// overdue says why a lease could not be renewed in time: its last renewal failed, or none did and none
// came back.
func overdue(trouble error, cause func(error) string) string {
	const text = "it could not be renewed in time"
	if trouble == nil {
		return text + "; this process may have been stopped"
	}
	return text + ": " + cause(trouble)
}

// instead says what Redis has where the lease was.
func (h *hold) instead() string {
	ctx, cancel := context.WithTimeout(context.Background(), mostFarewell)
	defer cancel()
	state, err := h.locker.Query(ctx, h.lease.Name())
	switch {
	case errors.Is(err, locking.ErrConflict):
		return "something that is no lease was put in its place"
	case err != nil:
		return "Redis does not have it any more, or has another's"
	case state.Held:
		return "Redis has that of " + holderName(state.Holder) + " now"
	}
	return "Redis does not have it any more"
}

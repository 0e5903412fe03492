package ledger

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"rota/locking"
)

//go:embed renew.lua
var renewBody string

//go:embed finish.lua
var finishBody string

//go:embed abandon.lua
var abandonBody string

// Grant names a won claim to the methods that follow it: what was claimed, and what it won.
type Grant struct {
	Claim Claim
	Fence int64
	Found Found
	Won   time.Time
}

func (g *Grant) leaseName() string {
	if g.Claim.Lease != "" {
		return g.Claim.Lease
	}
	return g.Claim.Lock
}

// Kind is why there is the run: that of the claim, unless the win found a tick to run again.
func (g *Grant) Kind() Kind {
	if g.Found == FoundRerun {
		return Rerun
	}
	return g.Claim.Kind
}

// Renewal is the answer to a renewal.
type Renewal struct {
	Renewed bool      // false: the lease is not the caller's any more, definitely
	Now     time.Time // Redis' clock
	Epoch   string
	Cancel  string // not "": somebody asked for the run's end, and this says who and why
	End     string // not "": whoever waits for the lock asks for its end

	PauseFrom, PauseUntil string // the job's pause, as the record has it

	Err error // it is unknown whether the lease was renewed; nothing else is set
}

// Renew extends the leases of the grants by their TTL, in one pipeline.
func (l *Ledger) Renew(ctx context.Context, grants []*Grant) []Renewal {
	calls := make([]locking.Call, len(grants))
	for i, g := range grants {
		calls[i] = locking.Call{
			Keys: []string{l.keys.lease(g.leaseName()), l.keys.record(g.Claim.Job)},
			Args: []any{l.keys.prefix, g.Claim.Job, g.Claim.Run, g.Claim.Token.Reveal(), g.Claim.TTL.Milliseconds()},
		}
	}
	out := make([]Renewal, len(grants))
	for i, rep := range l.renew.RunAll(ctx, l.client, calls) {
		if rep.Err != nil {
			out[i].Err = fmt.Errorf("renew %q: %w", grants[i].Claim.Job, rep.Err)
			continue
		}
		r := readReply("renew", grants[i].Claim.Job, rep.Value, 7)
		out[i] = Renewal{
			Renewed: r.text(0) == "1", Now: r.instant(1), Epoch: r.text(2), Cancel: r.text(3), End: r.text(4),
			PauseFrom: r.text(5), PauseUntil: r.text(6),
		}
		if r.err != nil {
			out[i] = Renewal{Err: r.err}
		}
	}
	return out
}

// Ending is how a run ended, as its host saw it.
type Ending struct {
	Outcome  string
	Reason   string
	ExitCode *int
	Started  time.Time // by the host's clock, corrected to Redis'; zero: it never started
	Ended    time.Time
	Attempt  int
	Output   []byte // what is kept of what the run printed; nil: nothing

	CPU             time.Duration // what it used, to the microsecond; 0: not known
	PeakMemoryBytes int64         // most memory at a time; 0: not known

	// Alive says that something of the run may be alive, and cannot be waited for any longer. Its
	// lease is not given back: it keeps others out until it expires.
	Alive bool
}

// Finish gives the lease back and records how the run ended. held tells whether the lease was
// still the caller's; the outcome is recorded either way. It may be sent again after an error.
func (l *Ledger) Finish(ctx context.Context, g *Grant, e Ending) (held bool, err error) {
	c := &g.Claim
	if err := c.check(); err != nil {
		return false, err
	}
	fields := []any{
		"run", c.Run, "tick", millis(c.Tick), "kind", string(g.Kind()), "host", c.Host, "lock", c.Lock,
		"lease", l.keys.lease(g.leaseName()), "token", g.Fence, "won", millis(g.Won), "definition", c.Definition,
		"reruns", flag(g.Found == FoundRerun), "reason", e.Reason, "attempt", e.Attempt, "started", millis(e.Started),
	}
	if e.ExitCode != nil {
		fields = append(fields, "code", strconv.Itoa(*e.ExitCode))
	}
	if e.CPU > 0 {
		fields = append(fields, "cpu_us", max(e.CPU.Microseconds(), 1))
	}
	if e.PeakMemoryBytes > 0 {
		fields = append(fields, "peak_bytes", e.PeakMemoryBytes)
	}
	if c.Request != "" {
		fields = append(fields, "request", c.Request, "who", c.Who)
	}
	args := append([]any{
		l.keys.prefix, c.Job, c.Run, c.Token.Reveal(), l.expireOf(c).Milliseconds(), l.keep,
		e.Outcome, millis(e.Ended), e.Output, flag(e.Alive),
	}, fields...)
	v, err := l.finish.Run(ctx, l.client, []string{l.keys.lease(g.leaseName()), l.keys.record(c.Job)}, args...)
	if err != nil {
		return false, fmt.Errorf("finish %q: %w", c.Job, err)
	}
	r := readReply("finish", c.Job, v, 2)
	held = r.text(0) == "1"
	return held, r.err
}

// Abandon gives back a claim that was won but is not used, or one whose answer never came. The
// tick is open again to every host. It may be sent again after an error.
func (l *Ledger) Abandon(ctx context.Context, c *Claim, reason string) error {
	if err := c.check(); err != nil {
		return err
	}
	g := Grant{Claim: *c}
	_, err := l.abandon.Run(ctx, l.client, []string{l.keys.lease(g.leaseName()), l.keys.record(c.Job)},
		l.keys.prefix, c.Job, c.Run, c.Token.Reveal(), l.expireOf(c).Milliseconds(), millis(c.Tick), reason)
	if err != nil {
		return fmt.Errorf("abandon %q: %w", c.Job, err)
	}
	return nil
}

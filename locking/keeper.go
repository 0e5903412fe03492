package locking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxInFlight is how many renewal calls a Keeper has under way at once. A call that
	// hangs holds one place; more than a few at once say that Redis hangs, not the call.
	maxInFlight = 4
	// maxBatch is how many leases one renewal call takes. Of a thousand the server is at some while
	// this side reads and writes others.
	maxBatch = 256
	// clockCheck is how often the clocks are compared while leases are kept: how late, at
	// most, a Keeper notices that the machine slept or that the wall clock jumped.
	clockCheck = 250 * time.Millisecond
	// clockJump is how far the wall clock must run ahead of the others to be a jump.
	clockJump = time.Second
	// defaultCallTimeout bounds one call where the options say nothing.
	defaultCallTimeout = 1500 * time.Millisecond
)

// KeeperOptions configure a [Keeper].
type KeeperOptions struct {
	// Renew renews grants and returns one error for each, in order: nil if it is renewed,
	// [ErrLost] if Redis says that it is not the token's any more, anything else if that is
	// unknown. It must return when ctx's deadline passes; until it does, Stop and Close wait
	// for it, and its leases are not tried again (they still end on time). It is called from
	// several goroutines at once and must not call Stop, Release or Close. Required.
	Renew func(ctx context.Context, grants []Grant) []error

	// RenewEvery is the distance of renewals. A lease whose TTL has no room for three gets
	// a third of what is trusted of it. 0: a third for all.
	RenewEvery time.Duration

	// Notice is how long before its trust deadline the context of a lease ends when
	// renewals keep failing: the time a holder needs to wind up. Renewals go on meanwhile,
	// to keep the lock until then. A grant that has no more than Notice left is lost when Keep
	// returns it, with [ReasonFailing], and is kept all the same. 0: at the trust deadline.
	Notice time.Duration

	// FailFast ends a lease's context at the first renewal that fails.
	FailFast bool

	// CallTimeout bounds one call of Renew, as does a quarter of the shortest TTL in it,
	// so that several calls fit into a lease if each one hangs. 0: 1.5 s.
	CallTimeout time.Duration

	// Observe is as in [Options].
	Observe func(Event)

	// Boottime reads a clock that goes on while the machine sleeps. Nil: CLOCK_BOOTTIME.
	// In a testing/synctest bubble pass one that stands still: the real one is not the
	// bubble's.
	Boottime func() time.Duration

	// Logger gets what a lease's holder is told, and faults of renewals. Nil: nothing.
	Logger *slog.Logger
}

// Keeper keeps leases alive that somebody was granted: it renews them, judges by its clocks
// how far each can be trusted, and ends their contexts when they cannot be. All leases of a
// Keeper that are due go in one call of Renew. It is safe for concurrent use.
//
// A Keeper owns two kinds of goroutine and waits for both in [Keeper.Close]: one that plans
// renewals, and one for each call under way. Deadlines depend on neither: every lease has a
// timer of its own.
type Keeper struct {
	opt    KeeperOptions
	log    *slog.Logger
	ctx    context.Context // of renewal calls; ends with Close
	cancel context.CancelFunc
	wake   chan struct{}
	wg     sync.WaitGroup

	// late hears of renewals confirmed for a lease that nobody trusts any more. Set by a Locker.
	late func(Grant)

	mu       sync.Mutex // taken before a lease's
	leases   map[*Lease]struct{}
	inFlight int
	used     bool // a lease came since the planner looked
	asleep   bool // the planner looks again only when it is woken
	closed   bool
}

// NewKeeper starts a Keeper. Every error matches [ErrInvalidOptions].
func NewKeeper(opt KeeperOptions) (*Keeper, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if opt.CallTimeout == 0 {
		opt.CallTimeout = defaultCallTimeout
	}
	if opt.Boottime == nil {
		opt.Boottime = boottime
	}
	k := &Keeper{
		opt:    opt,
		log:    opt.Logger,
		wake:   make(chan struct{}, 1),
		leases: map[*Lease]struct{}{},
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.wg.Go(k.plan)
	return k, nil
}

func (o *KeeperOptions) check() error {
	var faults []error
	if o.Renew == nil {
		faults = append(faults, invalid("Renew: nil"))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RenewEvery", o.RenewEvery}, {"Notice", o.Notice}, {"CallTimeout", o.CallTimeout}} {
		if d.value < 0 {
			faults = append(faults, invalid("%s: %s is negative", d.name, d.value))
		}
	}
	return errors.Join(faults...)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidOptions, fmt.Sprintf(format, args...))
}

// Now reads the clocks. Call it before sending the request that asks for a grant.
func (k *Keeper) Now() Instant { return readInstant(k.opt.Boottime) }

// Keep renews g until the lease is stopped, lost, or the Keeper closed. The first renewal
// is sent when RenewEvery has passed since g.Sent.
//
// The lease's context is a child of ctx. The end of ctx ends it too, but not the renewals:
// a holder that was told to stop still needs its lock until it has.
//
// A grant that cannot be trusted any more, or whose Sent is zero, makes a lease that is
// lost already; so does one that comes after Close.
func (k *Keeper) Keep(ctx context.Context, g Grant) *Lease {
	l := newLease(ctx, k, g)
	now := k.Now()
	k.mu.Lock()
	l.mu.Lock()
	var loss *LossError
	soon := k.asleep
	if k.closed {
		loss = l.end(ReasonClosed)
		l.finish()
	} else {
		k.leases[l], k.used = struct{}{}, true
		loss = l.judge(now)
		if now.WallAhead(g.Sent) > clockJump {
			l.due = now.mono
		}
		soon = soon || l.due.Sub(now.mono) <= clockCheck // else the planner looks in time
	}
	l.mu.Unlock()
	k.mu.Unlock()
	k.report(l, loss)
	if soon {
		k.poke()
	}
	return l
}

// RenewNow makes every lease due at once. It does not wait for the renewals. For when it
// shows that time has passed which the clocks did not see: the wall clock jumped, or the
// clock of Redis.
func (k *Keeper) RenewNow() {
	k.renewAll(k.Now())
	k.poke()
}

func (k *Keeper) renewAll(now Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.leases {
		l.mu.Lock()
		// What is under way was sent before and may prove too little: it is sent again.
		l.due, l.again = now.mono, l.batch != nil
		l.mu.Unlock()
	}
}

// Close stops all renewals and waits for those under way. Leases that are still kept are
// lost, with [ReasonClosed]; their keys stay in Redis until they expire. Idempotent.
func (k *Keeper) Close() error {
	k.mu.Lock()
	k.closed = true
	leases := k.leases
	k.leases = map[*Lease]struct{}{}
	k.mu.Unlock()
	k.cancel()
	for l := range leases {
		l.mu.Lock()
		loss := l.end(ReasonClosed)
		l.finish()
		l.mu.Unlock()
		k.report(l, loss)
	}
	k.wg.Wait()
	return nil
}

// poke makes the planner look again.
func (k *Keeper) poke() { signal(k.wake) }

// drop forgets a lease that is over.
func (k *Keeper) drop(l *Lease) {
	k.mu.Lock()
	delete(k.leases, l)
	k.mu.Unlock()
}

// report logs that a lease was lost. It is called without any lock held: a Handler is the
// caller's code.
func (k *Keeper) report(l *Lease, loss *LossError) {
	if loss == nil {
		return
	}
	k.observe(l, EventLost, loss)
	log := k.log.Warn
	if loss.Reason == ReasonPanicked {
		log = k.log.Error // a fault of the program, not of Redis
	}
	log("lost lease", "lock", l.grant.Name, "token", l.grant.Fence, "reason", string(loss.Reason), "err", loss.Err)
}

// observe tells the observer. It is called without any lock held.
func (k *Keeper) observe(l *Lease, kind EventKind, err error) {
	if k.opt.Observe != nil {
		k.opt.Observe(Event{Kind: kind, Name: l.grant.Name, FencingToken: l.grant.Fence, Left: l.Remaining(), Err: err})
	}
}

package locking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Locker grants leases on named locks of one Redis. It is safe for concurrent use; one for
// a whole program is enough, and best, since its leases share their renewals and it knows
// the fencing tokens it has seen.
//
// A Locker owns its [Keeper], one goroutine for each acquisition under way (it outlives its
// caller if that left before the answer came), one for each grant that nobody may know
// of and that is being taken back, and one that listens while somebody waits. Close waits for them.
type Locker struct {
	opt    Options
	log    *slog.Logger
	names  naming
	client redis.UniversalClient
	own    bool // the client is ours to close
	keeper *Keeper
	floors floors
	queues queues
	hints  hints

	requests requests

	sent struct{ ttl, fenceTTL, holder any } // what every acquisition sends, as it is sent

	acquire, renew, resize, release, query, take *Script

	closing context.Context // ends when Close is called
	cancel  context.CancelFunc
	taking  atomic.Int64 // grants being taken back

	mu     sync.Mutex
	closed bool
	// wg counts calls and goroutines. It grows with mu held, or from within, or from the Keeper,
	// whose end Close awaits first.
	wg sync.WaitGroup
}

// New makes a Locker. It asks nothing of Redis.
//
// By default the Locker makes a small client of its own from client's options, for a
// [redis.Client] (also one with Sentinels) and a [redis.ClusterClient]; any other is used as
// it is, as with Options.ShareClient. Either way client must stay open until the Locker is
// closed. A [redis.Ring] is refused: when a shard is down it looks for its names on others,
// and grants them again there.
//
// The error joins all faults of opt; each matches [ErrInvalidOptions].
func New(client redis.UniversalClient, opt Options) (*Locker, error) {
	opt, names, err := opt.complete()
	switch client.(type) {
	case nil:
		err = errors.Join(err, invalid("client: nil"))
	case *redis.Ring:
		err = errors.Join(err, invalid("client: a redis.Ring would grant a lock twice when a shard is down"))
	}
	if err != nil {
		return nil, err
	}
	l := &Locker{
		opt:     opt,
		log:     opt.Logger,
		names:   names,
		client:  client,
		acquire: NewScript(acquireBody),
		renew:   NewScript(renewBody),
		resize:  NewScript(resizeBody),
		release: NewScript(releaseBody),
		query:   NewScript(queryBody),
		take:    NewScript(takeBody),
	}
	l.keeper, err = NewKeeper(KeeperOptions{
		Renew:       l.renewAll,
		RenewEvery:  opt.RenewEvery,
		CallTimeout: opt.CallTimeout,
		Observe:     opt.Observe,
		Boottime:    opt.Boottime,
		Logger:      opt.Logger,
	})
	if err != nil {
		return nil, err
	}
	l.keeper.late = func(g Grant) {
		if keys, err := l.names.keys(g.Name); err == nil {
			l.takeBack(context.Background(), keys, g.Token, 0)
		}
	}
	if !opt.ShareClient {
		l.client, l.own = dedicated(client, opt.CallTimeout, opt.TTL, &l.requests)
	}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.sent.ttl, l.sent.fenceTTL, l.sent.holder = wireMillis(opt.TTL), wireMillis(opt.FenceTTL), opt.Holder
	l.hints = hints{locker: l, wanted: map[string]*queue{}, changed: make(chan struct{}, 1)}
	return l, nil
}

// TryAcquire makes one attempt to take the lock name. It never waits for a holder.
//
// If another holder has it, the error is a [*HeldError], which matches [ErrHeld]. The
// other errors are [ErrInvalidName], [ErrConflict], [ErrClosed], [ErrUnavailable], the
// end of ctx (with its cause), or an answer of Redis that no repetition will change.
//
// A request whose answer is lost is repeated with the same ownership token, which Redis
// answers with the same grant, while ctx and twice Options.CallTimeout allow. If no answer
// comes, or ctx ends first, TryAcquire returns at once, and whatever Redis may have granted
// is compared and deleted in the background: now, when the last request is back, and for
// another twice CallTimeout, as a request may arrive after its connection was given up.
//
// The lease is trusted until the instant before the request was sent that was answered,
// plus TTL, minus Margin; a grant that arrives later than that is given back. The lease's
// context has the values of ctx, but does not end with it.
func (l *Locker) TryAcquire(ctx context.Context, name string) (*Lease, error) {
	return l.tryAcquire(ctx, context.WithoutCancel(ctx), name, false)
}

// Do runs fn while it holds the lock name: it makes one attempt to take it, as
// [Locker.TryAcquire] does and with its errors, and releases it when fn has returned, also
// by a panic. The context that fn gets ends with ctx, and when the lease is lost.
//
// The error is that of fn; joined with it is a loss of the lease (which matches [ErrLost]:
// somebody else may have been in meanwhile), or why the release failed.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error) (err error) {
	lease, err := l.tryAcquire(ctx, ctx, name, false)
	if err != nil {
		return err
	}
	defer func() {
		if lost := lease.Release(ctx); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return fn(lease.Context(), lease) //nolint:contextcheck // a child of ctx, which Keep made
}

// Close stops all renewals and waits for what is under way, at most about
// Options.CallTimeout. Leases that are still held are lost, with [ReasonClosed], and their
// keys stay in Redis until they expire: Close cannot know whether the work under them has
// ended, so release them first. Idempotent.
func (l *Locker) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.requests.leaveAll()
	err := l.keeper.Close()
	l.wg.Wait()
	if first && l.own {
		err = errors.Join(err, l.client.Close())
	}
	return err
}

// Now reads the clocks that leases are judged by, to compare with [Lease.TrustedUntil].
func (l *Locker) Now() Instant { return l.keeper.Now() }

// enter counts a call in, unless the Locker is closed.
func (l *Locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.wg.Add(1)
	return nil
}

// ended returns why a caller's context has ended, so that errors.Is finds both what ended
// it and which of the two ways of context it was.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// sleep waits, unless one of the channels is closed first.
func sleep(d time.Duration, a, b <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-a:
	case <-b:
	}
	return false
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"rota/locking"
	"rota/scheduler/ledger"
)

// Scheduler is one host of a fleet. Make it with [New], run it once with [Scheduler.Run].
type Scheduler struct {
	opt    Options
	log    *slog.Logger // through logs
	logs   *logQueue
	id     string // of this start
	keeper *locking.Keeper
	clock  *fleetClock
	redis  presence

	beaten   bool                 // there was a heartbeat; the heart's alone
	told     string               // the epoch of a Redis that forgot, as logged last; the heart's alone
	hostless map[string]*hostless // jobs that no host may run; the heart's alone
	contact  chan struct{}        // closed when Redis has answered for the first time
	beatNow  chan struct{}
	reloaded chan struct{} // the loop shall look at the table
	returned chan struct{} // Redis is back, or this host may claim again
	killed   chan struct{} // closed by Kill
	killing  sync.Once

	tending  *tending                  // jobs with ticks that the plan does not bring
	room     *room                     // for runs
	calls    chan struct{}             // room for single claims and outcomes under way
	progress atomic.Pointer[time.Time] // of the loop

	work     sync.WaitGroup // races, tries, runs
	handling sync.WaitGroup // handlers; one that ignores its end may outlive its run

	handlers  context.Context // parent of every run's
	interrupt context.CancelCauseFunc
	ending    context.Context // ends when even recording outcomes must stop
	end       context.CancelFunc
	leaving   context.Context // ends when those must that are stored
	leave     context.CancelFunc
	left      atomic.Int64 // outcomes that the next daemon has to deliver

	mu       sync.Mutex           // guards what follows
	fleet    []string             // hosts that may claim; replaced, never changed
	labels   map[string][]string  // of every host that is there, likewise
	table    *table               // in force
	since    time.Time            // when Redis was first reached, by its clock
	draining bool                 // this daemon ends
	refusals map[string]string    // why a job's claims are refused, as logged last
	drained  bool                 // the host was told to claim nothing
	epoch    string               // of Redis, at the last heartbeat
	steering ledger.Steering      // what people had set then
	decided  map[string]time.Time // the newest tick known decided, by job
	floors   map[string]int64     // the highest fencing token seen, by lock
	stuck    map[string]int       // handlers that were given up and have not returned, by job
	runs     map[locking.Token]*run
	held     map[grantKey]*run        // the same, once their leases are kept
	records  map[string]bool          // runs whose outcome is on its way from here: Redis has not taken it yet
	lines    map[string]chan struct{} // closed when a job's newest outcome has passed
	twins    map[string]bool
	strange  string                 // the hosts with another table, as logged last
	seen     map[string]ledger.Host // at the last heartbeat

	storeFault string // of Options.Outcomes, as logged last
	storeSaid  time.Time
}

// New checks the options and makes a Scheduler. All their faults are in one error.
func New(opt Options) (*Scheduler, error) {
	opt.setDefaults()
	tab, err := newTable(opt.Jobs, opt.Table, opt.Host, opt.Labels)
	if err := errors.Join(opt.check(), err); err != nil {
		return nil, err
	}
	s := &Scheduler{
		opt: opt, table: tab, id: ulid.Make().String(),

		hostless: map[string]*hostless{},
		contact:  make(chan struct{}),
		beatNow:  make(chan struct{}, 1),
		reloaded: make(chan struct{}, 1),
		returned: make(chan struct{}, 1),
		killed:   make(chan struct{}),

		tending: newTending(),
		room:    newRoom(opt.MaxRuns),
		calls:   make(chan struct{}, callsAtOnce),

		refusals: map[string]string{},
		decided:  map[string]time.Time{},
		floors:   map[string]int64{},
		stuck:    map[string]int{},
		runs:     map[locking.Token]*run{},
		held:     map[grantKey]*run{},
		records:  map[string]bool{},
		lines:    map[string]chan struct{}{},
		twins:    map[string]bool{},
	}
	handler := slog.DiscardHandler
	if opt.Logger != nil {
		handler = opt.Logger.Handler()
	}
	s.logs = newLogQueue(handler)
	s.log = slog.New(queued{handler, s.logs})
	s.keeper, err = locking.NewKeeper(locking.KeeperOptions{
		Renew: s.renew, Observe: s.renewed,
		RenewEvery: opt.RenewEvery, Notice: opt.LossGrace + KillMargin(opt.TTL), FailFast: opt.FailFast,
		CallTimeout: opt.OpTimeout, Boottime: opt.Boottime,
	})
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	s.clock = &fleetClock{instant: s.keeper.Now, skew: opt.ClockOffset}
	s.handlers, s.interrupt = context.WithCancelCause(context.Background())
	s.ending, s.end = context.WithCancel(context.Background())
	s.leaving, s.leave = context.WithCancel(s.ending)
	return s, nil
}

// Run races and runs until ctx ends, then drains: nothing more is claimed, runs may go on for
// Options.Drain and are interrupted after that. It returns when nothing of it is left, always
// nil: whatever Redis does, it waits for it.
func (s *Scheduler) Run(ctx context.Context) error {
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { s.heart(beating) })
	heart.Go(func() { s.listen(beating) })
	heart.Go(func() { s.touch(beating) })
	s.deliverLeft() //nolint:contextcheck // what ctx ends is claiming, not delivering

	var tending sync.WaitGroup
	tending.Go(func() { s.tend(ctx) })
	tending.Go(func() { s.door(ctx) })
	s.loop(ctx)
	<-ctx.Done()
	tending.Wait()
	s.drain()

	stopBeating()
	heart.Wait()
	s.end()
	if n := s.left.Load(); n > 0 {
		s.log.Warn("outcomes left undelivered", "count", n, "effect", "they are kept for the next daemon")
	}
	_ = s.keeper.Close()
	defer s.logs.settle() //nolint:contextcheck // ctx has ended
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.OpTimeout)
	defer cancel()
	if s.clock.known() {
		_ = s.opt.Ledger.Leave(leaving, s.opt.Host, s.id) // it is gone after three missed beats anyway
	}
	return nil
}

// Kill ends every run at once. Run, once its context has ended, then returns without waiting
// for Options.Drain: when the handlers have returned, or when the leases of those are over that can
// be killed and still have not.
func (s *Scheduler) Kill() { s.killing.Do(func() { close(s.killed) }) }

// callsAtOnce bounds the single calls to Redis, so that a thousand runs that end together
// queue here, where waiting costs no deadline, and not for a connection, where it does.
const callsAtOnce = 16

// call makes one call to Redis when there is room for it, with a deadline that begins then.
func (s *Scheduler) call(f func(ctx context.Context)) {
	s.calls <- struct{}{}
	defer func() { <-s.calls }()
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.OpTimeout)
	defer cancel()
	f(ctx)
}

// spawn starts a goroutine of the races, unless the drain has begun to wait for them.
func (s *Scheduler) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.work.Go(f)
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// Options of a [Scheduler].
type Options struct {
	Ledger *ledger.Ledger // required
	// Urgent is the same ledger through a client of its own, for renewals and heartbeats: they
	// must not wait behind the claims and outcomes of a thousand jobs. Nil: Ledger.
	Urgent *ledger.Ledger
	Jobs   []Job  // the table; the same on every host
	Table  string // hash of the table: hosts with the same one share what they know of an instant

	Namespace string // the fleet; told to runs
	Host      string // this host's name, unique in the fleet, as [ledger.CheckName] wants it; required
	Labels    []string
	Version   string
	Config    string // path of the config file; told to runs

	TTL        time.Duration // of a lease; 0: 30 s
	RenewEvery time.Duration // 0: 5 s
	LossGrace  time.Duration // between SIGTERM and SIGKILL when a lease is being lost; 0: none
	FailFast   bool          // a run ends at the first renewal that fails
	OpTimeout  time.Duration // of any one call to Redis; 0: 1.5 s

	MaxRuns     int           // at once on this host, of jobs that count, manual ones too; 0: 4 × CPUs
	MaxAge      time.Duration // how far a job's history goes back, to a day; its newest run stays. 0: 14 days
	OutputBytes int           // kept of a run's output; 0: 16 KiB
	Outcomes    OutcomeStore  // keeps outcomes while Redis is away, for the next process too; nil: they are kept in memory alone
	Drain       time.Duration // how long runs may go on once Run is told to end; 0: they are interrupted at once
	StopGrace   time.Duration // how long interrupted handlers may take to return, unless they say that they need longer. 0: 30 s

	// Boottime reads a clock that goes on while the machine sleeps. Nil: CLOCK_BOOTTIME. In a
	// testing/synctest bubble pass one that stands still.
	Boottime func() time.Duration

	// ClockOffset makes a host whose wall clock is off by that. For tests.
	ClockOffset time.Duration

	Logger *slog.Logger // nil: nothing is logged
}

// Scheduler is one host of a fleet. Make it with [New], run it once with [Scheduler.Run].
type Scheduler struct {
	opt    Options
	log    *slog.Logger
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
	opt.TTL = orDuration(opt.TTL, 30*time.Second)
	opt.RenewEvery = orDuration(opt.RenewEvery, 5*time.Second)
	opt.OpTimeout = orDuration(opt.OpTimeout, 1500*time.Millisecond)
	opt.StopGrace = orDuration(opt.StopGrace, 30*time.Second)
	opt.MaxAge = orDuration(opt.MaxAge, 14*24*time.Hour)
	if opt.MaxRuns == 0 {
		opt.MaxRuns = 4 * runtime.GOMAXPROCS(0)
	}
	if opt.OutputBytes == 0 {
		opt.OutputBytes = 16 << 10
	}
	if opt.Urgent == nil {
		opt.Urgent = opt.Ledger
	}
	tab, err := newTable(opt.Jobs, opt.Table, opt.Host, opt.Labels)
	if err := errors.Join(opt.check(), err); err != nil {
		return nil, err
	}
	s := &Scheduler{
		opt: opt, table: tab, log: opt.Logger, id: ulid.Make().String(),
		contact: make(chan struct{}), beatNow: make(chan struct{}, 1), reloaded: make(chan struct{}, 1), returned: make(chan struct{}, 1), killed: make(chan struct{}),
		calls: make(chan struct{}, callsAtOnce), decided: map[string]time.Time{}, floors: map[string]int64{}, stuck: map[string]int{},
		tending: newTending(), room: newRoom(opt.MaxRuns), hostless: map[string]*hostless{}, runs: map[locking.Token]*run{}, held: map[grantKey]*run{}, records: map[string]bool{}, lines: map[string]chan struct{}{}, twins: map[string]bool{}, refusals: map[string]string{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.keeper, err = locking.NewKeeper(locking.KeeperOptions{
		Renew: s.renew, RenewEvery: opt.RenewEvery, Notice: opt.LossGrace + KillMargin(opt.TTL), FailFast: opt.FailFast,
		CallTimeout: opt.OpTimeout, Boottime: opt.Boottime, Observe: s.renewed,
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

func (o *Options) check() error {
	var faults []error
	if o.Ledger == nil {
		faults = append(faults, errors.New("scheduler: Ledger is nil"))
	}
	if o.Host == "" {
		faults = append(faults, errors.New("scheduler: Host is empty"))
	} else if err := ledger.CheckName(o.Host); err != nil {
		faults = append(faults, fmt.Errorf("scheduler: Host: %w", err))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", o.TTL},
		{"RenewEvery", o.RenewEvery},
		{"LossGrace", o.LossGrace},
		{"OpTimeout", o.OpTimeout},
		{"MaxAge", o.MaxAge},
		{"Drain", o.Drain},
		{"StopGrace", o.StopGrace},
	} {
		if d.d < 0 {
			faults = append(faults, fmt.Errorf("scheduler: %s is %s, want 0 or more", d.name, d.d))
		}
	}
	if least := LeastTTL(o.RenewEvery, o.LossGrace, o.OpTimeout); o.TTL > 0 && o.TTL < least {
		faults = append(faults, fmt.Errorf("scheduler: TTL is %s, want %s or more: a lease must outlast three renewals, the grace and a call", o.TTL, least))
	}
	if o.MaxRuns < 0 {
		faults = append(faults, fmt.Errorf("scheduler: MaxRuns is %d, want 0 or more", o.MaxRuns))
	}
	return errors.Join(faults...)
}

// LeastTTL is the shortest lease that is safe with these values, rounded up to a millisecond: three
// renewals may fail and one call hang, and there is still the grace of the run before the trust
// deadline. The 6 % of the lease itself are what lies between that and its end: 1 % of margin, which
// package locking explains, and 5 % for the last SIGKILL, with 50 ms for what of both does not shrink.
func LeastTTL(renewEvery, lossGrace, opTimeout time.Duration) time.Duration {
	fixed := 3*renewEvery + lossGrace + opTimeout + 50*time.Millisecond
	least := (fixed*100 + 93) / 94 // rounded up: fixed is what 94 % of a lease must hold
	return (least + time.Millisecond - 1).Truncate(time.Millisecond)
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
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
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.OpTimeout)
	defer cancel()
	if s.clock.known() {
		_ = s.opt.Ledger.Leave(leaving, s.opt.Host, s.id) // it is gone after three missed beats anyway
	}
	return nil
}

// Kill ends every run at once. Run, once its context has ended, then returns without waiting
// for Options.Drain.
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

// drain waits for what is under way: as long as Drain says, then as long as handlers take to
// end, then as long as it takes to record that.
func (s *Scheduler) drain() {
	s.mu.Lock()
	s.draining = true
	going := len(s.runs)
	s.mu.Unlock()
	s.log.Info("drain began", "running", going)
	s.beatSoon() // tells the others not to rank this host
	done, handlers := closedAfter(&s.work), closedAfter(&s.handling)
	go func() {
		<-handlers
		time.AfterFunc(s.callGrace(), s.leave) // as long as runs go on, so do all tries
	}()
	if waitFor(s.opt.Drain, done, s.killed) == done {
		return
	}
	s.interrupt(fmt.Errorf("%w: the daemon stopped and the drain time of %s was over", jobs.ErrInterrupted, s.opt.Drain))
	if waitFor(s.stopGrace(), done, handlers, s.killed) == done {
		return
	}
	s.Kill()
	if waitFor(s.callGrace(), done) != done {
		s.end()
		<-done
	}
}

// callGrace is how long calls that fail are repeated while the daemon stops.
func (s *Scheduler) callGrace() time.Duration { return abandonAfterKill + 2*s.opt.OpTimeout }

// stopGrace is how long interrupted handlers may take: those that say how long they need, as
// [jobs.Command] does, get that and some.
func (s *Scheduler) stopGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := s.opt.StopGrace
	for _, r := range s.runs {
		if h, ok := r.job.Handler.(interface{ Grace() time.Duration }); ok {
			longest = max(longest, h.Grace()+5*time.Second)
		}
	}
	return longest
}

func closedAfter(wg *sync.WaitGroup) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		wg.Wait()
		close(c)
	}()
	return c
}

// waitFor returns the first of up to three channels that is closed, nil when d has passed.
func waitFor(d time.Duration, c ...<-chan struct{}) <-chan struct{} {
	t := time.NewTimer(d)
	defer t.Stop()
	var of [3]<-chan struct{}
	copy(of[:], c)
	select {
	case <-of[0]:
		return of[0]
	case <-of[1]:
		return of[1]
	case <-of[2]:
		return of[2]
	case <-t.C:
		return nil
	}
}

// touch keeps the records of the whole table from expiring, once a day: a job that is due
// once a year is not forgotten while it stands in some host's table. What is older than the
// history goes back goes then.
func (s *Scheduler) touch(ctx context.Context) {
	select {
	case <-s.contact:
	case <-ctx.Done():
		return
	}
	wait := time.Duration(0)
	for sleep(ctx, wait) {
		tab := s.current()
		names := make([]string, 0, len(tab.jobs))
		expire := map[string]time.Duration{}
		for i := range tab.jobs {
			j := &tab.jobs[i]
			names = append(names, j.Name)
			expire[j.Name] = Expiry(j.Schedule, s.opt.MaxAge, s.clock.Now())
		}
		call, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
		err := s.opt.Ledger.Touch(call, names, s.opt.MaxAge, func(job string) time.Duration { return expire[job] })
		cancel()
		if wait = 24 * time.Hour; err != nil {
			wait = time.Minute
		}
	}
}

// spawn starts a goroutine of the races, unless the drain has begun to wait for them.
func (s *Scheduler) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.work.Go(f)
	}
}

// isStuck tells whether a run of the job was given up here whose handler has not returned: it
// still works, so this host starts nothing of the job, and others may.
func (s *Scheduler) isStuck(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck[job] > 0
}

func (s *Scheduler) countStuck(job string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck[job] += n; s.stuck[job] == 0 {
		delete(s.stuck, job)
	}
}

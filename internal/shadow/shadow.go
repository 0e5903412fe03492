package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/locking"
	"rota/scheduler/ledger"
)

// MostHosts bounds Options.Hosts: each has connections of its own, as it would.
const MostHosts = 200

// Options of [Run].
type Options struct {
	Config  *config.Config // required
	Version string

	// Hosts is how many shadow hosts race in this process, named NAME-1 to NAME-N after the config's
	// host, whose labels they have. 0: one, by the config's name.
	Hosts  int
	For    time.Duration // how long it races, once Redis has answered, for which it waits no longer; 0: until ctx ends
	Assume time.Duration // how long a won lease is held where the ledger knows no finished run of the job

	Show   func(Event)     // hears what came of each tick, in order; nil: nobody does
	Note   func(string)    // hears what is worth saying besides, in a line for people; nil: nobody does
	Logger *slog.Logger    // takes the schedulers' warnings, each once for all hosts; nil: nothing does
	Hurry  <-chan struct{} // closed: leave now, whatever is still to be told to Redis; nil: never
}

func (o *Options) check() error {
	var faults []error
	if o.Config == nil {
		faults = append(faults, errors.New("shadow: Config is nil"))
	}
	if o.Hosts < 0 || o.Hosts > MostHosts {
		faults = append(faults, fmt.Errorf("shadow: Hosts is %d, want 0 to %d", o.Hosts, MostHosts))
	}
	if o.For < 0 || o.Assume < 0 {
		faults = append(faults, fmt.Errorf("shadow: For is %s and Assume is %s, want 0 or more", o.For, o.Assume))
	}
	return errors.Join(faults...)
}

// names are those of the hosts of this process.
func (o *Options) names() ([]string, error) {
	self := o.Config.Host.Name
	if o.Hosts == 0 {
		return []string{self}, nil
	}
	names := make([]string, o.Hosts)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", self, i+1)
		if err := ledger.CheckName(names[i]); err != nil {
			return nil, fmt.Errorf("shadow: host %q: %w", names[i], err)
		}
	}
	return names, nil
}

// lastLooks bounds the exchanges after the hosts have left.
const lastLooks = 3

// A host that starts asks some three times for each job, and all the hosts of a process would do so in
// one moment, which those of a real fleet seldom do: they start one after another, so that together they
// send no more than startRate commands a second.
const (
	startAsks = 3
	startRate = 10_000
)

func startGap(jobs int) time.Duration {
	return time.Duration(jobs) * startAsks * time.Second / startRate
}

// pause waits and tells whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// bounded is ctx for as long as For says.
func (o *Options) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.For > 0 {
		return context.WithTimeout(ctx, o.For)
	}
	return context.WithCancel(ctx)
}

// awayAfter is how many exchanges must fail in a row for Redis to be away: one lost reply is no absence.
const awayAfter = 2

// again is the pause after a call at the start that got no answer.
const again = time.Second

// Run races until ctx ends or Options.For is over, and reports what it saw.
//
// The error is of a Redis that refuses, as one without a right to the shadow's keys does, or of one
// that never answered, which matches [locking.ErrUnavailable]. A Redis that goes away later is no
// error.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if opt.Show == nil {
		opt.Show = func(Event) {}
	}
	if opt.Note == nil {
		opt.Note = func(string) {}
	}
	names, err := opt.names()
	if err != nil {
		return nil, err
	}
	login := connect.NewLogin(opt.Config.Redis)
	// A client of its own: what is no part of the race is neither counted nor waited for.
	client, err := connect.OpenAs(opt.Config, login)
	if err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	defer func() { _ = client.Close() }()

	r := &race{opt: opt, names: names, client: client, login: login, collector: newCollector()}
	waiting, stop := opt.bounded(ctx)
	defer stop()
	if err := r.begin(waiting); err != nil {
		return nil, err
	}
	running, stop := opt.bounded(ctx)
	defer stop()
	return r.run(running)
}

// race is one dry run of this process.
type race struct {
	opt    Options
	names  []string
	client redisClient
	login  *connect.Login

	session   *session
	holds     map[string]Hold
	collector *collector
	exchange  *exchange
	outcome   *outcome
	led       *ledger.Ledger // the shadow's, for what is not part of the race
}

// begin asks Redis for what must be known first, as long as it takes to get answers.
func (r *race) begin(ctx context.Context) error {
	c := r.opt.Config
	real, err := ledger.New(r.client, ledger.Options{Namespace: c.Namespace})
	if err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	var past *past
	var last error // that Redis gave, and not the end of ctx
	away := false
	for {
		past, err = readPast(ctx, real, c, r.opt.Assume)
		if err == nil {
			// Last: a session is kept by the exchange, which is about to begin.
			r.session, err = join(ctx, r.client, c.Namespace, c.Redis.OpTimeout)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, locking.ErrUnavailable) && ctx.Err() == nil {
			return fmt.Errorf("shadow: %w", err)
		}
		if ctx.Err() == nil {
			last = err
		}
		if !away && ctx.Err() == nil {
			away = true
			r.opt.Note("redis is away; the dry run waits for it")
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			if !away {
				return errors.New("shadow: told to end before it began")
			}
			return fmt.Errorf("shadow: %w: %w", locking.ErrUnavailable, last)
		}
	}
	r.holds = past.holds
	for _, line := range past.notes() {
		r.opt.Note(line)
	}
	r.led, err = r.openLedger(r.client)
	if err != nil {
		return err
	}
	r.exchange, err = newExchange(context.WithoutCancel(ctx), r.client, r.session, r.collector, c.Redis.OpTimeout)
	if err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	r.outcome = newOutcome(c, past, r.names)
	return nil
}

func (r *race) openLedger(client redisClient) (*ledger.Ledger, error) {
	c := r.opt.Config
	led, err := ledger.New(client, ledger.Options{
		Namespace: c.Namespace, Shadow: r.session.shadow(), Keep: c.History.Keep, WaitReplicas: c.Redis.WaitReplicas,
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	return led, nil
}

// run starts the hosts, exchanges what they see, and ends when they have all left.
func (r *race) run(ctx context.Context) (*Report, error) {
	var hosts []*host
	defer func() {
		for _, h := range hosts {
			h.close()
		}
	}()
	logger := quieted(r.opt.Logger)
	for _, name := range r.names {
		h, err := r.newHost(ctx, name, logger)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	started := time.Now()
	var racing sync.WaitGroup
	gap := startGap(len(r.opt.Config.Jobs))
	if all := gap * time.Duration(len(hosts)-1); all > time.Second {
		r.opt.Note(fmt.Sprintf("the hosts start one after another, within %s, to spare redis", all.Round(time.Second)))
	}
	racing.Go(func() {
		for i, h := range hosts {
			if i > 0 && !pause(ctx, gap) {
				return
			}
			racing.Go(func() { _ = h.scheduler.Run(ctx) })
		}
		if pause(ctx, time.Second) {
			r.collector.startCounting() // a start is no part of the race
		}
	})
	left := make(chan struct{})
	go func() {
		racing.Wait()
		close(left)
	}()

	turn := time.NewTicker(exchangeEvery)
	defer turn.Stop()
	hurry := r.opt.Hurry
	for leaving := false; !leaving; {
		select {
		case <-turn.C:
			r.look(context.WithoutCancel(ctx))
		case <-hurry:
			hurry = nil
			for _, h := range hosts {
				h.scheduler.Kill()
			}
		case <-left:
			leaving = true
		}
	}
	last := context.WithoutCancel(ctx)
	for range lastLooks { // what the hosts saw at the end, and what Redis did not take before
		r.look(last)
		if r.exchange.told() {
			break
		}
	}
	for _, e := range r.outcome.settle(r.collector.now().Add(time.Hour)) {
		r.opt.Show(e)
	}
	r.leave(last)
	return r.outcome.report(r.session.prefix(), time.Since(started)), nil
}

// look does one exchange, and shows what is settled by now.
func (r *race) look(ctx context.Context) {
	batches, err := r.exchange.trip(ctx, r.led, r.opt.Config)
	r.exchange.fails++
	if err == nil {
		r.exchange.fails = 0
	}
	switch {
	case err == nil && r.exchange.away:
		r.exchange.away = false
		r.opt.Note("redis came back")
	case r.exchange.fails >= awayAfter && !r.exchange.away:
		r.exchange.away = true
		r.opt.Note("redis went away, nothing is claimed until it is back: " + reasonOf(err))
	}
	now := r.collector.now()
	for _, b := range batches {
		r.outcome.add(b, now)
	}
	for _, note := range r.outcome.sawHosts(r.exchange.hosts) {
		r.opt.Note(note)
	}
	if other := r.exchange.other; other != "" && !r.exchange.split {
		r.exchange.split = true
		r.opt.Note("another dry run began while redis did not hear of this one; the two do not race each other: start this one again")
	}
	for _, e := range r.outcome.settle(now) {
		r.opt.Show(e)
	}
}

// leave ends the session if no host of any process is left in it.
func (r *race) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.Config.Redis.OpTimeout)
	defer cancel()
	if hosts, err := r.led.Hosts(ctx); err == nil && len(hosts) == 0 {
		r.session.end(ctx, r.client)
	}
}

// reasonOf is what a person needs of an error: its first line, without whose it is.
func reasonOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(line, locking.ErrUnavailable.Error()+": ")
}

package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

// The bounds of [Options].
const (
	MostWorkers    = 200
	MostIterations = 1_000_000
)

// Options of [Run].
type Options struct {
	Scenario   Scenario
	Workers    int // the scenario's LeastWorkers … MostWorkers
	Iterations int // of each worker, 1 … MostIterations

	Namespace string                // whose locks the drill's is beside
	Client    redis.UniversalClient // for what is not the workers' own; stays the caller's

	Exe  string   // the program that calls [Work] when it is run with Args
	Args []string // with the config's name in them

	// Progress is called some times a second, from the caller's goroutine, with what is completed of
	// what is expected. Nil: nobody is told.
	Progress func(completed, expected int)
}

func (o *Options) check() error {
	var faults []error
	if o.Scenario.Name == "" {
		faults = append(faults, errors.New("drill: no scenario"))
	}
	if least := o.Scenario.LeastWorkers(); o.Workers < least || o.Workers > MostWorkers {
		faults = append(faults, fmt.Errorf("drill: Workers is %d, want %d to %d", o.Workers, least, MostWorkers))
	}
	if o.Iterations < 1 || o.Iterations > MostIterations {
		faults = append(faults, fmt.Errorf("drill: Iterations is %d, want 1 to %d", o.Iterations, MostIterations))
	}
	return errors.Join(faults...)
}

// Run makes one drill and returns its report, which may be one of faults. The end of ctx ends it early,
// which the report says. The error says that there is no report: wrong options, a Redis that does not
// answer at the start, workers that cannot be started.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if err := opt.Client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rota-drill-")
	if err != nil {
		return nil, fmt.Errorf("drill: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := opt.place(dir)
	defer p.clean(context.WithoutCancel(ctx), opt.Client)

	all := make([]orders, opt.Workers)
	for i := range all {
		all[i] = orders{
			Scenario: opt.Scenario.Name, Worker: i, Iterations: opt.Iterations,
			Prefix: p.locks, Guards: p.guards, Name: p.name, Floor: p.floor,
		}
	}
	began := time.Now()
	c, err := hire(opt.Exe, opt.Args, all)
	if err != nil {
		return nil, err
	}
	defer c.dismiss()
	if opt.Scenario.flushes {
		stop := p.forget(ctx, opt.Client)
		defer stop()
	}
	r := &Report{
		Scenario: opt.Scenario.Name, Workers: opt.Workers, Iterations: opt.Iterations,
		Expected: opt.Workers * opt.Iterations,
	}
	opt.watch(ctx, c, r)
	r.Elapsed = time.Since(began)
	r.ElapsedMS = r.Elapsed.Milliseconds()
	r.judge(opt.Scenario)
	return r, nil
}

// watch counts what the workers say until the last one is gone, or ctx ends.
func (o *Options) watch(ctx context.Context, c *crew, r *Report) {
	tokens := map[int64]bool{}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	show := func() {
		if o.Progress != nil {
			o.Progress(r.Completed, r.Expected)
		}
	}
	for {
		select {
		case w, more := <-c.words:
			if !more {
				show()
				return
			}
			r.hear(w, tokens)
		case <-look.C:
			show()
		case <-ctx.Done():
			r.Ended = true
			return
		}
	}
}

// place is where a drill takes place: no other has the same.
type place struct {
	locks, guards string // prefixes of keys
	name          string // of the lock and of the guarded value
	floor         string // a file
}

func (o *Options) place(dir string) place {
	prefix := "{" + o.Namespace + "}:"
	return place{
		locks: prefix + "lock:", guards: prefix + "fence:",
		name: "drill-" + ulid.Make().String(), floor: filepath.Join(dir, "floor"),
	}
}

func (p place) lockKeys() []string {
	lock := p.locks + p.name
	return []string{lock, lock + ":fence"}
}

// forget deletes the lock and its fence again and again, as a Redis that forgets: not what the guard
// knows, which is another store's in the world.
func (p place) forget(ctx context.Context, c redis.UniversalClient) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(flushEvery):
			case <-ctx.Done():
				return
			}
			_ = c.Del(ctx, p.lockKeys()...).Err()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// clean deletes what the drill has left in Redis.
func (p place) clean(ctx context.Context, c redis.UniversalClient) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = c.Del(ctx, append(p.lockKeys(), p.guards+p.name)...).Err()
}

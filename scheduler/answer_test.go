package scheduler

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// meddler stands between a host and Redis: of each claim, and each look at
// the cursors, it decides what the host hears.
type meddler struct {
	claim   func(send func() error) error
	cursors func(ctx context.Context) error
}

func (m *meddler) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if m.cursors == nil || !slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "hget" }) {
			return next(ctx, cmds)
		}
		return m.cursors(ctx)
	}
}

func (m *meddler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		// The misfire policy is in claims alone.
		if m.claim == nil || !slices.Contains(cmd.Args(), any(string(MisfireSkip))) {
			return next(ctx, cmd)
		}
		err := m.claim(func() error { return next(ctx, cmd) })
		cmd.SetErr(err)
		return err
	}
}

// refusal is an answer of Redis that is an error.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// A claim is won and its reply lost; asked again, Redis refuses, until the deadline has passed.
// The tick is given back, and no run is lost that never began.
func TestAnswer_LostAndThenRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(time.Second))
		j.StartDeadline = time.Minute
		h := f.start("h0", nil, j)
		time.Sleep(time.Hour + time.Minute) // its first run also brings the scripts to Redis
		var asked atomic.Int64
		h.client.(*redis.Client).AddHook(&meddler{claim: func(send func() error) error {
			if asked.Add(1) == 1 {
				if err := send(); err != nil {
					t.Errorf("the claim was not won: %v", err)
				}
				return context.DeadlineExceeded
			}
			return refusal("NOPERM this user has no permissions")
		}})
		time.Sleep(time.Hour + time.Minute)
		s, err := f.led.State(t.Context(), []string{"j"})
		if err != nil || asked.Load() < 3 {
			t.Fatalf("State() = %v after %d claims, want no error after several", err, asked.Load())
		}
		if s[0].Open.IsZero() || s[0].Running || len(f.history("j")) != 1 {
			t.Errorf("State() = %+v with history %v, want an open tick, and the first run alone", s[0], f.history("j"))
		}
	})
}

// Redis is there and refuses the outcome of a run: that is said once, and it is recorded when
// somebody has acted.
func TestAnswer_OutcomeRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(20*time.Second))
		log := &logBuffer{}
		f.start("h0", log.into, j)
		time.Sleep(time.Hour + 15*time.Second - time.Since(time.Now().Truncate(time.Hour)))
		// A foreign value where the output and the end would go.
		runs := f.history("j")
		f.redis.Del("{t}:run:" + runs[0].Run)
		if err := f.redis.Set("{t}:run:"+runs[0].Run, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := log.count("outcome refused by redis"); n != 1 {
			t.Errorf("%d lines say that the outcome is refused, want 1", n)
		}
		f.redis.Del("{t}:run:" + runs[0].Run)
		time.Sleep(10 * time.Second)
		if e := f.history("j"); len(e) != 1 || e[0].Outcome != string(jobs.Succeeded) {
			t.Errorf("history is %v, want the run, succeeded", e)
		}
	})
}

// A host that was told of a token, though another's, never takes a smaller one: also when Redis
// forgot, and its clock is behind.
func TestAnswer_TokenOfAnotherIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		f.start("h0", nil, j)
		time.Sleep(30 * time.Second)
		const seen = 5_000_000_000_000_000
		hold := func(fence string) {
			if err := f.redis.Set("{t}:lock:j", "00000000000000000000000000000000|"+fence+"|60000|else"); err != nil {
				t.Fatal(err)
			}
			f.redis.SetTTL("{t}:lock:j", 40*time.Second)
		}
		hold("5000000000000000")
		time.Sleep(time.Minute)
		f.redis.FlushAll()
		time.Sleep(time.Minute)
		runs := f.ran()
		if len(runs) != 1 || runs[0].Token <= seen {
			t.Fatalf("%v ran after a token of %d was seen, want one run with a larger token", runs, int64(seen))
		}
		// One that is beyond all tokens is no token: the tick waits until it is gone, and runs.
		hold("99999999999999999")
		time.Sleep(2 * time.Minute)
		if n := len(f.ran()); n != 3 {
			t.Errorf("%d runs, want the two ticks since, the first after a foreign value was gone", n)
		}
	})
}

// The loop goes round every second while a look at the records hangs, for as long as a call may
// take: else the watchdog would end the daemon for a fault of Redis.
func TestLoop_GoesRoundWhileRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		h := f.start("h0", func(o *Options) { o.OpTimeout, o.TTL = time.Minute, 2*time.Minute }, job(t, "j", "* * * * *", f.handler(time.Second)))
		h.client.(*redis.Client).AddHook(&meddler{cursors: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		f.redis.SetError("")
		for range 50 {
			time.Sleep(time.Second)
			if d := time.Since(h.Progress()); d > 1100*time.Millisecond {
				t.Fatalf("the loop went round %s ago, want every second", d)
			}
		}
	})
}

// A foreign value at one job's record keeps the others from nothing: a tick of another that was
// missed is recorded at once.
func TestLoop_ForeignKeyOfOneJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j, other := job(t, "j", "0 * * * *", f.handler(time.Second)), job(t, "other", "0 * * * *", f.handler(time.Second))
		j.StartDeadline, other.StartDeadline = time.Minute, time.Minute
		h := f.start("h0", nil, other, j)
		time.Sleep(time.Hour + 50*time.Minute)
		h.stop()
		<-h.ended
		f.redis.Del("{t}:job:other")
		if err := f.redis.Set("{t}:job:other", "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		log := &logBuffer{}
		f.start("h1", log.into, other, j)
		time.Sleep(10 * time.Second)
		if e := f.history("j"); len(e) != 2 || e[1].Outcome != ledger.OutcomeMissed {
			t.Errorf("the history of j is %v, want its tick of 02:00 missed", e)
		}
		if n := log.count("{t}:job:other"); n != 1 {
			t.Errorf("%d lines name the foreign key, want 1", n)
		}
	})
}

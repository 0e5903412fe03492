package locking

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// renewals picks a Locker's renewals.
func renewals(l *Locker) redistest.Match { return redistest.Evalsha(l.renew.SHA()) }

func TestLease_LivesForAnHourAndItsKeyAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{TTL: 30 * time.Second})
		lease := mustAcquire(t, l, "report")
		for range 3600 {
			time.Sleep(time.Second)
			if left := m.TTL("rota:lock:{report}"); left < 15*time.Second {
				t.Fatalf("TTL of the key: %s, want never below half", left)
			}
			if !lease.Valid() || lease.Err() != nil || lease.Context().Err() != nil {
				t.Fatalf("%v: got valid %t, Err %v, want a lease that lives", lease, lease.Valid(), lease.Err())
			}
		}
		if n := p.Count(renewals(l)); n < 363 || n > 404 {
			t.Errorf("%d renewals in an hour, want one in about 9 to 10s", n)
		}
		mustRelease(t, lease)
		time.Sleep(time.Minute)
		if m.Exists("rota:lock:{report}") {
			t.Error("the key is there after Release")
		}
	})
}

func TestProperty15_RenewNeverMakesALock(t *testing.T) {
	const key = "rota:lock:{report}"
	for _, c := range []struct {
		name string
		make [][]any
		left any // GET afterwards
	}{
		{"the key is gone", [][]any{{"DEL", key}}, nil},
		{"somebody else's lease", [][]any{{"SET", key, "00ff|17|30000|host-2", "PX", "60000"}}, "00ff|17|30000|host-2"},
		{"not a lease", [][]any{{"SET", key, "v"}}, "v"},
		{"another type", [][]any{{"DEL", key}, {"RPUSH", key, "v"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *redis.Client) {
				l := newLocker(t, client, Options{TTL: 600 * time.Millisecond, Boottime: stopped})
				lease := mustAcquire(t, l, "report")
				for _, cmd := range c.make {
					do(t, client, cmd...)
				}
				before := do(t, client, "TTL", key)
				lostBy(t, lease, ReasonRefused, time.Second)
				if lease.Valid() || lease.Remaining() != 0 {
					t.Errorf("refused: got valid %t with %s left, want neither", lease.Valid(), lease.Remaining())
				}
				if after := do(t, client, "TTL", key); after != before && before == int64(-2) {
					t.Errorf("TTL of the key: got %v, want still none", after)
				}
				if c.left != nil {
					if got := do(t, client, "GET", key); got != c.left {
						t.Errorf("GET: got %v, want %v untouched", got, c.left)
					}
				}
			})
		})
	}
}

func TestProperty16_ExpiryIsNeverBelowAMillisecond(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int64
	}{
		{-time.Second, 1},
		{0, 1},
		{1, 1},
		{time.Millisecond - 1, 1},
		{time.Millisecond, 1},
		{time.Millisecond + 1, 2},
		{1900 * time.Microsecond, 2},
		{10 * time.Millisecond, 10},
		{24 * time.Hour, 86_400_000},
		{math.MaxInt64 - 999_999, 9_223_372_036_854},
		{math.MaxInt64, 9_223_372_036_854}, // rounded up it is no Duration any more
	} {
		if got := wireMillis(c.d); got != c.want {
			t.Errorf("wireMillis(%d ns): got %d, want %d", c.d, got, c.want)
		}
	}
	t.Run("the prelude does not trust its caller", func(t *testing.T) {
		// In one script, since a millisecond is soon over.
		script := NewScript(`
local renewed = lease_renew(KEYS[1], ARGV[1], tonumber(ARGV[2]))
return { tostring(renewed), tostring(redis.call('PTTL', KEYS[1])) }`)
		onBoth(t, func(t *testing.T, client *redis.Client) {
			l := newLocker(t, client, Options{Boottime: stopped})
			for i, ttl := range []string{"0", "-1", "0.4"} {
				lease := mustAcquire(t, l, fmt.Sprint(i))
				key := fmt.Sprintf("rota:lock:{%d}", i)
				v, err := script.Run(t.Context(), client, []string{key}, lease.grant.Token.Reveal(), ttl)
				if got := fmt.Sprint(v); err != nil || got != "[true 1]" && got != "[true 0]" {
					t.Errorf("renew with ttl %s: got %v, %v, want true and a key that still has its last millisecond", ttl, got, err)
				}
			}
		})
	})
}

func TestProperty17_AHungServerDoesNotDelayTheEnd(t *testing.T) {
	t.Run("exactly at the trust deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, direct := redistest.InBubble(t)
			p := redistest.PipeProxy(t, m.Dial)
			l := bubbled(t, p.Client(), Options{TTL: time.Second})
			other := bubbled(t, direct, Options{TTL: time.Second})
			lease := mustAcquire(t, l, "report")
			time.Sleep(2 * time.Second)
			p.BlackHole()
			deadline := lease.Deadline()
			entered := make(chan time.Time, 1)
			go func() {
				time.Sleep(time.Until(deadline) - 100*time.Millisecond)
				for {
					if _, err := other.TryAcquire(t.Context(), "report"); err == nil {
						entered <- time.Now()
						return
					}
					time.Sleep(100 * time.Microsecond)
				}
			}()
			<-lease.Context().Done()
			if now := time.Now(); !now.Equal(deadline) {
				t.Errorf("the context ended %s after the trust deadline, want at it", now.Sub(deadline))
			}
			if at := <-entered; !at.After(deadline) {
				t.Errorf("another got in %s before the trust deadline", deadline.Sub(at))
			}
			p.Heal()
		})
	})
	for _, c := range []struct {
		name       string
		hang, heal func(*redistest.ServerProc, *redistest.FaultProxy)
	}{
		{
			"frozen server",
			func(s *redistest.ServerProc, _ *redistest.FaultProxy) { s.Freeze() },
			func(s *redistest.ServerProc, _ *redistest.FaultProxy) { s.Thaw() },
		},
		{
			"black hole",
			func(_ *redistest.ServerProc, p *redistest.FaultProxy) { p.BlackHole() },
			func(_ *redistest.ServerProc, p *redistest.FaultProxy) { p.Heal() },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			p := redistest.Proxy(t, s.Addr())
			l := newLocker(t, p.Client(), Options{TTL: time.Second})
			lease := mustAcquire(t, l, "report")
			time.Sleep(1500 * time.Millisecond) // renewed at least once
			c.hang(s, p)
			defer c.heal(s, p)
			start, deadline := time.Now(), lease.Deadline()
			lostBy(t, lease, ReasonDeadline, 2*time.Second)
			// The bubble above shows it to the nanosecond; here a busy machine has its say.
			const slack = 200 * time.Millisecond
			if took := time.Since(start); took > time.Second+slack {
				t.Errorf("the context ended %s after the hang began, want within the TTL, 1s", took)
			}
			if late := time.Since(deadline); late > slack {
				t.Errorf("the context ended %s after the trust deadline", late)
			}
		})
	}
}

func TestProperty18_AFailedRenewalIsNotALoss(t *testing.T) {
	for failures := 1; failures <= 3; failures++ {
		for name, fail := range map[string]func(*redistest.FaultProxy, redistest.Match){
			"refused for now": func(p *redistest.FaultProxy, m redistest.Match) {
				p.Reject(failures, m, "LOADING Redis is loading the dataset in memory")
			},
			"lost requests": func(p *redistest.FaultProxy, m redistest.Match) { p.DropRequests(failures, m) },
			// Property 20: the server did renew, and is asked again.
			"lost replies": func(p *redistest.FaultProxy, m redistest.Match) { p.DropReplies(failures, m) },
			"hangs":        func(p *redistest.FaultProxy, m redistest.Match) { p.HangReplies(failures-1, m) },
		} {
			t.Run(fmt.Sprint(failures, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, _ := redistest.InBubble(t)
					p := redistest.PipeProxy(t, m.Dial)
					l := bubbled(t, p.Client(), Options{TTL: time.Second})
					lease := mustAcquire(t, l, "report")
					fail(p, renewals(l))
					time.Sleep(5 * time.Second)
					if !lease.Valid() || lease.Err() != nil {
						t.Errorf("after %d failed renewals: got valid %t, Err %v, want a lease that lives", failures, lease.Valid(), lease.Err())
					}
				})
			})
		}
	}
	t.Run("at least three are tried if each one hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, _ := redistest.InBubble(t)
			p := redistest.PipeProxy(t, m.Dial)
			l := bubbled(t, p.Client(), Options{TTL: time.Second})
			lease := mustAcquire(t, l, "report")
			p.HangReplies(-1, renewals(l))
			lostBy(t, lease, ReasonDeadline, time.Second)
			if n := p.Count(renewals(l)); n < 3 {
				t.Errorf("%d renewals were sent before the trust deadline, want at least 3", n)
			}
		})
	})
}

func TestProperty20_ARenewalCountsFromItsOwnSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan time.Time, 10)
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			sent <- time.Now()
			time.Sleep(300 * time.Millisecond)
			return make([]error, len(g))
		}})
		lease := k.Keep(t.Context(), grantOf(k.Now(), 6*time.Second))
		at := <-sent
		before := lease.Deadline()
		time.Sleep(300*time.Millisecond - 1)
		if got := lease.Deadline(); !got.Equal(before) {
			t.Errorf("Deadline: moved by %s before the renewal was confirmed", got.Sub(before))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got, want := lease.Deadline(), at.Add(lease.grant.trusted()); !got.Equal(want) {
			t.Errorf("Deadline: got send + %s, want send + TTL - margin, %s", got.Sub(at), want.Sub(at))
		}
	})
}

func TestProperty19_ADefiniteNoEndsAtOnceAndForGood(t *testing.T) {
	const key = "rota:lock:{report}"
	for name, lose := range map[string][]any{
		"FLUSHALL":      {"FLUSHALL"},
		"DEL":           {"DEL", key},
		"foreign value": {"SET", key, "someone", "PX", "60000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
				l := newLocker(t, p.Client(), Options{TTL: 900 * time.Millisecond, Boottime: stopped})
				lease := mustAcquire(t, l, "report")
				time.Sleep(time.Second)
				do(t, direct, lose...)
				start := time.Now()
				lostBy(t, lease, ReasonRefused, time.Second)
				if took := time.Since(start); took > 300*time.Millisecond+100*time.Millisecond {
					t.Errorf("it took %s to learn of the loss, want one interval, 300ms, and a round trip", took)
				}
				sent := p.Count(renewals(l))
				time.Sleep(time.Second)
				if got := p.Count(renewals(l)); got != sent {
					t.Errorf("%d renewals were sent after the loss, want none", got-sent)
				}
			})
		})
	}
}

func TestProperty21_ALateSuccessRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, direct := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		opt := *p.Client().Options()
		opt.ContextTimeoutEnabled = false // so that the late reply is read at all
		client := redis.NewClient(&opt)
		t.Cleanup(func() { _ = client.Close() })
		l := bubbled(t, client, Options{TTL: time.Second, ShareClient: true})
		lease := mustAcquire(t, l, "report")
		time.Sleep(400 * time.Millisecond) // renewed once, so the server knows the script
		deadline := lease.Deadline()

		// Sent about 300 ms after the one before, so renewed at the server long before the trust
		// deadline, and known here a few milliseconds after it.
		p.DelayReplies(1, renewals(l), 700*time.Millisecond)
		lostBy(t, lease, ReasonDeadline, time.Second)
		if left := m.TTL("rota:lock:{report}"); left < 200*time.Millisecond {
			t.Fatalf("the key ends %s after the deadline: the renewal did not reach the server, the test shows nothing", left)
		}
		time.Sleep(60 * time.Millisecond) // by itself the key would end 200 ms later
		if lease.Valid() || !errors.Is(lease.Err(), ErrLost) || lease.Deadline().After(deadline) {
			t.Errorf("after a late success: got valid %t, Err %v, Deadline moved by %s, want still lost", lease.Valid(), lease.Err(), lease.Deadline().Sub(deadline))
		}
		if got := do(t, direct, "EXISTS", "rota:lock:{report}"); got != int64(0) {
			t.Errorf("EXISTS: got %v, want the key compared and deleted", got)
		}
	})
}

// The answer comes after the trust deadline but before the lease's timer has run.
func TestProperty21_ALateSuccessBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, KeeperOptions{Renew: renewed})
		sent := k.Now()
		lease := k.Keep(t.Context(), grantOf(sent, time.Second))
		late := sent
		late.mono = late.mono.Add(time.Second)
		lease.mu.Lock()
		loss, revived := lease.settle(sent, late, nil, false)
		lease.mu.Unlock()
		if loss == nil || loss.Reason != ReasonDeadline || !revived || !errors.Is(lease.Err(), ErrLost) {
			t.Errorf("settle a second later: got loss %v, late %t, Err %v, want lost by its deadline, and late", loss, revived, lease.Err())
		}
	})
}

func TestProperty21_TheDeadlineNeverMovesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, KeeperOptions{Renew: renewed})
		start := k.Now()
		lease := k.Keep(t.Context(), grantOf(start, 10*time.Second))
		time.Sleep(time.Second)
		newer := k.Now()
		lease.mu.Lock()
		defer lease.mu.Unlock()
		for _, sent := range []Instant{newer, start} { // the answer to the older one was overtaken
			if loss, _ := lease.settle(sent, newer, nil, false); loss != nil {
				t.Fatalf("settle: %v", loss)
			}
		}
		if lease.sent != newer {
			t.Errorf("counted from %s after the first request, want from the newest confirmed one, 1s", lease.sent.Sub(start))
		}
	})
}

func TestProperty25_RenewalDoesNotWaitForTheCallersPool(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool
		lives  bool
	}{{"own client", false, true}, {"shared client", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Server(t)
			opt := *s.Client().Options()
			opt.PoolSize, opt.PipelinePoolSize, opt.MaxActiveConns = 2, -1, 2
			client := redis.NewClient(&opt)
			t.Cleanup(func() { _ = client.Close() })
			l := newLocker(t, client, Options{TTL: 500 * time.Millisecond, ShareClient: c.shared})
			lease := mustAcquire(t, l, "report")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 2 {
				go client.BLPop(ctx, 2*time.Second, "nothing")
			}
			select {
			case <-lease.Done():
			case <-time.After(1500 * time.Millisecond):
			}
			if lives := lease.Err() == nil; lives != c.lives {
				t.Errorf("every connection of the caller's pool is in BLPOP: lease lives: got %t (%v), want %t", lives, lease.Err(), c.lives)
			}
		})
	}
}

func TestProperty26_LossIsToldOnceToEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		lease := mustAcquire(t, l, "report")
		causes := make(chan error, 100)
		for range cap(causes) {
			context.AfterFunc(lease.Context(), func() { causes <- context.Cause(lease.Context()) })
		}
		m.FlushAll()
		<-lease.Done()
		first := lease.Err()
		for range cap(causes) {
			if got := <-causes; got != first { //nolint:errorlint // the very error
				t.Fatalf("a subscriber got cause %v, want the lease's Err, %v", got, first)
			}
		}
		time.Sleep(time.Minute) // the deadline passes besides
		_ = lease.Release(t.Context())
		select {
		case <-lease.Done():
		default:
			t.Error("Done is open for one that comes late")
		}
		if got := lease.Err(); got != first { //nolint:errorlint // the very error
			t.Errorf("Err: got %v later, want the first, %v", got, first)
		}
	})
}

func TestProperty28_EachLeaseRenewsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		lost := mustAcquire(t, l, "report")
		m.FlushAll()
		<-lost.Done()
		again := mustAcquire(t, l, "report")
		time.Sleep(3 * time.Second)
		if !again.Valid() || !m.Exists("rota:lock:{report}") {
			t.Errorf("acquired again after a loss: got valid %t 3 TTL later, want it renewed", again.Valid())
		}
		if lost.Valid() || again.FencingToken() <= lost.FencingToken() {
			t.Errorf("the lost lease: got valid %t, token %d; the next has %d", lost.Valid(), lost.FencingToken(), again.FencingToken())
		}
	})
}

// Property 23: Redis' TTLs follow its wall clock; a key that ends early is noticed.
func TestProperty23_AKeyThatEndsEarlyIsNoticedWithinAnInterval(t *testing.T) {
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			m, c := redistest.InBubble(t)
			l := bubbled(t, c, Options{TTL: 3 * time.Second})
			lease := mustAcquire(t, l, "report")
			time.Sleep(5*time.Second + time.Duration(i)*97*time.Millisecond)
			m.Del("rota:lock:{report}")
			start := time.Now()
			<-lease.Done()
			if took := time.Since(start); took > time.Second {
				t.Errorf("noticed %s after the key was gone, want within the interval, 1s", took)
			}
		})
	}
}

func TestLocker_ShowsNoOwnershipToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second, Logger: jsonLogger(&log)})
		lease := mustAcquire(t, l, "report")
		type box struct{ lease *Lease }
		shown := fmt.Sprintf("%v %+v %#v %s %d %x %v %+v", lease, lease, lease, lease, lease, lease, box{lease}, box{lease})
		shown += fmt.Sprintf("%+v %#v %q", *lease.grant, *lease.grant, lease.grant.Token)
		m.SetError("LOADING wait")
		<-lease.Done()
		synctest.Wait() // the log is written after it
		m.SetError("")
		_, err := l.TryAcquire(t.Context(), "report")
		shown += fmt.Sprint(err, lease.Err(), lease.Release(t.Context()), log.String())
		if !strings.Contains(log.String(), "lost lease") {
			t.Errorf("log: got %q, want the loss in it", log.String())
		}
		if secret := lease.grant.Token.Reveal(); strings.Contains(shown, secret) || strings.Contains(shown, fmt.Sprintf("%x", secret)) {
			t.Errorf("the ownership token %q is shown in %q", secret, shown)
		}
	})
}

package locking

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// releases picks a Locker's releases.
func releases(l *Locker) redistest.Match { return redistest.Evalsha(l.release.SHA()) }

func TestProperty27_NothingIsSentAfterRelease(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{TTL: 10 * time.Millisecond}) // renews every 2.6 ms
	m := s.Monitor()
	for i := range 200 {
		lease, err := l.TryAcquire(t.Context(), "report")
		if err != nil {
			continue // a lease this short can end before its answer comes
		}
		time.Sleep(time.Duration(i%20) * 300 * time.Microsecond)
		_ = lease.Release(t.Context())
		if err := lease.Err(); !errors.Is(err, ErrReleased) && !errors.Is(err, ErrLost) {
			t.Fatalf("Err after Release: got %v", err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	released, renewed := map[string]bool{}, 0
	for _, c := range m.Commands() {
		if c.Lua || !c.Is("evalsha") && !c.Is("eval") {
			continue
		}
		token := c.Args[3+slices.Index([]string{"1", "2"}, c.Args[2])+1]
		isRelease := c.Args[1] == l.release.SHA() || c.Args[1] == l.release.text
		isRenewal := c.Args[1] == l.renew.SHA() || c.Args[1] == l.renew.text
		if isRenewal {
			renewed++
		}
		if released[token] && !isRelease {
			t.Errorf("%s was sent for a token after its release", c.Args[0])
		}
		released[token] = released[token] || isRelease
	}
	if len(released) < 100 || renewed < 50 {
		t.Errorf("seen: %d tokens, %d renewals; the test shows nothing", len(released), renewed)
	}
}

func TestProperty27_AReleasedLeaseIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		lease := mustAcquire(t, l, "report")
		mustRelease(t, lease)
		m.FlushAll()
		time.Sleep(time.Minute)
		if got := lease.Err(); !errors.Is(got, ErrReleased) || errors.Is(got, ErrLost) {
			t.Errorf("Err a minute after Release: got %v, want ErrReleased", got)
		}
		if got := context.Cause(lease.Context()); !errors.Is(got, ErrReleased) {
			t.Errorf("cause of the context: got %v, want ErrReleased", got)
		}
	})
}

func TestProperty27_LeavesNoGoroutineBehind(t *testing.T) {
	s := redistest.Server(t)
	client := s.Client()
	before := runtime.NumGoroutine()
	l := newLocker(t, client, Options{})
	for i := range 10_000 {
		lease := mustAcquire(t, l, fmt.Sprint(i%3))
		mustRelease(t, lease)
	}
	if got := runtime.NumGoroutine() - before; got > 20 {
		t.Errorf("after 10 000 leases: %d goroutines more than before", got)
	}
	l.keeper.mu.Lock()
	kept := len(l.keeper.leases)
	l.keeper.mu.Unlock()
	if kept != 0 {
		t.Errorf("after 10 000 leases: %d are still kept", kept)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	eventually(t, 5*time.Second, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestProperty30_ReleaseLeavesASuccessorsLease(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		one := newLocker(t, c, Options{Holder: "one", Boottime: stopped})
		two := newLocker(t, c, Options{Holder: "two", Boottime: stopped})
		old := mustAcquire(t, one, "report")
		do(t, c, "DEL", "rota:lock:{report}")
		successor := mustAcquire(t, two, "report")
		err := old.Release(t.Context())
		if !errors.Is(err, ErrLost) {
			t.Errorf("Release of a lease that had expired: got %v, want ErrLost", err)
		}
		if again := old.Release(t.Context()); !errors.Is(again, ErrLost) {
			t.Errorf("Release again: got %v, want the same, %v", again, err)
		}
		state, err := two.Query(t.Context(), "report")
		if err != nil || state.Holder != "two" || state.FencingToken != successor.FencingToken() {
			t.Errorf("Query: got %+v, %v, want the successor's lease untouched", state, err)
		}
	})
}

func TestProperty31_ReleaseReachesRedisWhateverTheContext(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{Boottime: stopped})
		for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
			"expired": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithDeadline(ctx, time.Now().Add(-time.Hour))
			},
		} {
			lease := mustAcquire(t, l, "report")
			ctx, cancel := end(t.Context())
			if err := lease.Release(ctx); err != nil {
				t.Errorf("Release with a context that is %s: got %v, want nil", name, err)
			}
			cancel()
			if got := do(t, c, "EXISTS", "rota:lock:{report}"); got != int64(0) {
				t.Errorf("EXISTS after it: got %v, want 0", got)
			}
		}
	})
	t.Run("it has a timeout of its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, _ := redistest.InBubble(t)
			p := redistest.PipeProxy(t, m.Dial)
			for ttl, want := range map[time.Duration]time.Duration{
				30 * time.Second: 1500 * time.Millisecond, // CallTimeout
				time.Second:      988 * time.Millisecond,  // what is left of the lease
			} {
				l := bubbled(t, p.Client(), Options{TTL: ttl})
				lease := mustAcquire(t, l, "report")
				p.Cut()
				start := time.Now()
				err := lease.Release(t.Context())
				if took := time.Since(start); took != want || !errors.Is(err, ErrUnavailable) {
					t.Errorf("Release without an answer: got %v after %s, want ErrUnavailable after %s", err, took, want)
				}
				p.Heal()
				time.Sleep(3 * time.Second)
				if m.Exists("rota:lock:{report}") {
					t.Errorf("ttl %s: the key is there 3s after Redis is back, want it freed in the background", ttl)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release again: got %v, want nil", err)
				}
			}
		})
	})
}

func TestProperty32_ReleaseCanBeRepeated(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{Boottime: stopped})
		mustRelease(t, mustAcquire(t, l, "warm-up"))
		for lost := range 3 {
			lease := mustAcquire(t, l, "report")
			p.DropReplies(lost, releases(l))
			for range 2 {
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release, %d replies lost: got %v, want nil", lost, err)
				}
			}
			next := mustAcquire(t, l, "report")
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release once more: got %v, want nil", err)
			}
			if got := do(t, direct, "EXISTS", "rota:lock:{report}"); got != int64(1) {
				t.Error("it freed the next lease")
			}
			mustRelease(t, next)
		}
	})
}

func TestProperty33_ReleaseOfALostLeaseStillDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{TTL: time.Second, Margin: 500 * time.Millisecond})
		lease := mustAcquire(t, l, "report")
		p.BlackHole()
		lostBy(t, lease, ReasonDeadline, time.Second)
		p.Heal()
		if !m.Exists("rota:lock:{report}") {
			t.Fatal("the key has expired already: the test shows nothing")
		}
		if err := lease.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release: got %v, want ErrLost", err)
		}
		if m.Exists("rota:lock:{report}") {
			t.Error("the key is there after the release of a lost lease")
		}
	})
}

func TestDo_ReturnsWhatHappened(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		released := func(name string) {
			t.Helper()
			if m.Exists("rota:lock:{report}") {
				t.Errorf("%s: the lock is held afterwards", name)
			}
		}

		if err := l.Do(t.Context(), "report", func(ctx context.Context, lease *Lease) error {
			if !lease.Valid() || ctx != lease.Context() {
				t.Error("fn got no valid lease with its context")
			}
			return l.Do(ctx, "report", func(context.Context, *Lease) error { return nil })
		}); !errors.Is(err, ErrHeld) {
			t.Errorf("Do inside Do: got %v, want ErrHeld", err)
		}
		released("nested")

		if err := l.Do(t.Context(), "report", func(context.Context, *Lease) error { return boom }); err != boom { //nolint:errorlint // the very error
			t.Errorf("Do: got %v, want fn's error as it is", err)
		}
		released("fn fails")

		err := l.Do(t.Context(), "report", func(ctx context.Context, _ *Lease) error {
			m.FlushAll()
			<-ctx.Done()
			return boom
		})
		if !errors.Is(err, boom) || !errors.Is(err, ErrLost) {
			t.Errorf("Do whose lease is lost: got %v, want fn's error joined with ErrLost", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Do(ctx, "report", func(ctx context.Context, _ *Lease) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
			t.Errorf("Do with a context that is cancelled: got %v, want fn's error alone", err)
		}
		released("cancelled")

		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recover: got %v, want fn's panic", r)
				}
			}()
			_ = l.Do(t.Context(), "report", func(context.Context, *Lease) error { panic("boom") })
		}()
		released("fn panics")
	})
}

func TestTryAcquire_LeaseOutlivesTheCallsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lease, err := l.TryAcquire(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if lease.Context().Err() != nil || !lease.Valid() {
			t.Errorf("the context of TryAcquire has ended: got context %v, valid %t, want a lease that lives", lease.Context().Err(), lease.Valid())
		}
	})
}

func TestClose_LeavesKeysToExpireAndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: time.Second})
		lease := mustAcquire(t, l, "report")
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		lostBy(t, lease, ReasonClosed, 0)
		if err := lease.Release(t.Context()); !errors.Is(err, ErrLost) || !errors.Is(err, ErrClosed) {
			t.Errorf("Release after Close: got %v, want ErrLost and ErrClosed", err)
		}
		if _, err := l.Query(t.Context(), "report"); !errors.Is(err, ErrClosed) {
			t.Errorf("Query after Close: got %v, want ErrClosed", err)
		}
		if !m.Exists("rota:lock:{report}") {
			t.Error("the key is gone at Close: its holder may still be at work")
		}
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("the caller's client after Close: %v, want it open", err)
		}
		time.Sleep(time.Second)
		if m.Exists("rota:lock:{report}") {
			t.Error("the key has not expired")
		}
	})
}

func TestClose_DoesNotWaitForLongOnAHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{})
		mustAcquire(t, l, "report")
		p.BlackHole()
		failed := make(chan error)
		go func() {
			_, err := l.TryAcquire(t.Context(), "other")
			failed <- err
		}()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		closed := make(chan struct{})
		go func() {
			_ = l.Close()
			close(closed)
		}()
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("TryAcquire during Close: got %v, want ErrClosed", err)
		}
		<-closed
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("Close took %s, want at most about CallTimeout, 1.5s", took)
		}
		p.Heal()
	})
}

func TestToken_ShowsNothingOfItself(t *testing.T) {
	var log strings.Builder
	token := NewToken()
	g := Grant{Token: token}
	jsonLogger(&log).Info("x", "token", token, "grant", g, "list", []Token{token})
	text, err := token.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(text) + token.String() + token.GoString() +
		fmt.Sprintf("%v %+v %#v %s %q %x %X %d %v %+v %#v", token, token, token, token, token, token, token, token, g, g, g)
	for _, secret := range []string{token.Reveal(), fmt.Sprintf("%x", token.Reveal()), fmt.Sprintf("%X", token.Reveal())} {
		if strings.Contains(shown, secret) {
			t.Errorf("the token %q is shown in %q", secret, shown)
		}
	}
}

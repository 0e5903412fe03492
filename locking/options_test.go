package locking

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestNew_ZeroOptionsAreComplete(t *testing.T) {
	l := newLocker(t, redistest.Server(t).Client(), Options{})
	o := l.opt
	if o.Prefix != "rota:lock:" || o.TTL != 30*time.Second || o.MaxTTL != 24*time.Hour || o.FenceTTL != 7*24*time.Hour || o.CallTimeout != 1500*time.Millisecond {
		t.Errorf("defaults: got %+v", o)
	}
	if host, _ := os.Hostname(); !strings.Contains(o.Holder, host) || !strings.Contains(o.Holder, strconv.Itoa(os.Getpid())) {
		t.Errorf("Holder: got %q, want the host's name and the pid", o.Holder)
	}
}

// Property 24, and of Property 40 what is refused before any I/O.
func TestProperty24_And40_OptionsAreRefused(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing listens: nothing is asked
	t.Cleanup(func() { _ = client.Close() })
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name string
		opt  Options
		want string // "" is accepted
	}{
		{"shortest", Options{TTL: 10 * ms}, ""},
		{"below it", Options{TTL: 10*ms - 1}, "TTL"},
		{"nothing", Options{TTL: 1}, "TTL"},
		{"negative", Options{TTL: -s}, "TTL"},
		{"longest", Options{TTL: 24 * time.Hour}, ""},
		{"above it", Options{TTL: 24*time.Hour + 1}, "TTL"},
		{"above a bound of one's own", Options{TTL: 2 * s, MaxTTL: s}, "TTL"},
		{"as long as Redis could", Options{TTL: 1<<63 - 1}, "TTL"},
		{"a bound of one's own", Options{TTL: 48 * time.Hour, MaxTTL: 48 * time.Hour}, ""},
		{"renewal that just fits", Options{TTL: 10 * s, RenewEvery: (10*s - 102*ms) / 3}, ""},
		{"renewal that does not", Options{TTL: 10 * s, RenewEvery: (10*s-102*ms)/3 + 1}, "RenewEvery"},
		{"renewal beyond what three of can be counted", Options{RenewEvery: 1 << 62}, "RenewEvery"},
		{"negative renewal", Options{RenewEvery: -s}, "RenewEvery"},
		{"large margin", Options{TTL: 10 * s, Margin: 9 * s}, ""},
		{"margin of the whole TTL", Options{TTL: 10 * s, Margin: 10 * s}, "Margin"},
		{"negative margin", Options{Margin: -1}, "Margin"},
		{"renewal beside a margin", Options{TTL: 10 * s, Margin: 4 * s, RenewEvery: 2001 * ms}, "RenewEvery"},
		{"fence forgotten early", Options{TTL: 10 * s, FenceTTL: 9 * s}, "FenceTTL"},
		{"negative call timeout", Options{CallTimeout: -1}, "CallTimeout"},
		{"long holder", Options{Holder: strings.Repeat("x", 257)}, "Holder"},
		{"empty tag", Options{Prefix: "{}:lock:"}, "Prefix"},
		{"open brace", Options{Prefix: "{app:lock:"}, "Prefix"},
		{"two tags", Options{Prefix: "{a}{b}:"}, "Prefix"},
		{"brace the wrong way round", Options{Prefix: "}a{"}, "Prefix"},
		{"one tag", Options{Prefix: "{app}:lock:"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := New(client, c.opt)
			if err == nil {
				_ = l.Close()
			}
			if (err == nil) != (c.want == "") {
				t.Fatalf("New: got %v, want a fault of %q", err, c.want)
			}
			if err != nil && (!errors.Is(err, ErrInvalidOptions) || !strings.Contains(err.Error(), c.want+":")) {
				t.Errorf("New: got %v, want ErrInvalidOptions that names %s", err, c.want)
			}
			if strings.Count(fmt.Sprint(err), "\n") > 0 {
				t.Errorf("New: got %v, want one fault", err)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := New(nil, Options{TTL: 1, RenewEvery: -1, Holder: strings.Repeat("x", 300), Prefix: "{"})
		for _, want := range []string{"TTL", "Holder", "Prefix", "client"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("New: got %v, want a fault of %s too", err, want)
			}
		}
	})
	t.Run("a ring", func(t *testing.T) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
		t.Cleanup(func() { _ = ring.Close() })
		if _, err := New(ring, Options{}); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("New with a redis.Ring: got %v, want ErrInvalidOptions", err)
		}
	})
}

func TestProperty40_TTLsAreRoundedUpOnTheWireAndDownHere(t *testing.T) {
	for _, c := range []struct {
		ttl   time.Duration
		wire  int64
		trust time.Duration
	}{
		{10 * time.Millisecond, 10, 10*time.Millisecond - 2*time.Millisecond - 100*time.Microsecond},
		{time.Second, 1000, time.Second - 12*time.Millisecond},
		{time.Second + 1, 1001, time.Second - 12*time.Millisecond},
		{time.Second + 999*time.Microsecond, 1001, time.Second - 2*time.Millisecond - (time.Second+999*time.Microsecond)/100},
		{24 * time.Hour, 86_400_000, 24*time.Hour - 864*time.Second - 2*time.Millisecond},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			if got := (&Grant{TTL: c.ttl}).trusted(); got != c.trust {
				t.Errorf("trusted: got %s, want %s", got, c.trust)
			}
			onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, _ *redis.Client) {
				l := newLocker(t, p.Client(), Options{TTL: c.ttl, CallTimeout: time.Second, Boottime: stopped})
				_, _ = l.TryAcquire(t.Context(), "report")
				sent := p.Commands(Evalsha(l))
				if got := sent[0][6]; got != strconv.FormatInt(c.wire, 10) {
					t.Errorf("ttl on the wire: got %s, want %d", got, c.wire)
				}
			})
		})
	}
}

// "For ever" is a Duration too: no sum with it may turn around.
func TestOptions_TheLongestDurations(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{
			TTL: time.Minute, MaxTTL: math.MaxInt64, FenceTTL: math.MaxInt64, MaxHold: math.MaxInt64,
			MinBackoff: time.Hour, MaxBackoff: math.MaxInt64, CallTimeout: math.MaxInt64, Boottime: stopped,
		})
		p.DropReplies(1, Evalsha(l))
		lease := mustAcquire(t, l, "report") // asks again
		if ms := do(t, direct, "PTTL", "rota:lock:{report}:fence").(int64); ms < 200*365*24*3600*1000 {
			t.Errorf("PTTL of the fence: got %d ms, want what a Duration holds, 292 years", ms)
		}
		if !lease.Valid() {
			t.Errorf("Valid: got false, Err %v", lease.Err())
		}
		mustRelease(t, lease)
	})
	o := Options{MinBackoff: time.Millisecond, MaxBackoff: math.MaxInt64}
	for _, left := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1} {
		if d := o.backoff(left); d < time.Hour {
			t.Errorf("backoff(%s) = %s", left, d)
		}
	}
}

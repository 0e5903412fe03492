package locking

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"
)

const (
	defaultPrefix   = "rota:lock:"
	defaultTTL      = 30 * time.Second
	defaultMaxTTL   = 24 * time.Hour
	defaultFenceTTL = 7 * 24 * time.Hour
	minTTL          = 10 * time.Millisecond
	maxHolderBytes  = 256

	defaultMinBackoff = 20 * time.Millisecond
	defaultMaxBackoff = time.Second
)

// Options configure a [Locker]. The zero value is valid.
type Options struct {
	// Prefix of every key. A plain prefix makes the key prefix{name}; one that carries a
	// hash tag, such as "{app}:lock:", makes it prefix + name, and names then have no colon.
	// Lockers exclude each other only under the same prefix. "": "rota:lock:".
	Prefix string

	// TTL is how long a lease lasts without renewal, at least 10 ms and at most MaxTTL. Redis
	// is told whole milliseconds, rounded up. 0: 30 s.
	TTL time.Duration

	// MaxTTL bounds TTL: how long a holder that died can block a lock. 0: 24 h.
	MaxTTL time.Duration

	// RenewEvery is the distance of renewals. Three must fit into TTL - Margin. 0: a third
	// of that.
	RenewEvery time.Duration

	// Margin is how long before its TTL has passed a lease is not trusted any more, counted
	// from before it was asked for. Below TTL. 0, and whatever is smaller, is 2 ms + 1 % of
	// the TTL. A larger one lets a holder stop before the lock is free.
	Margin time.Duration

	// MaxHold bounds how long a lease is renewed: then its context ends with [ErrMaxHold], and
	// its holder has what is left of the TTL to wind up. 0: no bound.
	MaxHold time.Duration

	// MinHold keeps a lock taken for at least this long after it was asked for, also when it
	// is released before: for work that must not be done twice by hosts whose clocks differ.
	// At most TTL. 0: a release frees the lock.
	MinHold time.Duration

	// MinBackoff and MaxBackoff bound the distance of the attempts of one that waits in
	// Acquire. 0: 20 ms, and 1 s.
	MinBackoff, MaxBackoff time.Duration

	// Observe is called for every [Event] of a lease, from the goroutine in which it happened:
	// it must return soon and is called by several at once. That can be the call in which a
	// lease was renewed, or its timer, and Stop, Release and Close wait for those: Observe must
	// not call them, for any lease. Nil: nobody is told.
	Observe func(Event)

	// Holder says who, to those that find the lock held: at most 256 bytes. Everyone who can
	// read the lock can read it. "": the host's name and the process' id.
	Holder string

	// FenceTTL is how long Redis remembers a lock's fencing token after its last grant, at
	// least TTL. After that tokens rise by Redis' clock alone, so it must be longer than any
	// step back of that clock. 0: 7 d.
	FenceTTL time.Duration

	// CallTimeout bounds each request to Redis; no renewal or acquisition takes longer than
	// its lease would last besides. 0: 1.5 s.
	CallTimeout time.Duration

	// WaitReplicas is how many replicas must have a grant before it counts, by WAIT: a failover to one
	// of them does not forget it. If that many have not confirmed it in half of CallTimeout, it is given
	// back, and the error matches [ErrNotReplicated]. Renewals do not wait. It makes a grant as slow as
	// the replica, and is no proof: Redis may make another replica the master. 0: the server alone.
	WaitReplicas int

	// ShareClient makes the Locker use the client it was given, instead of a small one of
	// its own with the same address and credentials. Then renewals wait behind whatever else
	// occupies its pool, and calls take as long as its own timeouts and retries allow.
	ShareClient bool

	// Boottime is as in [KeeperOptions].
	Boottime func() time.Duration

	// Logger gets lost leases, failing renewals and faults of Redis' clock. Never a token
	// of ownership. Nil: nothing.
	Logger *slog.Logger
}

// complete returns the options with their defaults, or all their faults at once.
func (o Options) complete() (Options, naming, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	o.MaxTTL = cmp.Or(o.MaxTTL, defaultMaxTTL)
	o.FenceTTL = cmp.Or(o.FenceTTL, max(defaultFenceTTL, o.TTL))
	// Waits are counted in twice of it, and "for ever" must not turn around.
	o.CallTimeout = min(cmp.Or(o.CallTimeout, defaultCallTimeout), math.MaxInt64/4)
	o.MinBackoff = cmp.Or(o.MinBackoff, defaultMinBackoff)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, max(defaultMaxBackoff, o.MinBackoff))
	if o.Holder == "" {
		o.Holder = defaultHolder()
	}
	if o.Boottime == nil {
		o.Boottime = boottime
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(format, args...)) }
	if o.TTL < minTTL || o.TTL > o.MaxTTL {
		fault("TTL: %s is not between %s and MaxTTL (%s)", o.TTL, minTTL, o.MaxTTL)
	}
	if o.Margin < 0 || o.TTL > 0 && o.Margin >= o.TTL {
		fault("Margin: %s is not between 0 and TTL (%s)", o.Margin, o.TTL)
	}
	trusted := (&Grant{TTL: o.TTL, Margin: o.Margin}).trusted()
	o.RenewEvery = cmp.Or(o.RenewEvery, renewEvery(trusted))
	switch {
	case trusted <= 0: // TTL or Margin is at fault
	case o.RenewEvery <= 0:
		fault("RenewEvery: %s is not above 0", o.RenewEvery)
	case o.RenewEvery > renewEvery(trusted):
		fault("RenewEvery: 3 × %s is longer than TTL - Margin (%s)", o.RenewEvery, trusted)
	}
	if o.FenceTTL < o.TTL {
		fault("FenceTTL: %s is shorter than TTL (%s)", o.FenceTTL, o.TTL)
	}
	if o.MaxHold < 0 {
		fault("MaxHold: %s is negative", o.MaxHold)
	}
	if o.MinHold < 0 || o.TTL > 0 && o.MinHold > o.TTL {
		fault("MinHold: %s is not between 0 and TTL (%s)", o.MinHold, o.TTL)
	}
	if o.MinBackoff < time.Millisecond || o.MaxBackoff < o.MinBackoff {
		fault("MinBackoff, MaxBackoff: %s and %s, want 1ms or more and rising", o.MinBackoff, o.MaxBackoff)
	}
	if o.CallTimeout < 0 {
		fault("CallTimeout: %s is negative", o.CallTimeout)
	}
	if o.WaitReplicas < 0 {
		fault("WaitReplicas: %d is negative", o.WaitReplicas)
	}
	if len(o.Holder) > maxHolderBytes {
		fault("Holder: %d bytes, at most %d are allowed", len(o.Holder), maxHolderBytes)
	}
	n, err := newNaming(o.Prefix)
	return o, n, errors.Join(append(faults, err)...)
}

// checkTTL is for a length that is given to a lease which has another.
func (o *Options) checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL || ttl > o.MaxTTL:
		return invalid("ttl: %s is not between %s and MaxTTL (%s)", ttl, minTTL, o.MaxTTL)
	case o.Margin >= ttl:
		return invalid("ttl: %s is not above Margin (%s)", ttl, o.Margin)
	case ttl > o.FenceTTL:
		return invalid("ttl: %s is above FenceTTL (%s)", ttl, o.FenceTTL)
	}
	return nil
}

// defaultHolder names the process: enough for a human to find it.
func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	pid := fmt.Sprintf(" (pid %d)", os.Getpid())
	return strings.ToValidUTF8(host[:min(len(host), maxHolderBytes-len(pid))], "") + pid
}

package ledger

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

//go:embed record.lua
var recordPrelude string

// RequestPatience is how long a manual run waits to be taken by a host, by Redis' clock.
// Afterwards nobody runs it, whatever became of who asked.
const RequestPatience = 10 * time.Second

// Options of a [Ledger].
type Options struct {
	Namespace string        // prefix of every key, [A-Za-z0-9._-]{1,32}; required
	Keep      int           // runs kept a job, at least: the oldest go once there are a quarter more; 0: 50
	FenceTTL  time.Duration // how long a lock's counter outlives its last grant; 0: 7 days
	// WaitReplicas is how many replicas must have a win before it counts: see [Decision].Short. 0: none.
	WaitReplicas int
	// Shadow, of the same characters as Namespace, makes this the ledger of a race that only looks
	// like the fleet's: its keys begin with {NS}~SHADOW: and are in the slot of the fleet's, which
	// it never touches. They expire [ShadowKept] after their last touch. "": the fleet's own.
	Shadow string
}

// ShadowKept is how long what Redis keeps of a shadow outlives its last touch, or its lease if that
// is longer: whoever needs it for longer touches it, see [Ledger.Touch].
const ShadowKept = 10 * time.Minute

// Ledger reads and writes the records of one namespace. It is safe for concurrent use.
type Ledger struct {
	client   redis.UniversalClient
	keys     keys
	keep     int
	fenceTTL time.Duration
	replicas int
	shadow   bool

	claim, renew, finish, abandon, beat, leave, pause, reset, cancel, touch, leases, unlock *locking.Script
}

// New returns a Ledger that talks through client, which stays the caller's to close: one server's,
// with Sentinels or without, or a Cluster's, where all keys of the namespace are on one node. Every
// method sends at most a few commands and ends by its context's deadline, which it should
// have: set ContextTimeoutEnabled in the client's options, or go-redis does not look at it.
func New(client redis.UniversalClient, opts Options) (*Ledger, error) {
	if err := opts.check(client); err != nil {
		return nil, err
	}
	l := &Ledger{
		client: client, keys: newKeys(opts.Namespace, opts.Shadow), keep: opts.Keep,
		fenceTTL: opts.FenceTTL, replicas: opts.WaitReplicas, shadow: opts.Shadow != "",
	}
	if l.keep == 0 {
		l.keep = 50
	}
	if l.fenceTTL == 0 {
		l.fenceTTL = 7 * 24 * time.Hour
	}
	l.fenceTTL = l.kept(l.fenceTTL)
	script := func(body string) *locking.Script { return locking.NewScript(recordPrelude, body) }
	l.claim = script(claimBody)
	l.renew = script(renewBody)
	l.finish = script(finishBody)
	l.abandon = script(abandonBody)
	l.beat = script(beatBody)
	l.leave = script(leaveBody)
	l.pause = script(pauseBody)
	l.reset = script(resetBody)
	l.cancel = script(cancelBody)
	l.touch = script(touchBody)
	l.leases = script(leasesBody)
	l.unlock = script(unlockBody)
	return l, nil
}

// check returns all faults in one error. The namespace becomes every key's hash tag: a brace
// in it would spread the keys of one script over a cluster.
func (o *Options) check(client redis.UniversalClient) error {
	var faults []error
	switch client.(type) {
	case nil:
		faults = append(faults, errors.New("ledger: client is nil"))
	case *redis.Ring:
		faults = append(faults, errors.New("ledger: client is a redis.Ring, which looks on another server when one is down: a tick would be won twice"))
	}
	name := regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)
	if !name.MatchString(o.Namespace) {
		faults = append(faults, fmt.Errorf("ledger: Namespace is %q, want 1 to 32 of A-Z a-z 0-9 . _ -", o.Namespace))
	}
	if o.Shadow != "" && !name.MatchString(o.Shadow) {
		faults = append(faults, fmt.Errorf("ledger: Shadow is %q, want 1 to 32 of A-Z a-z 0-9 . _ -, or none", o.Shadow))
	}
	if o.Keep < 0 {
		faults = append(faults, fmt.Errorf("ledger: Keep is %d, want 0 (for 50) or more", o.Keep))
	}
	if o.WaitReplicas < 0 {
		faults = append(faults, fmt.Errorf("ledger: WaitReplicas is %d, want 0 or more", o.WaitReplicas))
	}
	if o.FenceTTL < 0 {
		faults = append(faults, fmt.Errorf("ledger: FenceTTL is %s, want 0 (for 7 days) or more", o.FenceTTL))
	}
	return errors.Join(faults...)
}

// LeaseKey is the key of the lease by that name, for messages to people who look at Redis.
func (l *Ledger) LeaseKey(name string) string { return l.keys.lease(name) }

// Prefix is what every key of the namespace, or of its shadow, begins with.
func (l *Ledger) Prefix() string { return l.keys.prefix }

// kept is how long a key stays that would stay for d: in a shadow not for long.
func (l *Ledger) kept(d time.Duration) time.Duration {
	if l.shadow {
		return min(d, ShadowKept)
	}
	return d
}

package locking

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// watched is a master with a replica and a Sentinel, and a client that asks it.
type watched struct {
	master, replica, sentinel *redistest.ServerProc
}

func newWatched(t *testing.T) watched {
	t.Helper()
	w := watched{master: redistest.Server(t)}
	w.replica = redistest.Replica(t, w.master)
	w.sentinel = redistest.Sentinel(t, w.master)
	w.sentinel.AwaitReplica()
	return w
}

func (w watched) client(t *testing.T, change ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	opt := &redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{w.sentinel.Addr()}}
	for _, f := range change {
		f(opt)
	}
	c := redis.NewFailoverClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// failOver kills the master and waits for the other one.
func (w watched) failOver() {
	w.master.Kill()
	w.sentinel.AwaitMaster(w.replica)
}

// What the replica has survives: the lease is kept, whoever waits gets the lock after it, and tokens rise.
func TestLocker_KeepsALeaseOverAFailover(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	opt := Options{TTL: 4 * time.Second, CallTimeout: 500 * time.Millisecond, WaitReplicas: 1}
	l := newLocker(t, w.client(t), opt)
	opt.WaitReplicas = 0 // none is left
	other := newLocker(t, w.client(t), opt)
	lease := mustAcquire(t, l, "report") // the replica has it: it was waited for
	waited := make(chan *Lease, 1)
	go func() {
		next, err := other.Acquire(t.Context(), "report")
		if err != nil {
			t.Errorf("Acquire over the failover: %v", err)
		}
		waited <- next
	}()
	w.failOver()
	time.Sleep(opt.TTL + 500*time.Millisecond) // longer than it lives unless it is renewed there
	if lease.Err() != nil {
		t.Fatalf("%v over the failover: %v, want it kept", lease, lease.Err())
	}
	mustRelease(t, lease)
	next := <-waited
	if next == nil || next.FencingToken() <= lease.FencingToken() {
		t.Errorf("who waited got %v, want a token above %d", next, lease.FencingToken())
	}
}

// What the replica has not is gone: its holder is told with the first renewal that reaches the new
// master, and whoever takes the lock there gets a larger token, although the counter is gone too.
func TestProperty5_AFailoverThatForgetsAGrant(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	opt := Options{TTL: 9 * time.Second, CallTimeout: 500 * time.Millisecond}
	l, other := newLocker(t, w.client(t), opt), newLocker(t, w.client(t), opt)
	w.replica.Do("REPLICAOF", "127.0.0.1", "1") // it hears nothing more, and the Sentinel has not noticed yet
	lease := mustAcquire(t, l, "report")
	w.failOver()
	next, err := other.TryAcquire(t.Context(), "report")
	for deadline := time.Now().Add(5 * time.Second); errors.Is(err, ErrUnavailable) && time.Now().Before(deadline); {
		next, err = other.TryAcquire(t.Context(), "report")
	}
	if err != nil {
		t.Fatalf("TryAcquire after the failover: %v, want the lock, of which the new master knows nothing", err)
	}
	if next.FencingToken() <= lease.FencingToken() {
		t.Errorf("token %d after the failover, want above %d", next.FencingToken(), lease.FencingToken())
	}
	lostBy(t, lease, ReasonRefused, 4*time.Second)
	if err := lease.Release(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("Release of the lost lease = %v, want ErrLost", err)
	}
	if err := next.Err(); err != nil {
		t.Errorf("%v: %v, want the other one's release to have left it alone", next, err)
	}
}

// An old master that the Sentinels have replaced, but that answers this host, must not go on renewing.
func TestLocker_LeavesAMasterThatWasReplaced(t *testing.T) {
	t.Parallel()
	old, fresh := redistest.Server(t), redistest.Server(t)
	sentinel := redistest.Sentinel(t, old)
	var dials atomic.Int64
	c := watched{sentinel: sentinel}.client(t, func(o *redis.FailoverOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	l := newLocker(t, c, Options{TTL: 3 * time.Second})
	lease := mustAcquire(t, l, "report")
	// Sentinels that were told of another master by their majority do not reach the old one.
	sentinel.Do("SENTINEL", "REMOVE", redistest.MasterName)
	sentinel.Do("SENTINEL", "MONITOR", redistest.MasterName, "127.0.0.1", fresh.Port(), 1)
	lostBy(t, lease, ReasonRefused, 3*time.Second)
	if n := dials.Load(); n > 20 {
		t.Errorf("%d connections in a TTL, want a few", n)
	}
}

// What Sentinels say is no answer of the server: it was not asked.
func TestLocker_SentinelsThatNameNoMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.Sentinel(t, redistest.Server(t))
	locked := redistest.Sentinel(t, redistest.Server(t))
	locked.Do("ACL", "SETUSER", "default", "resetpass", ">secret")
	plain := redistest.Server(t)
	for _, c := range []struct {
		name   string
		change func(*redis.FailoverOptions)
		want   string
	}{
		{"another name", func(o *redis.FailoverOptions) { o.MasterName = "nobody" }, "no master by that name"},
		{"a password is missing", func(o *redis.FailoverOptions) { o.SentinelAddrs = []string{locked.Addr()} }, "NOAUTH"},
		{"no sentinel", func(o *redis.FailoverOptions) { o.SentinelAddrs = []string{plain.Addr()} }, "unknown command"},
		{"nobody there", func(o *redis.FailoverOptions) { o.SentinelAddrs = []string{"127.0.0.1:1"} }, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, share := range []bool{false, true} {
				l := newLocker(t, watched{sentinel: sentinel}.client(t, c.change, func(o *redis.FailoverOptions) {
					o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
				}), Options{ShareClient: share, CallTimeout: 200 * time.Millisecond})
				_, err := l.TryAcquire(t.Context(), "report")
				if !errors.Is(err, ErrUnavailable) || errors.Is(err, redis.Nil) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("TryAcquire = %v, want ErrUnavailable that says %q", err, c.want)
				}
				if MayHaveRun(err) {
					t.Errorf("MayHaveRun(%v) = true, but no server was asked", err)
				}
				if _, err := l.Query(t.Context(), "report"); !errors.Is(err, ErrUnavailable) {
					t.Errorf("Query = %v, want ErrUnavailable", err)
				}
			}
		})
	}
}

package locking

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// Locks of both kinds of prefix on three nodes: plain names spread over them, tagged ones share one.
// Renewals of many slots go in one pipeline.
func TestLocker_OnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := cluster.Client()
	for _, c := range []struct {
		prefix string
		nodes  int
	}{{"rota:lock:", 3}, {"{app}:lock:", 1}} {
		l := newLocker(t, client, Options{Prefix: c.prefix, TTL: 900 * time.Millisecond})
		var leases []*Lease
		owners := map[string]bool{}
		for i := range 20 {
			name := fmt.Sprint("job-", i)
			leases = append(leases, mustAcquire(t, l, name))
			keys, err := l.names.keys(name)
			if err != nil {
				t.Fatal(err)
			}
			slot := cluster.Slot(keys.lock)
			if cluster.Slot(keys.fence) != slot {
				t.Errorf("%v are not of one slot", keys)
			}
			owner, _ := cluster.Owner(slot)
			owners[owner.Addr()] = true
		}
		if len(owners) != c.nodes {
			t.Errorf("prefix %q: locks are on %d nodes, want %d", c.prefix, len(owners), c.nodes)
		}
		if _, err := l.TryAcquire(t.Context(), "job-0"); !errors.Is(err, ErrHeld) {
			t.Errorf("TryAcquire again: got %v, want ErrHeld", err)
		}
		for _, s := range cluster.Nodes {
			s.Do("SCRIPT", "FLUSH")
		}
		time.Sleep(1500 * time.Millisecond)
		for _, lease := range leases {
			if lease.Err() != nil {
				t.Errorf("%v: got %v, want it renewed", lease, lease.Err())
			}
			if state, err := l.Query(t.Context(), lease.Name()); err != nil || !state.Held {
				t.Errorf("Query: got %+v, %v, want held", state, err)
			}
			mustRelease(t, lease)
		}
	}
}

// A slot moves while a lease on a lock of it is held, another lock is asked for, and a third caller
// waits for its release.
func TestProperty38_SlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	l := newLocker(t, cluster.Client(), Options{Prefix: "{app}:lock:", TTL: 2 * time.Second})
	other := newLocker(t, cluster.Client(), Options{Prefix: "{app}:lock:", TTL: 2 * time.Second, CallTimeout: 5 * time.Second})
	held, before := mustAcquire(t, l, "held"), mustAcquire(t, l, "before")
	mustRelease(t, before)
	slot := cluster.Slot("{app}:lock:held")
	from, to := cluster.Owner(slot)

	waited := make(chan *Lease, 1)
	go func() {
		lease, err := other.Acquire(t.Context(), "held")
		if err != nil {
			t.Errorf("Acquire over the move: %v", err)
		}
		waited <- lease
	}()
	cluster.BeginMove(slot, from, to)
	// Of this lock the fence is on the one node and what is new would be on the other: TRYAGAIN, and
	// never a grant.
	short := newLocker(t, cluster.Client(), Options{Prefix: "{app}:lock:", TTL: 2 * time.Second, CallTimeout: 100 * time.Millisecond})
	if lease, err := short.TryAcquire(t.Context(), "before"); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHeld) {
		t.Errorf("TryAcquire in a slot that moves: got %v, %v, want ErrUnavailable", lease, err)
	}
	again := make(chan *Lease, 1)
	go func() {
		lease, err := other.TryAcquire(t.Context(), "before") // keeps asking
		if err != nil {
			t.Errorf("TryAcquire over the move: %v", err)
		}
		again <- lease
	}()
	l.keeper.RenewNow()
	time.Sleep(300 * time.Millisecond)
	cluster.MoveKeys(slot, from, to, "{app}:lock:held") // ASK
	l.keeper.RenewNow()
	time.Sleep(300 * time.Millisecond)
	cluster.MoveKeys(slot, from, to)
	cluster.EndMove(slot, to) // MOVED
	if lease := <-again; lease != nil && lease.FencingToken() <= before.FencingToken() {
		t.Errorf("token %d after the move, want above %d", lease.FencingToken(), before.FencingToken())
	}
	time.Sleep(2500 * time.Millisecond) // longer than a lease without renewals
	if held.Err() != nil {
		t.Fatalf("%v over the move: %v, want it kept", held, held.Err())
	}
	mustRelease(t, held)
	if lease := <-waited; lease != nil && lease.FencingToken() <= held.FencingToken() {
		t.Errorf("token %d of who waited, want above %d", lease.FencingToken(), held.FencingToken())
	}
}

// go-redis sends a command again by itself when there was no answer, on a Cluster always. A release whose
// reply is lost must not become one that finds nothing to release.
func TestProperty32_NoClientRepeatsARelease(t *testing.T) {
	t.Parallel()
	single := redistest.Server(t)
	alone := redistest.Server(t, "--cluster-enabled", "yes", "--cluster-port", "0")
	alone.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, 10*time.Second, "the cluster is up", func() bool {
		return alone.Client().Set(t.Context(), "k", "v", time.Second).Err() == nil
	})
	onSingle, onCluster := redistest.Proxy(t, single.Addr()), redistest.Proxy(t, alone.Addr())
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{onCluster.Addr()},
		// The node tells its own address.
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: onCluster.Addr()}}}}, nil
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		proxy  *redistest.FaultProxy
		share  bool
	}{
		{"a cluster", cluster, onCluster, false},
		{"a cluster's client that is shared", cluster, onCluster, true},
		{"a client with retries that is shared", onSingle.Client(), onSingle, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLocker(t, c.client, Options{ShareClient: c.share})
			mustRelease(t, mustAcquire(t, l, "report")) // from now on the server knows the scripts
			lease := mustAcquire(t, l, "report")
			c.proxy.DropReplies(1, redistest.Evalsha(l.release.SHA()))
			sent := c.proxy.Count(redistest.Evalsha(l.release.SHA()))
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release, its first reply lost: %v, want nil", err)
			}
			if n := c.proxy.Count(redistest.Evalsha(l.release.SHA())) - sent; n != 2 {
				t.Errorf("release was sent %d times, want twice", n)
			}
		})
	}
}

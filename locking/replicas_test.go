package locking

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// A replica that is there, that hangs, that is back, that is gone; alone and on a Cluster.
func TestLocker_WaitReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(t *testing.T) (redis.UniversalClient, *redistest.ServerProc)
	}{
		{"one master", func(t *testing.T) (redis.UniversalClient, *redistest.ServerProc) {
			s := redistest.Server(t)
			return s.Client(), redistest.Replica(t, s)
		}},
		{"a cluster", func(t *testing.T) (redis.UniversalClient, *redistest.ServerProc) {
			cluster := redistest.Cluster(t)
			master, _ := cluster.Owner(cluster.Slot("{app}:lock:report"))
			return cluster.Client(), cluster.Replicate(master)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, replica := c.start(t)
			l := newLocker(t, client, Options{Prefix: "{app}:lock:", WaitReplicas: 1, CallTimeout: time.Second})
			refused := func(when, want string) {
				t.Helper()
				began := time.Now()
				_, err := l.TryAcquire(t.Context(), "report")
				if !errors.Is(err, ErrNotReplicated) || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
					t.Errorf("TryAcquire, the replica %s: got %v, want ErrNotReplicated that says %q", when, err, want)
				}
				if took := time.Since(began); took < 400*time.Millisecond || took > 900*time.Millisecond {
					t.Errorf("TryAcquire, the replica %s, took %s, want half of CallTimeout", when, took)
				}
				if n := client.Exists(t.Context(), "{app}:lock:report").Val(); n != 0 {
					t.Errorf("the replica %s: the lock is taken, want it given back", when)
				}
			}
			granted := func(when string) *Lease {
				t.Helper()
				lease, err := l.TryAcquire(t.Context(), "report")
				if err != nil {
					t.Fatalf("TryAcquire, the replica %s: %v", when, err)
				}
				return lease
			}
			before := granted("there")
			if v := replica.Do("CONFIG", "GET", "port"); v == nil {
				t.Fatal("the replica does not answer")
			}
			mustRelease(t, before)
			replica.Freeze()
			refused("hanging", "0 of its replicas have it")
			if err := l.Do(t.Context(), "report", nil); !errors.Is(err, ErrNotReplicated) {
				t.Errorf("Do = %v, want ErrNotReplicated", err)
			}
			if _, err := l.TakeValue(t.Context(), "value", "v", time.Minute); !errors.Is(err, ErrNotReplicated) {
				t.Errorf("TakeValue = %v, want ErrNotReplicated", err)
			}
			waiting := make(chan *Lease, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				lease, err := l.Acquire(ctx, "report")
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				waiting <- lease
			}()
			time.Sleep(700 * time.Millisecond) // one attempt at least
			replica.Thaw()
			lease := <-waiting
			if lease == nil || lease.FencingToken() <= before.FencingToken() {
				t.Fatalf("Acquire = %v, want a lease above token %d", lease, before.FencingToken())
			}
			if fence, err := l.TakeValue(t.Context(), "value", "v", time.Minute); err != nil || fence == 0 {
				t.Errorf("TakeValue, the replica back = %d, %v", fence, err)
			}
			mustRelease(t, lease)
			mustRelease(t, granted("back"))
			replica.Kill()
			refused("gone", "0 of its replicas have it")
		})
	}
}

// The slot moves to another node while grants wait for replicas.
func TestLocker_WaitReplicasWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	slot := cluster.Slot("{app}:lock:report")
	from, to := cluster.Owner(slot)
	cluster.Replicate(from)
	cluster.Replicate(to)
	l := newLocker(t, cluster.Client(), Options{Prefix: "{app}:lock:", WaitReplicas: 1, CallTimeout: 2 * time.Second})
	first := mustAcquire(t, l, "report")
	mustRelease(t, first)
	value, err := l.TakeValue(t.Context(), "value", "v", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cluster.BeginMove(slot, from, to)
	done := make(chan *Lease, 1)
	go func() {
		lease, err := l.TryAcquire(t.Context(), "report") // TRYAGAIN, then ASK
		if err != nil {
			t.Errorf("TryAcquire over the move: %v", err)
		}
		done <- lease
	}()
	time.Sleep(100 * time.Millisecond)
	cluster.MoveKeys(slot, from, to)
	if again, err := l.TakeValue(t.Context(), "value", "v", time.Minute); err != nil || again != value {
		t.Errorf("TakeValue of a lock that has moved before its slot = %d, %v, want %d by ASK", again, err, value)
	}
	cluster.EndMove(slot, to)
	lease := <-done
	if lease == nil || lease.FencingToken() <= first.FencingToken() {
		t.Fatalf("got %v, want a token above %d", lease, first.FencingToken())
	}
	mustRelease(t, lease)
	// And once it has moved: a client that has not heard of it is sent there.
	stale := newLocker(t, cluster.Client(), Options{Prefix: "{app}:lock:", WaitReplicas: 1})
	mustRelease(t, mustAcquire(t, stale, "report"))
	cluster.BeginMove(slot, to, from)
	cluster.MoveKeys(slot, to, from)
	cluster.EndMove(slot, from)
	mustRelease(t, mustAcquire(t, stale, "report")) // MOVED
}

package locking

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"rota/internal/redistest"
)

// What the library adds to the two round trips that a lease cannot do without. Compare the
// two lines of one run.
func BenchmarkAcquireRelease(b *testing.B) {
	s := redistest.Server(b)
	l := newLocker(b, s.Client(), Options{})
	mustRelease(b, mustAcquire(b, l, "warm-up"))
	b.Run("two bare EVALSHA", func(b *testing.B) {
		b.ReportAllocs()
		lock := []string{"rota:lock:{bare}", "rota:lock:{bare}:fence"}
		for b.Loop() {
			token := NewToken().Reveal()
			if err := l.client.EvalSha(b.Context(), l.acquire.SHA(), lock, token, 30_000, 0, 60_000, "h").Err(); err != nil {
				b.Fatal(err)
			}
			if err := l.client.EvalSha(b.Context(), l.release.SHA(), lock[:1], token).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("TryAcquire and Release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lease, err := l.TryAcquire(b.Context(), "lease")
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The leases that are due together.
func BenchmarkRenew(b *testing.B) {
	s := redistest.Server(b)
	l := newLocker(b, s.Client(), Options{TTL: time.Hour})
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n, " leases"), func(b *testing.B) {
			grants := make([]Grant, n)
			for i := range grants {
				lease := mustAcquire(b, l, fmt.Sprint(b.Name(), i))
				defer mustRelease(b, lease)
				grants[i] = *lease.grant
			}
			for b.Loop() {
				for _, err := range l.renewAll(b.Context(), grants) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/lease")
		})
	}
}

// A thousand leases of one Locker: from the word that they are due until the last one knows that it is
// renewed. A lease's share of that is ns/lease.
func BenchmarkRenewNow(b *testing.B) {
	const leases = 1000
	var renewed atomic.Int64
	done := make(chan struct{}, 1)
	l := newLocker(b, redistest.Server(b).Client(), Options{TTL: time.Hour, Observe: func(e Event) {
		if e.Kind == EventRenewed && renewed.Add(1) == leases {
			done <- struct{}{}
		}
		if e.Kind == EventRetried {
			b.Errorf("a renewal failed: %v", e.Err)
		}
	}})
	for i := range leases {
		mustAcquire(b, l, fmt.Sprint(i))
	}
	for b.Loop() {
		renewed.Store(0)
		l.keeper.RenewNow()
		<-done
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*leases), "ns/lease")
}

// What it costs to wait for a replica on the same machine: the two take turns, and the metric is how much
// longer a lease takes.
func BenchmarkWaitReplicas(b *testing.B) {
	s := redistest.Server(b)
	redistest.Replica(b, s)
	without, with := newLocker(b, s.Client(), Options{}), newLocker(b, s.Client(), Options{WaitReplicas: 1})
	once := func(l *Locker) time.Duration {
		began := time.Now()
		mustRelease(b, mustAcquire(b, l, "lease"))
		return time.Since(began)
	}
	once(without)
	once(with)
	var alone, waited time.Duration
	for b.Loop() {
		alone += once(without)
		waited += once(with)
	}
	b.ReportMetric(float64(waited)/float64(alone), "x-without")
	b.ReportMetric(float64((waited-alone).Microseconds())/float64(b.N), "µs-more")
}

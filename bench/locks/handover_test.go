package locks

import (
	"context"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/internal/redistest"
	"rota/locking"
)

// From the beginning of a release until the one who waits for the lock, in another process as far as the
// library knows, has it. redislock and redsync have no such thing: they ask again after a time that
// their caller chooses.
func BenchmarkHandOver(b *testing.B) {
	addr := redistest.Server(b).Addr()
	one, two := newLocker(b, addr, locking.Options{}), newLocker(b, addr, locking.Options{})
	acquire := func(l *locking.Locker) func(context.Context) (func(), error) {
		return func(ctx context.Context) (func(), error) {
			lease, err := l.Acquire(ctx, "job")
			return func() { must(b, lease.Release(ctx)) }, err
		}
	}
	r1, r2 := rueidisLocker(b, addr), rueidisLocker(b, addr)
	lock := func(l interface {
		WithContext(context.Context, string) (context.Context, context.CancelFunc, error)
	},
	) func(context.Context) (func(), error) {
		return func(ctx context.Context) (func(), error) {
			_, release, err := l.WithContext(ctx, "job")
			return release, err
		}
	}
	for b.Loop() {
		t := sample.Interleave(100,
			handOver(b, acquire(one), acquire(two)),
			handOver(b, lock(r1), lock(r2)))
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(sample.Millis(sample.Median(t[0])), "ms-rota")
		b.ReportMetric(sample.Millis(sample.Quantile(t[0], 0.9)), "ms-rota-p90")
		b.ReportMetric(sample.Millis(sample.Median(t[1])), "ms-rueidislock")
	}
}

func handOver(b *testing.B, holder, waiter func(context.Context) (func(), error)) sample.Side {
	return func() time.Duration {
		release, err := holder(b.Context())
		must(b, err)
		got := make(chan time.Time)
		go func() {
			next, err := waiter(b.Context())
			at := time.Now()
			must(b, err)
			next()
			got <- at
		}()
		time.Sleep(60 * time.Millisecond) // it has asked, found it held, and waits
		began := time.Now()
		release()
		return (<-got).Sub(began)
	}
}

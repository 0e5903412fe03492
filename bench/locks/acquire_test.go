package locks

import (
	"testing"

	"rota/bench/sample"
	"rota/internal/redistest"
)

const rounds = 3000

// Taking and giving back a lock that nobody else wants, by one goroutine. x-bare is the library against
// the same two scripts sent bare, and what has a peer's name is that peer against the same. Names are
// new each time, as those of locks for single records are; x-bare-same is with one name.
//
// Only the library's lock has a fencing token. redislock's is not renewed, and redsync's only if the
// caller does so.
func BenchmarkAcquireRelease(b *testing.B) {
	addr := redistest.Server(b).Addr()
	ctx := b.Context()
	peers := []peer{bare(b, addr), rota(b, addr), lockOfRedislock(b, addr), lockOfRedsync(b, addr), lockOfRueidis(b, addr)}
	sides := make([]sample.Side, len(peers))
	for i, p := range peers {
		for range 200 {
			p.take(ctx, "job")()
		}
		sides[i] = sample.Timed(func() { p.take(ctx, "job")() })
	}
	for b.Loop() {
		t := sample.Interleave(rounds, sides...)
		sample.Compare(t[1], t[0]).Report(b, "x-bare")
		for i, p := range peers[2:] {
			b.ReportMetric(sample.Compare(t[i+2], t[0]).Of, "x-"+p.name)
		}
		b.ReportMetric(sample.Micros(sample.Median(t[0])), "µs-bare")
		b.ReportMetric(sample.Micros(sample.Median(t[1])), "µs-rota")
	}
	for i, p := range peers[:2] {
		b.ReportMetric(testing.AllocsPerRun(500, func() { sides[i]() }), "allocs-"+[]string{"bare", "rota"}[i])
		_ = p
	}
}

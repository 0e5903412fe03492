package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

func benchLedger(b *testing.B, connections int) (*Ledger, *redis.Client) {
	b.Helper()
	shared := redistest.Server(b).Client()
	opts := *shared.Options()
	opts.PoolSize = connections
	client := redis.NewClient(&opts)
	b.Cleanup(func() { _ = client.Close() })
	l, err := New(client, Options{Namespace: "b"})
	if err != nil {
		b.Fatal(err)
	}
	return l, client
}

func benchClaim(job string, n int, now time.Time) Claim {
	tick := now.Add(-24 * time.Hour).Truncate(time.Second).Add(time.Duration(n) * time.Millisecond)
	return Claim{
		Job: job, Lock: job, Kind: Scheduled, Tick: tick, Prev: tick.Add(-time.Millisecond), Since: now.Add(-48 * time.Hour),
		Run: fmt.Sprint(job, "-", n), Token: locking.NewToken(), Host: "a", TTL: 30 * time.Second, Expire: time.Hour,
		Overlap: "skip", Misfire: "skip", OnCrash: "skip", MaxParallel: 10, Table: "t", Index: 1,
	}
}

// A claim and its finish, with the record and both entries, against two PINGs on the same
// connection in the same run. The metric of interest is their ratio.
func BenchmarkClaimFinish(b *testing.B) {
	l, client := benchLedger(b, 1)
	ctx, now := b.Context(), time.Now()
	var ours, pings time.Duration
	n := 0
	for b.Loop() {
		n++
		c := benchClaim("j", n, now)
		start := time.Now()
		d := l.Claim(ctx, []Claim{c})[0]
		if d.Answer != Won {
			b.Fatalf("Claim() = %+v, want won", d)
		}
		held, err := l.Finish(ctx, &Grant{Claim: c, Fence: d.Fence, Won: d.Won}, Ending{Outcome: "succeeded", Attempt: 1})
		if !held || err != nil {
			b.Fatalf("Finish() = %v, %v, want held", held, err)
		}
		claimed := time.Now()
		for range 2 {
			if err := client.Ping(ctx).Err(); err != nil {
				b.Fatal(err)
			}
		}
		ours += claimed.Sub(start)
		pings += time.Since(claimed)
	}
	b.ReportMetric(float64(ours)/float64(pings), "x-of-2-pings")
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "µs/claim+finish")
}

// What a host pays that comes second: most claims of a fleet.
func BenchmarkClaimLost(b *testing.B) {
	l, client := benchLedger(b, 1)
	ctx, now := b.Context(), time.Now()
	if d := l.Claim(ctx, []Claim{benchClaim("j", 1, now)})[0]; d.Answer != Won {
		b.Fatalf("Claim() = %+v, want won", d)
	}
	c := benchClaim("j", 1, now)
	c.Run = "another"
	var ours, pings time.Duration
	for b.Loop() {
		start := time.Now()
		if d := l.Claim(ctx, []Claim{c})[0]; d.Answer != Already {
			b.Fatalf("Claim() = %+v, want already", d)
		}
		claimed := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			b.Fatal(err)
		}
		ours += claimed.Sub(start)
		pings += time.Since(claimed)
	}
	b.ReportMetric(float64(ours)/float64(pings), "x-of-a-ping")
}

// A thousand jobs due at one instant, in one pipeline.
func BenchmarkClaimThousand(b *testing.B) {
	l, _ := benchLedger(b, 1)
	ctx, now := b.Context(), time.Now()
	claims := make([]Claim, 1000)
	n := 0
	for b.Loop() {
		n++
		b.StopTimer()
		for i := range claims {
			claims[i] = benchClaim(fmt.Sprint("j", n, "-", i), n, now)
		}
		b.StartTimer()
		for _, d := range l.Claim(ctx, claims) {
			if d.Answer != Won {
				b.Fatalf("Claim() = %+v, want won", d)
			}
		}
	}
}

// The same for a replica, in pipelines of 64 as the scheduler sends them: one WAIT for each.
func BenchmarkClaimWaitReplicas(b *testing.B) {
	s := redistest.Server(b)
	redistest.Replica(b, s)
	ctx, now, n := b.Context(), time.Now(), 0
	once := func(replicas int) time.Duration {
		l, err := New(s.Client(), Options{Namespace: fmt.Sprint("b", replicas), WaitReplicas: replicas})
		if err != nil {
			b.Fatal(err)
		}
		claims := make([]Claim, 64)
		n++
		for i := range claims {
			claims[i] = benchClaim(fmt.Sprint("j", n, "-", i), n, now)
		}
		l.Claim(ctx, []Claim{benchClaim(fmt.Sprint("first", n), n, now)}) // connects
		began := time.Now()
		for _, d := range l.Claim(ctx, claims) {
			if d.Answer != Won || d.Short != nil {
				b.Fatalf("Claim() = %+v, want won", d)
			}
		}
		return time.Since(began)
	}
	var alone, waited time.Duration
	for b.Loop() {
		alone += once(0)
		waited += once(1)
	}
	b.ReportMetric(float64(waited)/float64(alone), "x-without")
	b.ReportMetric(float64((waited-alone).Microseconds())/float64(b.N), "µs-more")
}

package tick

import (
	"fmt"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/bench/server"
	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

const (
	keep        = 50   // runs a job whose entries are kept, the config's default
	claimRounds = 4000 // a second or two
)

// The two round trips that a run costs, by one host that nobody races, against the two PINGs
// that nothing could do without. The job has all the history that it will ever have, so every
// finish trims as well. x-empty is what scripts would cost that are sent the same and do nothing.
func BenchmarkClaimFinish(b *testing.B) {
	for _, c := range []struct {
		name   string
		ending ledger.Ending
		waiter bool // somebody wants to be told that the lock is free
		raced  bool // other hosts look what this one has taken
	}{
		{name: "succeeded", ending: ledger.Ending{Outcome: "succeeded"}},
		{name: "raced by others", ending: ledger.Ending{Outcome: "succeeded"}, raced: true},
		{name: "with a hint", ending: ledger.Ending{Outcome: "succeeded"}, waiter: true},
		{name: "with 16 KiB of output", ending: ledger.Ending{Outcome: "succeeded", Output: make([]byte, 16<<10)}},
		{name: "failed", ending: ledger.Ending{Outcome: "failed", Reason: "exit status 1", ExitCode: new(1)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newLine(b, "report")
			l.ending, l.raced = c.ending, c.raced
			l.c = ledger.Claim{}
			for range keep + 10 {
				l.finish(l.claim())
			}
			ping := sample.Timed(func() {
				l.ping()
				l.ping()
			})
			empty := sample.Timed(l.empty())
			both := func() time.Duration {
				l.next()
				if c.waiter {
					l.wait()
				}
				began := time.Now()
				l.finish(l.claim())
				return time.Since(began)
			}
			for b.Loop() {
				t := sample.Interleave(claimRounds, ping, both, empty)
				sample.Compare(t[1], t[0]).Report(b, "x-ping")
				b.ReportMetric(sample.Compare(t[2], t[0]).Of, "x-empty")
				b.ReportMetric(sample.Micros(sample.Median(t[0])), "µs-two-pings")
				b.ReportMetric(sample.Micros(sample.Median(t[1])), "µs-claim+finish")
			}
			b.ReportMetric(testing.AllocsPerRun(200, func() {
				l.next()
				l.finish(l.claim())
			}), "allocs")
		})
	}
}

// Where the server's part of a claim and a finish goes, command by command. It times nothing
// against anything: it explains the benchmark above.
func BenchmarkClaimFinish_OnTheServer(b *testing.B) {
	const jobs = 200
	s := redistest.Server(b)
	lines := make([]*line, jobs)
	c := server.OneConnection(b, s.Addr())
	for i := range lines {
		lines[i] = newLineOn(b, c, fmt.Sprintf("job-%03d", i))
		for range keep + 10 {
			lines[i].finish(lines[i].claim())
		}
	}
	var table string
	var perClaim, perFinish, perPing []time.Duration
	for b.Loop() {
		grants := make([]*ledger.Grant, jobs)
		start := server.Read(b, c)
		for i, l := range lines {
			grants[i] = l.claim()
		}
		claimed := server.Read(b, c)
		for i, l := range lines {
			l.finish(grants[i])
		}
		finished := server.Read(b, c)
		for _, l := range lines {
			l.ping()
		}
		pinged := server.Read(b, c)

		claims, finishes, pings := claimed.Since(start), finished.Since(claimed), pinged.Since(finished)
		table = claims.Table("a claim that wins", jobs) + finishes.Table("a finish", jobs)
		perClaim = append(perClaim, claims["evalsha"].Time/jobs)
		perFinish = append(perFinish, finishes["evalsha"].Time/jobs)
		perPing = append(perPing, pings["ping"].Time/jobs)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(sample.Micros(sample.Median(perClaim)), "µs/claim")
	b.ReportMetric(sample.Micros(sample.Median(perFinish)), "µs/finish")
	b.ReportMetric(sample.Micros(sample.Median(perPing)), "µs/ping")
	fmt.Print(table) // b.Log would cut it after ten lines
}

package locks

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/internal/redistest"
	"rota/locking"
)

// A thousand leases of one Keeper, all renewed by the library's script: from the word that they are due
// until the last one knows that it is renewed. A lease's share of that is µs/lease.
func BenchmarkRenew(b *testing.B) {
	const leases = 1000
	addr := redistest.Server(b).Addr()
	c := client(b, addr)
	body, err := os.ReadFile("../../locking/renew.lua")
	must(b, err)
	renew := locking.NewScript(string(body))
	var renewed atomic.Int64
	var failed atomic.Pointer[locking.Event]
	done := make(chan time.Time, 1)
	k, err := locking.NewKeeper(locking.KeeperOptions{
		Renew: func(ctx context.Context, grants []locking.Grant) []error {
			calls := make([]locking.Call, len(grants))
			for i, g := range grants {
				calls[i] = locking.Call{Keys: []string{g.Name}, Args: []any{g.Token.Reveal()}}
			}
			errs := make([]error, len(grants))
			for i, r := range renew.RunAll(ctx, c, calls) {
				if errs[i] = r.Err; r.Err == nil && r.Value != "1" {
					errs[i] = locking.ErrLost
				}
			}
			return errs
		},
		Observe: func(e locking.Event) {
			if e.Kind == locking.EventRetried {
				failed.Store(&e)
			}
			if e.Kind == locking.EventRenewed && renewed.Add(1) == leases {
				done <- time.Now()
			}
		},
	})
	must(b, err)
	b.Cleanup(func() { _ = k.Close() })
	for i := range leases {
		name := fmt.Sprint("job-", i)
		token := locking.NewToken()
		must(b, c.Set(b.Context(), name, token.Reveal()+"|7|30000|bench", ttl).Err())
		k.Keep(b.Context(), locking.Grant{Name: name, Token: token, TTL: ttl, Sent: k.Now()})
	}
	var took []time.Duration
	for b.Loop() {
		renewed.Store(0)
		began := time.Now()
		k.RenewNow()
		took = append(took, (<-done).Sub(began)/leases)
	}
	if e := failed.Load(); e != nil {
		b.Errorf("a renewal failed: %v", e.Err)
	}
	b.ReportMetric(sample.Micros(sample.Median(took)), "µs/lease")
	b.ReportMetric(sample.Micros(sample.Quantile(took, 0.25)), "µs/lease-q1")
}

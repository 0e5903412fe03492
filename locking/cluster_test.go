package locking

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// A cluster of one node: every slot is served, and every rule about slots applies.
func TestLocker_OnACluster(t *testing.T) {
	s := redistest.Server(t, "--cluster-enabled", "yes")
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, 10*time.Second, "the cluster is up", func() bool {
		return s.Client().Set(t.Context(), "k", "v", time.Second).Err() == nil
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	for _, prefix := range []string{"rota:lock:", "{app}:lock:"} {
		l := newLocker(t, client, Options{Prefix: prefix, TTL: 600 * time.Millisecond})
		var leases []*Lease
		for i := range 20 {
			leases = append(leases, mustAcquire(t, l, fmt.Sprint("job-", i)))
		}
		if _, err := l.TryAcquire(t.Context(), "job-0"); !errors.Is(err, ErrHeld) {
			t.Errorf("TryAcquire again: got %v, want ErrHeld", err)
		}
		s.Do("SCRIPT", "FLUSH")
		time.Sleep(time.Second) // renewals of many slots in one pipeline
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

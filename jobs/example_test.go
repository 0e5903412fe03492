package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rota/jobs"
)

var errStale = errors.New("stale fencing token")

// A store takes writes under a fencing token and refuses those of a holder that has been
// superseded. The check and the write are one step: here under a mutex, in SQL in one statement,
// UPDATE … SET value = $1, token = $2 WHERE token <= $2.
type store struct {
	mu    sync.Mutex
	token int64
	value string
}

func (s *store) write(token int64, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return fmt.Errorf("write %q: %w: %d, seen %d", value, errStale, token, s.token)
	}
	s.token, s.value = token, value
	return nil
}

// A run hands its fencing token to every store that it writes to. When host a is frozen past its
// lease, host b runs the next tick under a larger token. What a writes after it wakes is refused,
// although nothing could stop a in time.
func ExampleFunc() {
	report := &store{}
	frozen, woken := make(chan struct{}), make(chan struct{})

	job := jobs.Func(func(_ context.Context, run jobs.Run) error {
		if run.Host == "a" {
			close(frozen)
			<-woken
		}
		return report.write(run.Token, "report of "+run.Host)
	})

	var a sync.WaitGroup
	a.Go(func() {
		result := job.Run(context.Background(), jobs.Run{Job: "report", Host: "a", Token: 1001})
		fmt.Println("a:", result.Outcome, "-", result.Reason)
	})
	<-frozen
	result := job.Run(context.Background(), jobs.Run{Job: "report", Host: "b", Token: 1002})
	fmt.Println("b:", result.Outcome)
	close(woken)
	a.Wait()
	fmt.Println("stored:", report.value)

	// Output:
	// b: succeeded
	// a: failed - write "report of a": stale fencing token: 1001, seen 1002
	// stored: report of b
}

package scheduler_test

import (
	"context"
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// A program that is its own fleet: every copy of it runs this, and each tick runs in one.
func Example() {
	server := miniredis.NewMiniRedis() // a real Redis, outside an example
	defer server.Close()
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		ContextTimeoutEnabled: true, // or a hung server hangs the scheduler's calls
		MaxRetries:            -1,   // the scheduler repeats what may be repeated
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
	})
	defer func() { _ = client.Close() }()

	led, err := ledger.New(client, ledger.Options{Namespace: "billing"})
	if err != nil {
		panic(err)
	}
	everySecond, err := schedule.Parse("UTC", "* * * * * *")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := scheduler.New(scheduler.Options{
		Ledger: led, Namespace: "billing", Host: "web-1",
		Jobs: []scheduler.Job{{
			Name: "settle", Schedule: everySecond,
			Handler: jobs.Func(func(_ context.Context, run jobs.Run) error {
				fmt.Printf("%s runs on %s, under a token: %v\n", run.Job, run.Host, run.Token > 0)
				stop()
				return nil
			}),
		}},
	})
	if err != nil {
		panic(err)
	}
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
	// Output: settle runs on web-1, under a token: true
}

package locking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/locking"
)

// redisForExamples stands for a Redis of one's own.
func redisForExamples() (*redis.Client, func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	return client, func() {
		_ = client.Close()
		m.Close()
	}
}

func ExampleLocker_Do() {
	client, stop := redisForExamples()
	defer stop()
	locker, err := locking.New(client, locking.Options{TTL: 10 * time.Second, Holder: "web-1"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = locker.Close() }()

	err = locker.Do(context.Background(), "nightly-report", func(ctx context.Context, lease *locking.Lease) error {
		// ctx ends when the lease is lost. Send lease.FencingToken() with each write.
		fmt.Println("holding", lease.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// holding nightly-report
	// <nil>
}

func ExampleLocker_TryAcquire() {
	client, stop := redisForExamples()
	defer stop()
	locker, err := locking.New(client, locking.Options{Holder: "web-1"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()

	first, err := locker.TryAcquire(ctx, "backup")
	if err != nil {
		panic(err)
	}
	_, err = locker.TryAcquire(ctx, "backup")
	if held, ok := errors.AsType[*locking.HeldError](err); ok {
		fmt.Println("held by", held.Holder)
	}
	if err := first.Release(ctx); err != nil {
		panic(err)
	}
	second, err := locker.TryAcquire(ctx, "backup")
	if err != nil {
		panic(err)
	}
	defer func() { _ = second.Release(ctx) }()
	fmt.Println("a larger token:", second.FencingToken() > first.FencingToken())
	// Output:
	// held by web-1
	// a larger token: true
}

// Processes of a fleet share a credential. One refreshes it, the others wait, and look again when they
// have the lock: it may be fresh by then. Nobody uses what it read without the lock after waiting.
func ExampleLocker_Acquire() {
	client, stop := redisForExamples()
	defer stop()
	refreshed := 0
	fresh := func(ctx context.Context, locker *locking.Locker) (string, error) {
		if c, err := client.Get(ctx, "credential").Result(); err == nil {
			return c, nil
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		lease, err := locker.Acquire(ctx, "credential")
		if err != nil {
			return "", err // there is no lease, so nothing is refreshed
		}
		defer func() { _ = lease.Release(ctx) }()
		if c, err := client.Get(ctx, "credential").Result(); err == nil {
			return c, nil // somebody refreshed it while this one waited
		}
		refreshed++ // asks the issuer, under lease.Context(): it ends if the lease is lost
		c := fmt.Sprint("credential ", refreshed)
		if !lease.Valid() {
			return "", lease.Err()
		}
		return c, client.Set(ctx, "credential", c, time.Minute).Err()
	}

	var wg sync.WaitGroup
	for range 5 { // five processes
		locker, err := locking.New(client, locking.Options{})
		if err != nil {
			panic(err)
		}
		wg.Go(func() {
			defer func() { _ = locker.Close() }()
			if _, err := fresh(context.Background(), locker); err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("refreshed", refreshed, "time")
	// Output:
	// refreshed 1 time
}

func ExampleLease_Renew() {
	client, stop := redisForExamples()
	defer stop()
	locker, err := locking.New(client, locking.Options{TTL: 5 * time.Second})
	if err != nil {
		panic(err)
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()
	lease, err := locker.TryAcquire(ctx, "migration")
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release(ctx) }()
	// The next step must not be cut short by a Redis that is away for half a minute.
	if err := lease.Renew(ctx, time.Minute); err != nil {
		panic(err)
	}
	fmt.Println(lease.Remaining() > 50*time.Second)
	// Output:
	// true
}

func ExampleLocker_TakeValue() {
	client, stop := redisForExamples()
	defer stop()
	locker, err := locking.New(client, locking.Options{Holder: "importer"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()
	if _, err := locker.TakeValue(ctx, "import", "order 17", time.Minute); err != nil {
		panic(err)
	}
	_, err = locker.TakeValue(ctx, "import", "order 18", time.Minute)
	fmt.Println(errors.Is(err, locking.ErrHeld))
	_, own, err := locker.QueryValue(ctx, "import", "order 17")
	fmt.Println(own, err)
	fmt.Println(locker.ReleaseValue(ctx, "import", "order 17"))
	// Output:
	// true
	// true <nil>
	// <nil>
}

// A Keeper renews what a script of one's own has granted.
func ExampleKeeper() {
	client, stop := redisForExamples()
	defer stop()
	const ttl = 10 * time.Second
	claim := locking.NewScript(`
local lease, err, mine = lease_acquire(KEYS[1], KEYS[2], 60000, ARGV[1], tonumber(ARGV[2]), 0, 'web-1')
if err then return err end
if not mine then return '0' end
redis.call('SET', KEYS[3], ARGV[3], 'PX', 60000) -- decided in the same step
return lease.fence`)
	renew := locking.NewScript(`return lease_renew(KEYS[1], ARGV[1], tonumber(ARGV[2])) and '1' or '0'`)

	keeper, err := locking.NewKeeper(locking.KeeperOptions{
		Renew: func(ctx context.Context, grants []locking.Grant) []error {
			calls := make([]locking.Call, len(grants))
			for i, g := range grants {
				calls[i] = locking.Call{Keys: []string{"{app}:" + g.Name}, Args: []any{g.Token.Reveal(), g.TTL.Milliseconds()}}
			}
			errs := make([]error, len(grants))
			for i, r := range renew.RunAll(ctx, client, calls) {
				if errs[i] = r.Err; r.Err == nil && r.Value != "1" {
					errs[i] = locking.ErrLost
				}
			}
			return errs
		},
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Close() }()

	ctx := context.Background()
	g := locking.Grant{Name: "job", Token: locking.NewToken(), TTL: ttl, Sent: keeper.Now()} // before it is sent
	fence, err := claim.Run(ctx, client, []string{"{app}:job", "{app}:job:fence", "{app}:last"}, g.Token.Reveal(), ttl.Milliseconds(), "tick 1")
	if err != nil || fence == "0" {
		panic(fmt.Sprint("not granted: ", err))
	}
	lease := keeper.Keep(ctx, g)
	fmt.Println("valid:", lease.Valid())
	lease.Stop()
	fmt.Println(lease.Err())
	// Output:
	// valid: true
	// locking: lease released
}

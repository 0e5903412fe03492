package shadow

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/locking"
	"rota/scheduler/ledger"
)

const (
	exchangeEvery = 250 * time.Millisecond
	// keepEvery is how often the session is kept and the hosts are read, in exchanges: every 2 s.
	keepEvery = 8
	// touchEvery is how often the records of the whole table are kept from expiring.
	touchEvery = ledger.ShadowKept / 3
	// streamKept bounds the stream; five processes fill it in less than a minute, and read it at once.
	streamKept = 1000
	// readAtOnce bounds what one exchange reads.
	readAtOnce = 500
)

// exchange tells the other processes what this one's hosts see, and hears what theirs do: each says
// it on one stream, and takes what there is from there, its own too. So all know the same. The
// goroutine of [Run] alone uses it.
type exchange struct {
	client    redisClient
	session   *session
	collector *collector
	patience  time.Duration
	stream    string

	process string
	number  int64
	last    string           // id of the newest entry read
	pending []byte           // what Redis is not known to have
	heard   map[string]int64 // the newest number of each process
	turns   int
	touched time.Time

	hosts []ledger.Host // of all processes
	other string        // id of another session, if there is one
	fails int           // exchanges since the last good one
	away  bool          // Redis, as said last
	split bool          // that there is another session was said
}

// newExchange begins at the end of the stream: what was before is not this process' to report.
func newExchange(ctx context.Context, client redisClient, s *session, c *collector, patience time.Duration) (*exchange, error) {
	x := &exchange{
		client: client, session: s, collector: c, patience: patience, stream: s.prefix() + "seen",
		process: rand.Text(), last: "0-0", heard: map[string]int64{}, touched: time.Now(),
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	newest, err := client.XRevRangeN(ctx, x.stream, "+", "-", 1).Result()
	if err != nil {
		return nil, fmt.Errorf("look for the other hosts: %w", locking.Classify(err))
	}
	if len(newest) > 0 {
		x.last = newest[0].ID
	}
	return x, nil
}

// trip says what there is to say and returns what is new.
func (x *exchange) trip(ctx context.Context, led *ledger.Ledger, c *config.Config) ([]batch, error) {
	ctx, cancel := context.WithTimeout(ctx, x.patience)
	defer cancel()
	x.fill()
	var clock *redis.TimeCmd
	var id *redis.StringCmd
	var added *redis.StringCmd
	pipe := x.client.Pipeline()
	if x.pending != nil {
		added = pipe.XAdd(ctx, &redis.XAddArgs{Stream: x.stream, MaxLen: streamKept, Approx: true, Values: []any{"b", x.pending}})
		pipe.PExpire(ctx, x.stream, ledger.ShadowKept)
	}
	news := pipe.XRangeN(ctx, x.stream, "("+x.last, "+", readAtOnce)
	keeping := x.turns%keepEvery == 0
	if keeping {
		clock, id = pipe.Time(ctx), x.session.keep(ctx, pipe)
	}
	err := first(pipe.Exec(ctx))
	if added != nil && added.Err() == nil {
		x.pending = nil
	}
	if err != nil {
		return nil, err
	}
	x.turns++
	if keeping {
		x.collector.setOffset(time.Since(clock.Val()))
		x.other = ""
		if id.Val() != x.session.id {
			x.other = id.Val()
		}
		if hosts, err := led.Hosts(ctx); err == nil {
			x.hosts = hosts
		}
	}
	if time.Since(x.touched) > touchEvery {
		x.touched = time.Now()
		_ = led.Touch(ctx, x.names(c), 0, func(string) time.Duration { return ledger.ShadowKept }) // the next one is in time too
	}
	return x.read(news.Val()), nil
}

// fill makes a message of what was collected, unless one is still to be sent.
func (x *exchange) fill() {
	if x.pending != nil {
		return
	}
	b := x.collector.take()
	if b.empty() {
		return
	}
	x.number++
	b.Process, b.Number = x.process, x.number
	x.pending, _ = json.Marshal(b) // of strings and numbers alone
}

// told tells whether Redis has all that this process had to say.
func (x *exchange) told() bool {
	x.fill()
	return x.pending == nil
}

// read takes batches out of the stream. What is none, or was read before, is left out.
func (x *exchange) read(entries []redis.XMessage) []batch {
	var out []batch
	for _, e := range entries {
		x.last = e.ID
		text, _ := e.Values["b"].(string)
		var b batch
		if json.Unmarshal([]byte(text), &b) != nil || b.Number <= x.heard[b.Process] {
			continue
		}
		x.heard[b.Process] = b.Number
		out = append(out, b)
	}
	return out
}

// names are those of the table in the ledger, of scope "host" for each host there is.
func (x *exchange) names(c *config.Config) []string {
	var names []string
	for i := range c.Jobs {
		names = append(names, c.Jobs[i].Name)
		if c.Jobs[i].Scope == "host" {
			for _, h := range x.hosts {
				names = append(names, c.Jobs[i].Name+"@"+h.Name)
			}
		}
	}
	return names
}

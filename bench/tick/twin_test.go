package tick

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The namespaces of the scheduler and of its twins. Their names are equally long, so that what is
// sent differs in those bytes and in nothing else.
const (
	fleetNS = "fleet-of-one"
	wholeNS = "twin-in-one-"
	splitNS = "twin-by-64s-"
)

// sent is what a scheduler sent to Redis.
type sent struct {
	claims, finishes [][]any   // EVALSHA, argument by argument
	first, last      time.Time // the first claim was sent, the last was answered
}

// tap is a hook of the scheduler's client that keeps what is sent.
type tap struct {
	mu       sync.Mutex
	sent     sent
	recorded int           // finishes that succeeded
	want     int           // finishes until finished is told
	finished chan struct{} // with room for one
}

// Scripts are told apart by their keys: a claim has three, a finish and a renewal two, a
// heartbeat one. Runs in this benchmark are over before they are renewed.
func keysOf(args []any) int {
	if len(args) < 3 || args[0] != "evalsha" && args[0] != "eval" {
		return 0
	}
	n, _ := args[2].(int)
	return n
}

// DialHook is part of [redis.Hook].
func (*tap) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sees the finishes, and a claim that is sent alone. The first ones are sent twice, as EVALSHA and then whole, because
// the server does not know the script yet; only the EVALSHA is kept.
func (t *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		switch keysOf(cmd.Args()) {
		case 2:
		case 3:
			t.claimed(began, cmd)
			return err
		default:
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if cmd.Name() == "evalsha" {
			t.sent.finishes = append(t.sent.finishes, cmd.Args())
		}
		if err == nil {
			if t.recorded++; t.recorded == t.want {
				t.recorded = 0
				t.finished <- struct{}{}
			}
		}
		return err
	}
}

// ProcessPipelineHook sees the claims.
func (t *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if keysOf(cmds[0].Args()) != 3 {
			return next(ctx, cmds)
		}
		began := time.Now()
		err := next(ctx, cmds)
		t.claimed(began, cmds...)
		return err
	}
}

// claimed notes claims that have just been answered.
func (t *tap) claimed(began time.Time, cmds ...redis.Cmder) {
	answered := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cmds {
		if c.Name() == "evalsha" {
			t.sent.claims = append(t.sent.claims, c.Args())
		}
	}
	if t.sent.first.IsZero() || began.Before(t.sent.first) {
		t.sent.first = began
	}
	if answered.After(t.sent.last) {
		t.sent.last = answered
	}
}

// take returns what was sent since the last take and begins anew.
func (t *tap) take() sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sent
	t.sent = sent{}
	return s
}

// twin is a namespace in which everything happens that happens in the scheduler's, a moment
// later and by bare EVALSHA: the same script, keys and arguments on records with the same
// history. So the same work is done on the server, and nothing around it.
type twin struct {
	tb       testing.TB
	client   *redis.Client
	ns       string
	pipeline int // commands in one
	inFlight int // pipelines under way
}

// claim sends the scheduler's claims, and returns how long that took. If all must be won, any
// other answer fails the benchmark: less work was done.
func (t *twin) claim(of [][]any, allWon bool) time.Duration {
	t.tb.Helper()
	bodies := t.bodies(of)
	began := time.Now()
	cmds := t.send(bodies)
	took := time.Since(began)
	for _, c := range cmds {
		v, err := c.Slice()
		if err != nil || len(v) == 0 || allWon && v[0] != "won" {
			t.tb.Fatalf("a claim in %s: %v, %v; want won (late: this machine is too busy)", t.ns, v, err)
		}
	}
	return took
}

// finish sends the scheduler's finishes.
func (t *twin) finish(of [][]any) {
	t.tb.Helper()
	for _, c := range t.send(t.bodies(of)) {
		if c.Err() != nil {
			t.tb.Fatalf("a finish in %s: %v", t.ns, c.Err())
		}
	}
}

// bodies makes the twin's commands of the scheduler's.
func (t *twin) bodies(of [][]any) [][]any {
	out := make([][]any, len(of))
	for i, args := range of {
		out[i] = slices.Clone(args)
		for k, a := range out[i] {
			if s, ok := a.(string); ok && strings.HasPrefix(s, "{"+fleetNS+"}") {
				out[i][k] = "{" + t.ns + "}" + s[len(fleetNS)+2:]
			}
		}
	}
	return out
}

// send runs the commands in the twin's pipelines.
func (t *twin) send(bodies [][]any) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(bodies))
	slots := make(chan struct{}, t.inFlight)
	var wg sync.WaitGroup
	at := 0
	for chunk := range slices.Chunk(bodies, t.pipeline) {
		into := cmds[at : at+len(chunk)]
		at += len(chunk)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			pipe := t.client.Pipeline()
			for i, args := range chunk {
				into[i] = redis.NewCmd(ctx, args...)
				_ = pipe.Process(ctx, into[i])
			}
			_, _ = pipe.Exec(ctx) // each command has its own error
		})
	}
	wg.Wait()
	return cmds
}

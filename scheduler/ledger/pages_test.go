package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// reads counts the stream entries that a client was sent.
type reads struct{ n int }

func (r *reads) count(c redis.Cmder) {
	if s, ok := c.(*redis.XMessageSliceCmd); ok {
		r.n += len(s.Val())
	}
}

func (r *reads) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.count(cmd)
		return err
	}
}

func (r *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			r.count(c)
		}
		return err
	}
}

// lived fills a job's streams with what n runs leave behind: some overlap, some are found lost long
// after, some are reported later still, and some ticks nobody ran.
func (r *rig) lived(job string, n int, random *rand.Rand) {
	r.Helper()
	type write struct {
		at     int64
		stream string
		fields []any
	}
	var writes []write
	begin := r.zero.Add(-24 * time.Hour).UnixMilli()
	for i := range n {
		won := begin + int64(i)*10_000 + random.Int64N(3000)
		run := []any{"run", fmt.Sprintf("%s%d", job, i), "tick", begin + int64(i)*10_000, "kind", "scheduled", "host", "a", "token", won, "won", won, "lease", "none"}
		end := won + random.Int64N(90_000)
		add := func(at int64, stream string, more ...any) {
			writes = append(writes, write{at, stream, append(append([]any{}, run...), more...)})
		}
		add(won, "runs", "ev", "start")
		switch random.IntN(5) {
		case 0:
			add(end, "runs", "ev", "end", "outcome", "lost")
			add(end, "fails", "ev", "end", "outcome", "lost", "at", "1-1")
		case 1:
			add(end, "runs", "ev", "end", "outcome", "failed", "attempt", 1)
			add(end, "fails", "ev", "end", "outcome", "failed", "attempt", 1, "at", "1-1")
		case 2: // nothing was heard of it
		default:
			add(end, "runs", "ev", "end", "outcome", "succeeded", "attempt", 1)
		}
		if random.IntN(3) == 0 {
			at, outcome := won+random.Int64N(200_000), "missed"
			if i < 9*n/10 { // so that pages have to be turned to find them
				outcome = "skipped"
			}
			writes = append(writes, write{at, "skips", []any{"outcome", outcome, "tick", won, "until", won + (at-won)/2, "count", 2}})
		}
	}
	pipe := r.client.Pipeline()
	slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(a.at, b.at) })
	for _, w := range writes {
		pipe.Do(r.ctx(), append([]any{"XADD", "{t}:job:" + job + ":" + w.stream, fmt.Sprintf("%d-*", w.at)}, w.fields...)...)
	}
	if _, err := pipe.Exec(r.ctx()); err != nil {
		r.Fatal(err)
	}
}

// What a limit leaves is the beginning of what there is, however it was appended, and it costs
// little more than that to read.
func TestHistory_LimitIsTheBeginningOfAll(t *testing.T) {
	t.Parallel()
	r := onServer(t)
	random := rand.New(rand.NewPCG(7, 1))
	r.lived("j", 400, random)
	r.lived("k", 30, random)
	counted := &reads{}
	r.client.AddHook(counted)
	for _, q := range []Query{
		{Jobs: []string{"j"}},
		{Jobs: []string{"j", "k", "none"}},
		{Jobs: []string{"k", "j"}, Outcome: OutcomeMissed},
		{Jobs: []string{"j"}, Outcome: OutcomeSkipped},
		{Jobs: []string{"j", "k"}, Outcome: "failed"},
		{Jobs: []string{"j"}, Outcome: "succeeded", Since: r.zero.Add(-23*time.Hour - 30*time.Minute)},
		{Jobs: []string{"j"}, Outcome: "never"},
	} {
		all, err := r.led.History(r.ctx(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 2, 3, 5, 8, 20, 100, 600, 5000} {
			q.Limit, counted.n = limit, 0
			got, err := r.led.History(r.ctx(), q)
			if want := all[:min(limit, len(all))]; err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("History(%+v) = %d entries, %v, want the first %d of %d", q, len(got), err, len(want), len(all))
			}
			if most := 60*limit + 80*len(q.Jobs); q.Outcome == "" && counted.n > most {
				t.Errorf("History(%+v) read %d entries, want %d at most", q, counted.n, most)
			}
		}
	}
}

// One run is found among many without reading them all.
func TestRun_IsFoundFromItsStart(t *testing.T) {
	t.Parallel()
	r := onServer(t)
	others := func() {
		pipe := r.client.Pipeline()
		for i := range 1000 {
			pipe.Do(r.ctx(), "XADD", "{t}:job:j:runs", "*", "ev", "end", "run", fmt.Sprint("other", i), "attempt", 1)
		}
		if _, err := pipe.Exec(r.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	others()
	g := r.win(r.claim(-1))
	r.end(g, "succeeded")
	lost := r.win(r.claim(0))
	others()
	counted := &reads{}
	r.client.AddHook(counted)
	if e, err := r.led.Run(r.ctx(), g.Claim.Run); err != nil || e.Outcome != "succeeded" || counted.n > 300 {
		t.Errorf("Run() = %+v, %v, after %d entries, want succeeded after 300 at most", e, err, counted.n)
	}
	if e, err := r.led.Run(r.ctx(), lost.Claim.Run); err != nil || e.Outcome != OutcomeRunning {
		t.Errorf("Run() = %+v, %v, want running", e, err)
	}
	r.end(lost, "failed")
	if e, err := r.led.Run(r.ctx(), lost.Claim.Run); err != nil || e.Outcome != "failed" {
		t.Errorf("Run() = %+v, %v, want failed", e, err)
	}
	r.do("HDEL", "{t}:run:"+g.Claim.Run, "start") // its key had expired when it ended
	if e, err := r.led.Run(r.ctx(), g.Claim.Run); err != nil || e.Outcome != "succeeded" {
		t.Errorf("Run() without a start = %+v, %v, want succeeded", e, err)
	}
}

package shadow

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/jobs"
	"rota/scheduler"
)

// A wait lasts as long as it should, unless its lease does not. The end of the dry run is no crash.
func TestWait_Ends(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cause error
		want  jobs.Outcome
		after time.Duration
		told  string
	}{
		{"by itself", nil, jobs.Succeeded, time.Minute, ""},
		{"with the dry run", jobs.ErrInterrupted, jobs.Succeeded, 10 * time.Second, ""},
		{"with its timeout", jobs.ErrTimedOut, jobs.TimedOut, 10 * time.Second, "timed_out"},
		{"with its lease", jobs.ErrLost, jobs.Lost, 10 * time.Second, "lost"},
		{"for another run", jobs.ErrCancelled, jobs.Cancelled, 10 * time.Second, "cancelled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCollector()
				ctx, cancel := context.WithCancelCause(t.Context())
				if tc.cause != nil {
					time.AfterFunc(10*time.Second, func() { cancel(fmt.Errorf("%w: test", tc.cause)) })
				}
				began := time.Now()
				res := wait{host: "h", lasts: time.Minute, collector: c}.Run(ctx, jobs.Run{Job: "a", Tick: began})
				if res.Outcome != tc.want || time.Since(began) != tc.after || !res.Started.Equal(began) {
					t.Errorf("Run = %+v after %s, want %s after %s", res, time.Since(began), tc.want, tc.after)
				}
				var told string
				for _, s := range c.take().Sights {
					told += s.Outcome
				}
				if told != tc.told {
					t.Errorf("told %q, want %q", told, tc.told)
				}
				cancel(nil)
			})
		})
	}
}

// Of fifty hosts that come for a tick two are enough to know who came next.
func TestCollector_KeepsWhoCameFirst(t *testing.T) {
	c := newCollector()
	for i := range 50 {
		for tick := range 3 {
			c.saw(fmt.Sprint("h", i), scheduler.Sight{Job: "a", Tick: time.Unix(int64(tick), 0), Left: true, At: time.Unix(int64(tick), 0)}, nil)
		}
	}
	if n := len(c.take().Sights); n != 6 {
		t.Errorf("%d sights of three ticks, want 6", n)
	}
	c.saw("late", scheduler.Sight{Job: "a", Tick: time.Unix(0, 0), Left: true}, nil)
	if n := len(c.take().Sights); n != 0 {
		t.Errorf("one that comes with the next exchange counts %d times, want not at all", n)
	}
}

// What comes twice, because Redis' word that it has it was lost, counts once.
func TestExchange_DropsWhatComesTwice(t *testing.T) {
	x := &exchange{heard: map[string]int64{}}
	entry := func(id, b string) redis.XMessage { return redis.XMessage{ID: id, Values: map[string]any{"b": b}} }
	got := x.read([]redis.XMessage{
		entry("1-0", `{"p":"a","n":1}`), entry("2-0", `{"p":"a","n":1}`), entry("3-0", `no batch`),
		entry("4-0", `{"p":"b","n":1}`), entry("5-0", `{"p":"a","n":2}`),
	})
	var said string
	for _, b := range got {
		said += fmt.Sprint(b.Process, b.Number, " ")
	}
	if said != "a1 b1 a2 " || x.last != "5-0" {
		t.Errorf("read %q up to %s, want a1 b1 a2 up to 5-0", said, x.last)
	}
}

package scheduler

import (
	"testing"
	"testing/synctest"
	"time"
)

// until sleeps until an instant of the bubble's first day, as "01:30:00".
func until(t *testing.T, clock string) {
	t.Helper()
	time.Sleep(time.Until(instant(clock)))
}

// Jobs that name one lock exclude each other; what is skipped says for whom.
func TestPolicy_SharedLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		long := job(t, "long", "30 5 * * * *", f.handler(140*time.Second))
		short := job(t, "short", "* * * * *", f.handler(time.Second))
		own := job(t, "own", "* * * * *", f.handler(time.Second))
		long.Lock, short.Lock = "db", "db"
		for _, name := range names(3) {
			f.start(name, nil, long, short, own)
		}
		until(t, "00:08:30")
		f.wantSays("long", "00:05:30 succeeded")
		f.wantSays("short", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded", "00:04:00 succeeded",
			"00:05:00 succeeded", "00:06:00…00:07:00 (2) skipped", "00:08:00 succeeded")
		if e := f.history("short")[5]; e.Reason != "the lock is held by "+e.Holder+" for long" || e.Holder == "" {
			t.Errorf("the skipped ticks say %q, want the holder and its job", e.Reason)
		}
		runs := f.ran()
		for i, a := range runs {
			for _, b := range runs[:i] {
				if a.Lock == b.Lock && a.Token <= b.Token {
					t.Errorf("lock %s: token %d of %s is not above %d of %s", a.Lock, a.Token, a.Job, b.Token, b.Job)
				}
			}
		}
		if runs, others := f.accounts(own, time.Now().Add(-8*time.Minute), time.Now().Add(-time.Minute)); runs < 7 || others != 0 {
			t.Errorf("own: %d runs and %d other entries, want one run a minute", runs, others)
		}
	})
}

// Runs of an "allow" job overlap, up to max_parallel, each under a lease of its own; one that is
// lost takes no other with it.
func TestPolicy_Allow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(150*time.Second))
		j.Overlap, j.MaxParallel = OverlapAllow, 2
		log := &logBuffer{}
		f.start("h0", log.into, j)
		f.start("h1", log.into, j)
		until(t, "00:06:10")
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 skipped", "00:04:00 running", "00:05:00 running", "00:06:00 skipped")
		if n := log.count("max_parallel runs are going"); n != 2 {
			t.Errorf("%d lines say that max_parallel runs are going, want 2", n)
		}
		last := int64(0)
		for _, r := range f.ran() {
			if r.Token <= last || r.Lock != "j" {
				t.Errorf("tick %s has token %d of lock %s, want one of j above %d", r.Tick, r.Token, r.Lock, last)
			}
			last = r.Token
		}
		for _, key := range f.redis.Keys() {
			if len(key) > 14 && key[:14] == "{t}:lock:j:946" { // 2000-01-01 in seconds
				f.redis.Del(key)
				break
			}
		}
		time.Sleep(5 * time.Second)
		lost, running := 0, 0
		for _, e := range f.history("j") {
			switch e.Outcome {
			case "lost":
				lost++
			case "running":
				running++
			}
		}
		if lost != 1 || running != 1 {
			t.Errorf("after one lease is gone %d runs are lost and %d running, want 1 and 1: %q", lost, running, f.says("j"))
		}
	})
}

// With a splay all hosts start a tick the same while later, and its name stays the nominal instant.
func TestPolicy_Splay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		j.Splay = 50 * time.Second
		delay := j.Delay()
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		until(t, "00:05:59")
		history := f.history("j")
		if len(history) < 5 || delay == 0 {
			t.Fatalf("%d entries with a delay of %s, want five or more and a delay: choose another name", len(history), delay)
		}
		for _, e := range history {
			if d := e.Won.Sub(e.Tick); e.Tick.Second() != 0 || d < delay || d > delay+100*time.Millisecond {
				t.Errorf("tick %s was won %s later, want %s", e.Tick, d, delay)
			}
		}
	})
}

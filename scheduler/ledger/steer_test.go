package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rota/locking"
)

var (
	ada = By{"ada", "upgrade"}
	bob = By{"bob", "a second look"}
)

// pauseFor pauses job "j", or what is named.
func (r *rig) pauseFor(length time.Duration, by By, job ...string) Pause {
	r.Helper()
	name := "j"
	if len(job) > 0 {
		name = job[0]
	}
	h, err := r.led.Pause(r.ctx(), name, length, by, time.Hour)
	if err != nil {
		r.Fatalf("Pause(%s, %s) = %v, want no error", name, length, err)
	}
	return h
}

func (r *rig) resume(job string, want bool) {
	r.Helper()
	if got, err := r.led.Resume(r.ctx(), job, bob); got != want || err != nil {
		r.Fatalf("Resume(%s) = %t, %v, want %t; the ledger:\n%s", job, got, err, want, r.dump())
	}
}

// olderPause writes a pause of "j" that holds back the ticks from one to another, as if it had
// been set then. It returns when it began.
func (r *rig) olderPause(from, until int) time.Time {
	r.Helper()
	began, ended := r.tick(from).Add(-time.Second), r.tick(until).Add(time.Second)
	r.do("HSET", "{t}:job:j", "pause_from", began.UnixMilli(), "pause_until", ended.UnixMilli(),
		"pause_who", ada.Who, "pause_why", ada.Why)
	return began
}

func ofJob(name string) func(*Claim) { return func(c *Claim) { c.Job = name } }

func (r *rig) steering() Steering {
	r.Helper()
	s, err := r.led.Steering(r.ctx())
	if err != nil {
		r.Fatalf("Steering() = %v, want no error", err)
	}
	return s
}

// hints returns what waits for the next hint, and for no more than a while.
func (r *rig) hints() func() string {
	r.Helper()
	sub := r.led.Hints(r.ctx())
	r.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(r.ctx()); err != nil {
		r.Fatal(err)
	}
	return func() string {
		select {
		case m := <-sub.Channel():
			return m.Payload
		case <-time.After(5 * time.Second):
			return ""
		}
	}
}

// near tells whether an instant is that far from Redis' clock, but for the time calls take.
func (r *rig) near(t time.Time, ahead time.Duration) bool {
	r.Helper()
	d := t.Sub(r.now()) - ahead
	return d > -10*time.Second && d < 10*time.Second
}

func TestLedger_Pause(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("of a job, for a while", func(t *rig) {
			t.ran(-1)
			h := t.pauseFor(time.Hour, ada)
			if h.By != ada || !t.near(h.From, 0) || h.Until.Sub(h.From) != time.Hour {
				t.Errorf("Pause(1h) = %+v, want from now for an hour, by ada", h)
			}
			s := t.state()
			if !s.Paused || s.Pause == nil || *s.Pause != h || s.FleetPause != nil || *s.PausedBy() != h {
				t.Errorf("State() = %+v, want paused by %+v", s, h)
			}
			if got := t.steering().Paused; len(got) != 1 || got["j"] != h {
				t.Errorf("Steering().Paused = %v, want %+v of j: the heartbeats bring it", got, h)
			}
			t.want("paused", t.claim(0))
			t.resume("j", true)
		})
		t.fresh("of a job without a record, until resumed; the record outlives it", func(t *rig) {
			h := t.pauseFor(0, ada)
			if h.Ends() || !h.Until.After(t.now()) {
				t.Errorf("Pause(0) = %+v, want one without an end", h)
			}
			if s := t.state(); !s.Known || s.Pause == nil || s.Pause.Ends() {
				t.Errorf("State() = %+v, want a record with a pause without an end", s)
			}
			for i, want := range []int64{3600_000, 7200_000, 7200_000} { // it is never shortened
				length := []time.Duration{0, time.Hour, 0}[i]
				t.pauseFor(length, ada)
				if ttl, ok := t.do("PTTL", "{t}:job:j").(int64); !ok || ttl > want || ttl < want-10_000 {
					t.Errorf("PTTL of the record after Pause(%s) = %d, want %d ms: an hour after its end", length, ttl, want)
				}
			}
			t.want("paused", t.claim(0))
		})
		t.fresh("of the fleet", func(t *rig) {
			h := t.pauseFor(time.Hour, ada, AllJobs)
			s := t.state()
			if !s.Paused || s.Pause != nil || s.FleetPause == nil || *s.FleetPause != h || s.Known {
				t.Errorf("State() = %+v, want paused with the fleet by %+v, and no record", s, h)
			}
			if got := t.steering().Paused; len(got) != 1 || got[AllJobs] != h {
				t.Errorf("Steering().Paused = %v, want %+v of the fleet", got, h)
			}
			t.want("paused", t.claim(0))
			if ttl := t.do("PTTL", "{t}:paused"); ttl != int64(-1) {
				t.Errorf("PTTL of the fleet's pause = %v ms, want none", ttl)
			}
		})
		t.fresh("of both: the one that ends last counts", func(t *rig) {
			long, short := t.pauseFor(2*time.Hour, ada), t.pauseFor(time.Hour, bob, AllJobs)
			if s := t.state(); *s.PausedBy() != long || *s.FleetPause != short {
				t.Errorf("PausedBy(), FleetPause = %+v, %+v, want %+v, %+v", s.PausedBy(), s.FleetPause, long, short)
			}
			long = t.pauseFor(0, bob, AllJobs)
			if s := t.state(); *s.PausedBy() != long {
				t.Errorf("PausedBy() = %+v, want %+v", s.PausedBy(), long)
			}
		})
		t.fresh("shorter than a millisecond still ends", func(t *rig) {
			if h := t.pauseFor(time.Microsecond, ada); h.Until.Sub(h.From) != time.Millisecond {
				t.Errorf("Pause(1µs) = %+v, want a millisecond", h)
			}
		})
		t.fresh("ends by itself", func(t *rig) {
			h := t.pauseFor(50*time.Millisecond, ada)
			time.Sleep(time.Until(h.Until) + 50*time.Millisecond) // this machine's clock is Redis' too
			if s := t.state(); s.Paused || s.Pause != nil || s.PausedBy() != nil {
				t.Errorf("State() = %+v after the pause, want not paused", s)
			}
			t.resume("j", false)
			t.want("already", t.claim(0)) // it was due before the pause ended
		})
		t.fresh("what ended by itself goes from what every heartbeat brings, with the next word", func(t *rig) {
			word := map[string]func(){
				"a pause":              func() { t.pauseFor(time.Hour, bob, "l") },
				"a pause of the fleet": func() { t.pauseFor(time.Hour, bob, AllJobs) },
				"a resume":             func() { t.resume("l", true) },
				"a restore": func() {
					s := Steering{Paused: map[string]Pause{"m": {By: bob, From: t.now(), Until: t.now().Add(time.Hour)}}}
					if err := t.led.Restore(t.ctx(), s, t.now(), time.Hour); err != nil {
						t.Fatal(err)
					}
				},
			}
			for _, what := range []string{"a pause", "a pause of the fleet", "a resume", "a restore"} {
				h := t.pauseFor(5*time.Millisecond, ada)
				t.pauseFor(time.Hour, ada, "k")
				time.Sleep(time.Until(h.Until) + 20*time.Millisecond)
				word[what]()
				got := t.steering().Paused
				if _, ok := got["j"]; ok || got["k"].By != ada {
					t.Errorf("after %s: Steering().Paused = %v, want none of j, and that of k", what, got)
				}
			}
		})
		t.fresh("refuses what cannot be", func(t *rig) {
			if _, err := t.led.Pause(t.ctx(), "j", -time.Second, ada, time.Hour); err == nil || !strings.Contains(err.Error(), "-1s") {
				t.Errorf("Pause(-1s) = %v, want an error that says so", err)
			}
			_, err := t.led.Pause(t.ctx(), "j", time.Hour, By{"ada", "\x1b"}, time.Hour)
			if e, ok := errors.AsType[*ByError](err); !ok || e.Part != "why" {
				t.Errorf("Pause() for ESC = %v, want a ByError of why", err)
			}
			if left := t.dump(); left != "" {
				t.Errorf("a refused pause left\n%s", left)
			}
		})
	})
}

func TestLedger_PauseAgain(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("sets the end, who and why anew, and not the start", func(t *rig) {
			began := t.olderPause(-2, 60)
			for _, length := range []time.Duration{2 * time.Hour, time.Minute, 0} {
				h := t.pauseFor(length, bob)
				if !h.From.Equal(began) || h.By != bob || h.Ends() != (length > 0) || h.Ends() && !t.near(h.Until, length) {
					t.Errorf("Pause(%s) of what is paused = %+v, want from before tick -2, for %[1]s from now, by bob", length, h)
				}
			}
		})
		t.fresh("after one whose ticks nobody recorded: it is the same one, longer", func(t *rig) {
			t.ran(-8)
			began := t.olderPause(-7, -5)
			if h := t.pauseFor(time.Hour, bob); !h.From.Equal(began) {
				t.Errorf("Pause() = from %v, want from where the one before began, %v", h.From, began)
			}
			t.do("HSET", "{t}:job:j", "pause_until", t.tick(0).Add(-time.Second).UnixMilli())
			t.win(t.claim(0))
			t.wantHistory("-8 succeeded scheduled on a", "-7…-1 (7) skipped: paused by bob: a second look", "0 running scheduled on a")
		})
		t.fresh("after one that was recorded: it is another one", func(t *rig) {
			t.olderPause(-7, -5)
			t.ran(-4)
			if h := t.pauseFor(time.Hour, bob); !t.near(h.From, 0) {
				t.Errorf("Pause() = from tick %d, want from now", t.nth(h.From))
			}
		})
	})
}

func TestLedger_Resume(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("what is not paused", func(t *rig) {
			t.resume("j", false)
			t.resume(AllJobs, false)
			if left := t.dump(); left != "" {
				t.Errorf("resuming what is not paused left\n%s", left)
			}
		})
		t.fresh("ends a pause once, and nothing inside it is caught up", func(t *rig) {
			t.ran(-6)
			t.olderPause(-5, 60)
			t.resume("j", true)
			t.resume("j", false)
			if s := t.state(); s.Paused || s.Pause != nil {
				t.Errorf("State() = %+v, want not paused", s)
			}
			if got := t.steering().Paused; len(got) != 0 {
				t.Errorf("Steering().Paused = %v, want none", got)
			}
			t.want("already", t.claim(0))
			// The next claim after it records the range, by who paused and why.
			t.do("HSET", "{t}:job:j", "pause_until", t.tick(-1).Add(time.Second).UnixMilli())
			t.win(t.claim(0))
			t.wantHistory("-6 succeeded scheduled on a", "-5…-1 (5) skipped: paused by ada: upgrade", "0 running scheduled on a")
		})
		t.fresh("the fleet and a job are resumed each by itself", func(t *rig) {
			t.pauseFor(0, ada)
			t.pauseFor(0, bob, AllJobs)
			t.resume(AllJobs, true)
			if s := t.state(); s.Pause == nil || s.FleetPause != nil || !s.Paused {
				t.Errorf("State() = %+v after the fleet was resumed, want paused by itself", s)
			}
			t.pauseFor(0, bob, AllJobs)
			t.resume("j", true)
			if s := t.state(); s.Pause != nil || s.FleetPause == nil || !s.Paused {
				t.Errorf("State() = %+v after the job was resumed, want paused with the fleet", s)
			}
			if got := t.steering().Paused; len(got) != 1 || got[AllJobs].By != bob {
				t.Errorf("Steering().Paused = %v after the job was resumed, want the fleet's alone", got)
			}
		})
	})
}

func TestLedger_DrainHost(t *testing.T) {
	onEach(t, func(t *rig) {
		drain := func(undo, want bool) {
			t.Helper()
			if got, err := t.led.DrainHost(t.ctx(), "a", undo, ada); got != want || err != nil {
				t.Errorf("DrainHost(undo %t) = %t, %v, want %t", undo, got, err, want)
			}
		}
		hint := t.hints()
		drain(true, false)
		drain(false, true)
		drain(false, true)
		if got := t.steering().Drained; len(got) != 1 || got["a"] != ada {
			t.Errorf("Steering().Drained = %v, want a by ada", got)
		}
		t.want("drained", t.claim(0))
		t.win(t.claim(0, by("b")))
		drain(true, true)
		drain(true, false)
		if got := t.steering().Drained; len(got) != 0 {
			t.Errorf("Steering().Drained = %v, want none", got)
		}
		t.want("already", t.claim(0))
		for range 5 {
			if got := hint(); got != "drain a" {
				t.Fatalf("a hint is %q, want drain a: the host is to look at once", got)
			}
		}
		if _, err := t.led.DrainHost(t.ctx(), "a", false, By{"ada\n", ""}); !errors.As(err, new(*ByError)) {
			t.Errorf("DrainHost() by two lines = %v, want a ByError", err)
		}
	})
}

func TestLedger_Reset(t *testing.T) {
	onEach(t, func(t *rig) {
		reset := func(t *rig, was time.Time, want bool) {
			t.Helper()
			got, ok, err := t.led.Reset(t.ctx(), "j")
			if ok != want || !got.Equal(was) || err != nil {
				t.Errorf("Reset() = %v, %t, %v, want %v, %t", got, ok, err, was, want)
			}
		}
		t.fresh("a cursor that lies ahead", func(t *rig) {
			t.ran(-1)
			ahead := t.tick(99)
			t.do("HSET", "{t}:job:j", "tick", ahead.UnixMilli())
			if s := t.state(); !s.Future || !s.Cursor.Equal(ahead) {
				t.Errorf("State() = %+v, want a cursor in the future", s)
			}
			t.want("future", t.claim(0))
			reset(t, ahead, true)
			if s := t.state(); s.Future || !t.near(s.Cursor, 0) {
				t.Errorf("State() = %+v, want a cursor at Redis' clock", s)
			}
			reset(t, t.state().Cursor, false)
			time.Sleep(2 * time.Millisecond)
			next := t.now().Truncate(time.Millisecond)
			t.win(t.claim(0, func(c *Claim) { c.Tick, c.Prev = next, t.state().Cursor }))
		})
		t.fresh("one that does not", func(t *rig) {
			t.ran(-1)
			before := t.dump()
			reset(t, t.tick(-1), false)
			if after := t.dump(); after != before {
				t.Errorf("a reset that was not needed changed the ledger from\n%sto\n%s", before, after)
			}
		})
		t.fresh("none", func(t *rig) { reset(t, time.Time{}, false) })
	})
}

// Keys of another type are somebody else's: they are named and left alone.
func TestLedger_SteeringMeetsForeignKeys(t *testing.T) {
	onEach(t, func(t *rig) {
		pause := func(job string) func() error {
			return func() error { _, err := t.led.Pause(t.ctx(), job, 0, ada, time.Hour); return err }
		}
		resume := func(job string) func() error {
			return func() error { _, err := t.led.Resume(t.ctx(), job, ada); return err }
		}
		drain := func(undo bool) func() error {
			return func() error { _, err := t.led.DrainHost(t.ctx(), "a", undo, ada); return err }
		}
		for _, tc := range []struct {
			name, key string
			call      func() error
		}{
			{"pausing a job", "{t}:job:j", pause("j")},
			{"pausing a job, beside the fleet's", "{t}:paused", pause("j")},
			{"pausing the fleet", "{t}:paused", pause(AllJobs)},
			{"resuming a job", "{t}:job:j", resume("j")},
			{"resuming the fleet", "{t}:paused", resume(AllJobs)},
			{"draining", "{t}:drain", drain(false)},
			{"undoing a drain", "{t}:drain", drain(true)},
			{"resetting", "{t}:job:j", func() error { _, _, err := t.led.Reset(t.ctx(), "j"); return err }},
			{"cancelling", "{t}:run:r", func() error { return t.led.Cancel(t.ctx(), "r", ada) }},
			{"reading", "{t}:paused", func() error { _, err := t.led.Steering(t.ctx()); return err }},
			{"restoring a pause", "{t}:paused", func() error {
				return t.led.Restore(t.ctx(), Steering{Paused: map[string]Pause{AllJobs: {Until: time.UnixMilli(forever)}}}, t.now(), time.Hour)
			}},
			{"restoring a drain", "{t}:drain", func() error {
				return t.led.Restore(t.ctx(), Steering{Drained: map[string]By{"a": ada}}, t.now(), time.Hour)
			}},
		} {
			t.fresh(tc.name, func(t *rig) {
				t.do("SET", tc.key, "x")
				if err := tc.call(); !errors.Is(err, locking.ErrConflict) || !strings.Contains(err.Error(), tc.key) {
					t.Errorf("got %v, want ErrConflict that names %s", err, tc.key)
				}
				if got := t.do("GET", tc.key); got != "x" {
					t.Errorf("GET %s = %v, want it untouched", tc.key, got)
				}
			})
		}
	})
}

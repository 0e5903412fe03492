package ledger

import (
	"testing"
	"time"
)

func TestLedger_Restore(t *testing.T) {
	onEach(t, func(t *rig) {
		restore := func(t *rig, s Steering) {
			t.Helper()
			if err := t.led.Restore(t.ctx(), s, t.now(), time.Hour); err != nil {
				t.Fatalf("Restore() = %v, want no error", err)
			}
		}
		paused := func(job string, h Pause) Steering { return Steering{Paused: map[string]Pause{job: h}} }

		t.fresh("tells a Redis that forgot all that was set", func(t *rig) {
			t.pauseFor(time.Hour, ada)
			t.pauseFor(0, bob, "k")
			t.pauseFor(2*time.Hour, ada, AllJobs)
			for host, by := range map[string]By{"a": ada, "b": bob} {
				if _, err := t.led.DrainHost(t.ctx(), host, false, by); err != nil {
					t.Fatal(err)
				}
			}
			was := t.steering()
			t.do("FLUSHALL")
			restore(t, was)
			got := t.steering()
			for job, want := range was.Paused {
				// Its end is as far from now as it was: calls take their time.
				h := got.Paused[job]
				if h.By != want.By || h.From != want.From || h.Ends() != want.Ends() || h.Ends() && h.Until.Sub(want.Until).Abs() > 5*time.Second {
					t.Errorf("the pause of %s is %+v, want %+v", job, h, want)
				}
			}
			if len(got.Paused) != 3 || len(got.Drained) != 2 || got.Drained["a"] != ada || got.Drained["b"] != bob {
				t.Errorf("Steering() = %+v, want %+v", got, was)
			}
			if s := t.state(); s.Pause == nil || s.Pause.By != ada {
				t.Errorf("State() = %+v, want the job's own pause too", s)
			}
			if ttl, ok := t.do("PTTL", "{t}:job:k").(int64); !ok || ttl < 3_500_000 {
				t.Errorf("PTTL of the record of k = %d ms, want an hour", ttl)
			}
			before := t.dump()
			restore(t, was)
			if after := t.dump(); after != before {
				t.Errorf("another host that restored changed the ledger from\n%sto\n%s", before, after)
			}
		})
		for what, set := range map[string]func(t *rig){
			"a pause set since": func(t *rig) { t.pauseFor(time.Minute, bob); t.pauseFor(time.Minute, bob, AllJobs) },
			"one set and resumed since": func(t *rig) {
				t.pauseFor(0, bob)
				t.resume("j", true)
				t.pauseFor(0, bob, AllJobs)
				t.resume(AllJobs, true)
			},
			"one set since that is over": func(t *rig) { t.olderPause(-3, -2); t.do("HSET", "{t}:paused", "from", "1", "until", "2") },
		} {
			t.fresh("does not overwrite "+what, func(t *rig) {
				set(t)
				before := t.dump()
				for _, job := range []string{"j", AllJobs} {
					restore(t, paused(job, Pause{By: ada, From: t.tick(-9), Until: t.tick(99)}))
				}
				if after := t.dump(); after != before {
					t.Errorf("Restore() changed the ledger from\n%sto\n%s", before, after)
				}
			})
		}
		t.fresh("does not overwrite a drain set since", func(t *rig) {
			if _, err := t.led.DrainHost(t.ctx(), "a", false, bob); err != nil {
				t.Fatal(err)
			}
			restore(t, Steering{Drained: map[string]By{"a": ada}})
			if got := t.steering().Drained["a"]; got != bob {
				t.Errorf("a is drained by %v, want bob", got)
			}
		})
		t.fresh("leaves out what has ended", func(t *rig) {
			restore(t, paused("j", Pause{By: ada, From: t.tick(-9), Until: t.tick(-1)}))
			restore(t, paused("j", Pause{By: ada, From: t.tick(-9), Until: t.now()}))
			if left := t.dump(); left != "" {
				t.Errorf("pauses that have ended left\n%s", left)
			}
		})
		t.fresh("keeps an end that is a moment away an end", func(t *rig) {
			now := t.now()
			s := paused("j", Pause{By: ada, From: t.tick(-1), Until: now.Add(time.Microsecond)})
			if err := t.led.Restore(t.ctx(), s, now, time.Hour); err != nil {
				t.Fatal(err)
			}
			if h := t.steering().Paused["j"]; !h.Ends() {
				t.Errorf("the pause is %+v, want one that ends", h)
			}
		})
		// A reason from before may hold anything: it is no ground to forget a pause.
		t.fresh("takes a reason as it finds it", func(t *rig) {
			odd := By{"ada", "one\n\x1b\"two\""}
			restore(t, paused("j", Pause{By: odd, From: t.tick(-1), Until: t.tick(99)}))
			if h := t.steering().Paused["j"]; h.By != odd {
				t.Errorf("the pause is by %q, want %q", h.By, odd)
			}
		})
	})
}

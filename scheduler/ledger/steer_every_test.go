package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rota/locking"
)

// A job that each host has for itself is paused on all of them by one word, which is said of none of them.
func TestPause_OnEveryHost(t *testing.T) {
	onEach(t, func(t *rig) {
		of := func(job string) JobState {
			t.Helper()
			s, err := t.led.State(t.ctx(), []string{job})
			if err != nil {
				t.Fatal(err)
			}
			return s[0]
		}
		t.fresh("also on one that comes later", func(t *rig) {
			t.win(t.claim(-1, ofJob("j@a"), onLock("j@a")))
			h := t.pauseFor(time.Hour, ada, EveryHost("j"))
			for _, job := range []string{"j@a", "j@b"} {
				t.want("paused", t.claim(0, ofJob(job), onLock(job)))
				if s := of(job); !s.Paused || s.Pause != nil || s.EveryPause == nil || *s.EveryPause != h || *s.PausedBy() != h {
					t.Errorf("State(%s) = %+v, want paused on every host by %+v", job, s, h)
				}
			}
			if s := of(EveryHost("j")); s.Pause == nil || *s.Pause != h || s.EveryPause != nil {
				t.Errorf("State(%s) = %+v, want paused by %+v", EveryHost("j"), s, h)
			}
			if got := t.steering().Paused; len(got) != 1 || got[EveryHost("j")] != h {
				t.Errorf("Steering().Paused = %v, want %+v of %s", got, h, EveryHost("j"))
			}
			for _, other := range []string{"j", "k@a", "jj@a"} {
				t.win(t.claim(0, ofJob(other), onLock(other)))
			}
			t.resume("j@a", false)
			t.want("paused", t.claim(0, ofJob("j@a"), onLock("j@a")))
			t.resume(EveryHost("j"), true)
			t.resume(EveryHost("j"), false)
			if s := of("j@a"); s.Paused || s.EveryPause != nil {
				t.Errorf("State(j@a) = %+v, want it not paused", s)
			}
		})
		t.fresh("by hand neither, unless by force", func(t *rig) {
			t.pauseFor(time.Hour, ada, EveryHost("j"))
			t.want("paused", t.manual(ofJob("j@a"), onLock("j@a")))
			t.win(t.manual(ofJob("j@a"), onLock("j@a"), func(c *Claim) { c.Force = true }))
		})
		t.fresh("of it and of one host: the one that ends last counts", func(t *rig) {
			t.pauseFor(time.Hour, ada, EveryHost("j"))
			long := t.pauseFor(2*time.Hour, bob, "j@a")
			if s := of("j@a"); *s.PausedBy() != long || s.EveryPause == nil {
				t.Errorf("State(j@a) = %+v, want it paused by both, and %+v to count", s, long)
			}
			t.resume(EveryHost("j"), true)
			t.want("paused", t.claim(0, ofJob("j@a"), onLock("j@a")))
			t.resume("j@a", true)
		})
		t.fresh("a foreign key is named", func(t *rig) {
			t.do("LPUSH", "{t}:job:j@*", "x")
			c := t.claim(0, ofJob("j@a"), onLock("j@a"))
			err := t.led.Claim(t.ctx(), []Claim{c})[0].Err
			if !errors.Is(err, locking.ErrConflict) || !strings.Contains(err.Error(), "{t}:job:j@*") {
				t.Errorf("Claim() = %v, want a conflict that names the key", err)
			}
			if s := of("j@a"); !errors.Is(s.Err, locking.ErrConflict) {
				t.Errorf("State().Err = %v, want a conflict", s.Err)
			}
			t.win(t.claim(0))
		})
	})
}

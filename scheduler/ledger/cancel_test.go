package ledger

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

func TestLedger_Cancel(t *testing.T) {
	onEach(t, func(t *rig) {
		cancel := func(t *rig, run string, want error) {
			t.Helper()
			if err := t.led.Cancel(t.ctx(), run, ada); !errors.Is(err, want) {
				t.Errorf("Cancel(%s) = %v, want %v", run, err, want)
			}
		}
		t.fresh("of a run that goes on: its host is told", func(t *rig) {
			hint := t.hints()
			g := t.win(t.claim(0))
			ttl := t.do("PTTL", "{t}:run:"+g.Claim.Run).(int64)
			cancel(t, g.Claim.Run, nil)
			if got := hint(); got != "cancel "+g.Claim.Run {
				t.Errorf("the hint is %q, want cancel %s", got, g.Claim.Run)
			}
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; !a.Renewed || a.Cancel != "ada: upgrade" {
				t.Errorf("Renew() = %+v, want renewed, and who cancels and why", a)
			}
			ms, err := strconv.ParseInt(t.do("HGET", "{t}:run:"+g.Claim.Run, "cancel_at").(string), 10, 64)
			if err != nil || !t.near(time.UnixMilli(ms), 0) {
				t.Errorf("cancel_at = %d, %v, want now by Redis' clock", ms, err)
			}
			if now := t.do("PTTL", "{t}:run:"+g.Claim.Run).(int64); now > ttl || now < ttl-10_000 {
				t.Errorf("the run's key expires in %d ms after the cancel, want as before, %d", now, ttl)
			}
			cancel(t, g.Claim.Run, nil)
			t.end(g, "cancelled")
			cancel(t, g.Claim.Run, ErrEnded)
		})
		t.fresh("of one of several that overlap", func(t *rig) {
			old, young := t.win(t.claim(-1, parallel)), t.win(t.claim(0, parallel))
			cancel(t, old.Claim.Run, nil)
			a := t.led.Renew(t.ctx(), []*Grant{old, young})
			if a[0].Cancel == "" || a[1].Cancel != "" {
				t.Errorf("Renew() = %+v, want the older one cancelled alone", a)
			}
		})
		ended := map[string]func(t *rig, g *Grant){
			"that succeeded":                     func(t *rig, g *Grant) { t.end(g, "succeeded") },
			"whose lease expired":                func(t *rig, g *Grant) { t.expire(g.Claim) },
			"of which Redis knows the end alone": func(t *rig, g *Grant) { t.do("FLUSHALL"); t.end(g, "failed") },
			"whose outcome came late":            func(t *rig, g *Grant) { t.expire(g.Claim); t.end(g, "failed") },
			"whose lock is another's by now":     func(t *rig, g *Grant) { t.expire(g.Claim); t.win(t.claim(0, by("b"))) },
			"whose lock is another job's by now": func(t *rig, g *Grant) { t.expire(g.Claim); t.win(t.claim(0, ofJob("k"))) },
			"whose lock nobody's job has by now": func(t *rig, g *Grant) { t.do("SET", "{t}:lock:j", "ab|7|9000|db-9", "PX", 9000) },
		}
		for name, end := range ended {
			t.fresh("of a run "+name, func(t *rig) {
				g := t.win(t.claim(-1))
				end(t, g)
				cancel(t, g.Claim.Run, ErrEnded)
				if v := t.do("HGET", "{t}:run:"+g.Claim.Run, "cancel"); v != nil {
					t.Errorf("HGET run cancel = %v, want nothing written", v)
				}
			})
		}
		t.fresh("of one that nobody knows, or not any more", func(t *rig) {
			cancel(t, "nonsense", ErrNoRun)
			cancel(t, "", ErrNoRun)
			trimmed := t.win(t.claim(0))
			t.do("DEL", "{t}:run:"+trimmed.Claim.Run)
			cancel(t, trimmed.Claim.Run, ErrNoRun)
			t.expire(trimmed.Claim)
			given := t.claim(0, ofJob("k"), onLock("k"))
			t.win(given)
			t.abandon(given)
			cancel(t, given.Run, ErrNoRun)
			for _, run := range []string{"nonsense", "", trimmed.Claim.Run} {
				if n := t.do("EXISTS", "{t}:run:"+run); n != int64(0) {
					t.Errorf("Cancel(%q) left a key, which nothing would delete", run)
				}
			}
		})
		t.fresh("refuses a reason that cannot be kept", func(t *rig) {
			g := t.win(t.claim(0))
			if err := t.led.Cancel(t.ctx(), g.Claim.Run, By{"ada", "\x1b"}); !errors.As(err, new(*ByError)) {
				t.Errorf("Cancel() for ESC = %v, want a ByError", err)
			}
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; a.Cancel != "" {
				t.Errorf("Renew() = %+v, want no cancel", a)
			}
		})
		t.fresh("names a lock that is none", func(t *rig) {
			g := t.win(t.claim(0))
			t.do("SET", "{t}:lock:j", "x")
			if err := t.led.Cancel(t.ctx(), g.Claim.Run, ada); !errors.Is(err, locking.ErrConflict) {
				t.Errorf("Cancel() = %v, want ErrConflict", err)
			}
		})
	})
}

// The rights that docs/operations.md names are enough, and so are fewer: hints are only hints.
func TestLedger_SteeringWithTheRightsOfADaemon(tt *testing.T) {
	s := redistest.Server(tt)
	admin := s.Client()
	err := admin.Do(tt.Context(), "ACL", "SETUSER", "rota", "on", "nopass", "resetkeys", "~{t}:*", "resetchannels", "-@all",
		"+@connection", "+@scripting", "+@read", "+@write", "+@stream", "+@pubsub", "+time").Err()
	if err != nil {
		tt.Fatal(err)
	}
	opts := *admin.Options()
	opts.Username, opts.Password = "rota", "any"
	client := redis.NewClient(&opts)
	defer func() { _ = client.Close() }()
	t := newRig(tt, client)

	g := t.win(t.claim(0))
	if err := t.led.Cancel(t.ctx(), g.Claim.Run, ada); err != nil {
		t.Errorf("Cancel() = %v, want no error", err)
	}
	t.pauseFor(time.Hour, ada)
	t.pauseFor(time.Hour, ada, AllJobs)
	t.resume("j", true)
	t.resume(AllJobs, true)
	for _, undo := range []bool{false, true} {
		if ok, err := t.led.DrainHost(t.ctx(), "a", undo, ada); !ok || err != nil {
			t.Errorf("DrainHost(undo %t) = %t, %v, want true", undo, ok, err)
		}
	}
	if _, _, err := t.led.Reset(t.ctx(), "j"); err != nil {
		t.Errorf("Reset() = %v, want no error", err)
	}
}

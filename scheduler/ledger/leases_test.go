package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestLedger_Leases(t *testing.T) {
	onEach(t, func(t *rig) {
		if all, err := t.led.Leases(t.ctx()); err != nil || len(all) != 0 {
			t.Errorf("Leases of nothing: got %v, %v", all, err)
		}
		g := t.win(t.claim(0))
		t.do("SET", "{t}:lock:backup", "ab|7|9000|db-9//lock:17", "PX", 8000)
		t.do("SET", "{t}:lock:backup:wait", "db-8", "PX", 8000)
		t.do("SET", "{t}:lock:backup:end", "ab stop", "PX", 8000)
		t.do("SET", "{t}:lock:backup:fence", "7", "PX", 8000)
		t.do("RPUSH", "{t}:lock:spoilt", "x")
		t.do("SET", "{other}:lock:another", "ab|7|9000|db-9", "PX", 8000)
		for i := range 1200 { // more than a page
			t.do("SET", fmt.Sprintf("{t}:lock:many-%04d", i), "ab|7|9000|h//x", "PX", 60000)
		}
		all, err := t.led.Leases(t.ctx())
		if err != nil || len(all) != 1203 {
			t.Fatalf("Leases: got %d, %v, want 1203", len(all), err)
		}
		backup, own, spoilt := all[0], all[1], all[len(all)-1]
		if backup.Lock != "backup" || backup.Token != 7 || backup.Host != "db-9" || backup.Job != "" || backup.Run != "" ||
			backup.TTL != 9*time.Second || backup.Left <= 0 || backup.Left > 8*time.Second {
			t.Errorf("of a command: got %+v", backup)
		}
		if own.Lock != "j" || own.Token != g.Fence || own.Host != g.Claim.Host || own.Job != "j" || own.Run != g.Claim.Run {
			t.Errorf("of a run: got %+v", own)
		}
		if spoilt.Lock != "spoilt" || spoilt.Token != 0 || spoilt.Host != "" {
			t.Errorf("of a list: got %+v, want no token", spoilt)
		}
	})
}

func TestLedger_AskToEnd(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a free lock", func(t *rig) {
			if lease, err := t.led.AskToEnd(t.ctx(), "j", ada); err != nil || lease != nil {
				t.Errorf("AskToEnd: got %v, %v, want nothing", lease, err)
			}
			if done, err := t.led.TakeAway(t.ctx(), "j", 7); err != nil || done {
				t.Errorf("TakeAway: got %t, %v, want nothing", done, err)
			}
		})
		t.fresh("a run is cancelled", func(t *rig) {
			g := t.win(t.claim(0))
			lease, err := t.led.AskToEnd(t.ctx(), "j", ada)
			if err != nil || lease == nil || lease.Token != g.Fence || lease.Run != g.Claim.Run {
				t.Fatalf("AskToEnd: got %+v, %v, want the lease of %s", lease, err, g.Claim.Run)
			}
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; a.Cancel != "ada: upgrade" || a.End != "" {
				t.Errorf("Renew: got %+v, want it cancelled, and nothing else", a)
			}
		})
		t.fresh("a command is asked", func(t *rig) {
			t.do("SET", "{t}:lock:backup", "ab|7|9000|db-9//lock:17", "PX", 8000)
			for range 2 {
				if lease, err := t.led.AskToEnd(t.ctx(), "backup", ada); err != nil || lease == nil || lease.Token != 7 {
					t.Errorf("AskToEnd: got %+v, %v, want the lease", lease, err)
				}
			}
			if v := t.do("GET", "{t}:lock:backup:end"); v != "ab ada: upgrade" {
				t.Errorf("what is asked: got %v", v)
			}
			if ms := t.do("PTTL", "{t}:lock:backup:end").(int64); ms <= 8000 || ms > 17000 {
				t.Errorf("it is kept for %d ms, want as long as the lease and once more its length", ms)
			}
		})
		t.fresh("only the lease that was meant is taken away", func(t *rig) {
			t.do("SET", "{t}:lock:backup", "ab|7|9000|db-9//lock:17", "PX", 8000)
			if done, err := t.led.TakeAway(t.ctx(), "backup", 6); err != nil || done {
				t.Errorf("TakeAway with another token: got %t, %v", done, err)
			}
			if lease, err := t.led.LeaseOf(t.ctx(), "backup"); err != nil || lease == nil || lease.Token != 7 {
				t.Errorf("LeaseOf: got %+v, %v, want it untouched", lease, err)
			}
			if done, err := t.led.TakeAway(t.ctx(), "backup", 7); err != nil || !done {
				t.Errorf("TakeAway: got %t, %v", done, err)
			}
			if lease, err := t.led.LeaseOf(t.ctx(), "backup"); err != nil || lease != nil {
				t.Errorf("LeaseOf: got %+v, %v, want none", lease, err)
			}
		})
		if _, err := t.led.AskToEnd(t.ctx(), "j", By{Who: "a\x1b"}); err == nil {
			t.Error("AskToEnd by somebody who cannot be shown: got no error")
		}
		t.do("RPUSH", "{t}:lock:spoilt", "x")
		if _, err := t.led.AskToEnd(t.ctx(), "spoilt", ada); err == nil || errors.Is(err, ErrNoRun) {
			t.Errorf("AskToEnd of a list: got %v, want an error", err)
		}
	})
}

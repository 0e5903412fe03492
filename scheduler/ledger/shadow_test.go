package ledger

import (
	"strings"
	"testing"
	"time"
)

// A shadow has the keys of a namespace beside the fleet's, in its slot, and leaves none for long.
func TestLedger_ShadowIsBesideTheFleet(t *testing.T) {
	onEach(t, func(t *rig) {
		shadow, err := New(t.client, Options{Namespace: "t", Shadow: "dry.1"})
		if err != nil {
			t.Fatal(err)
		}
		real := *t
		real.win(t.claim(0))
		before := map[string]string{}
		for _, k := range t.keys() {
			before[k] = t.client.Dump(t.ctx(), k).Val()
		}

		t.led = shadow
		year := func(c *Claim) { c.Expire, c.Table = 365*24*time.Hour, "tb" }
		t.end(t.win(t.claim(0, year)), "failed")
		g := t.win(t.claim(-1, year, func(c *Claim) { c.Job, c.Lock, c.Since = "other", "other", c.Tick.Add(-time.Hour) }))
		if err := shadow.Abandon(t.ctx(), &g.Claim, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := shadow.Beat(t.ctx(), Host{Name: "a"}, "x", "0"); err != nil {
			t.Fatal(err)
		}
		if err := shadow.Touch(t.ctx(), []string{"j", "other"}, 0, func(string) time.Duration { return 365 * 24 * time.Hour }); err != nil {
			t.Fatal(err)
		}
		shadows := 0
		for _, k := range t.keys() {
			if dump, ok := before[k]; ok {
				if now := t.client.Dump(t.ctx(), k).Val(); now != dump {
					t.Errorf("%s changed", k)
				}
				delete(before, k)
				continue
			}
			if !strings.HasPrefix(k, shadow.Prefix()) || !strings.HasPrefix(k, "{t}~dry.1:") {
				t.Errorf("key %s is neither the fleet's nor begins with %s", k, shadow.Prefix())
				continue
			}
			shadows++
			if ttl := t.client.PTTL(t.ctx(), k).Val(); ttl <= 0 || ttl > ShadowKept {
				t.Errorf("PTTL %s = %s, want above 0 and %s at most", k, ttl, ShadowKept)
			}
		}
		if len(before) > 0 || shadows < 8 {
			t.Errorf("keys of the fleet that went: %d, want none; of the shadow: %d, want 8 or more", len(before), shadows)
		}
	})
}

// What names a shadow cannot name a namespace: the two never meet.
func TestNew_ShadowNames(t *testing.T) {
	r := onServer(t)
	for _, o := range []Options{{Namespace: "t~dry"}, {Namespace: "t", Shadow: "a~b"}, {Namespace: "t", Shadow: "a:b"}, {Namespace: "t", Shadow: "a}b"}} {
		if _, err := New(r.client, o); err == nil {
			t.Errorf("New(%+v) has no fault, want one", o)
		}
	}
}

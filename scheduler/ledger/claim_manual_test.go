package ledger

import (
	"testing"
	"time"
)

// request asks for a manual run of job "j".
func (r *rig) request(force bool) Request {
	r.Helper()
	q := Request{Job: "j", Who: "ada", Force: force}
	id, err := r.led.Ask(r.ctx(), q)
	if err != nil {
		r.Fatalf("Ask() = %v, want no error", err)
	}
	q.ID = id
	return q
}

// manual is a claim for a manual run that was just asked for.
func (r *rig) manual(change ...func(*Claim)) Claim {
	r.Helper()
	return r.answering(r.request(false), change...)
}

func (r *rig) answering(q Request, change ...func(*Claim)) Claim {
	c := r.claim(0, kind(Manual))
	c.Tick, c.Prev, c.Request, c.Force = q.Asked(), time.Time{}, q.ID, q.Force
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestClaim_Manual(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("one host wins a request, the cursor stays where it is", func(t *rig) {
			t.ran(-1)
			q := t.request(false)
			if lag := t.now().Sub(q.Asked()); lag < 0 || lag > 5*time.Second {
				t.Errorf("Asked() = %v, want now by Redis' clock", q.Asked())
			}
			g := t.win(t.answering(q))
			t.want("already", t.answering(q, by("b")))
			t.end(g, "succeeded")
			if s := t.state(); !s.Cursor.Equal(t.tick(-1)) {
				t.Errorf("State().Cursor = %v, want tick -1", s.Cursor)
			}
			t.want("won", t.claim(0))
			t.wantHistory("-1 succeeded scheduled on a", "0 running scheduled on a", "manual succeeded manual on a")
			if e := t.only(Manual); e.Request != q.ID {
				t.Errorf("Request = %q, want %q", e.Request, q.ID)
			}
		})
		t.fresh("a held lock refuses, and the ledger says so", func(t *rig) {
			g := t.win(t.claim(-1, overlap("queue")))
			c := t.manual(overlap("queue"), by("b"))
			t.want("held skipped", c)
			t.want("already", c) // it is answered, also when the reply was lost
			t.wantHistory("-1 running scheduled on a", "manual skipped: held by a")
			if e := t.only(Manual); e.Request != c.Request {
				t.Errorf("Request of the refusal = %q, want %q", e.Request, c.Request)
			}
			t.end(g, "succeeded")
			if s := t.state(); !s.Waiting.IsZero() {
				t.Errorf("State().Waiting = %v, want none: a manual run never waits", s.Waiting)
			}
		})
		t.fresh("a request that was withdrawn is nobody's", func(t *rig) {
			c := t.manual()
			if gone, err := t.led.Withdraw(t.ctx(), c.Request); !gone || err != nil {
				t.Fatalf("Withdraw() = %v, %v, want true", gone, err)
			}
			t.want("already", c)
			t.wantHistory()
		})
		t.fresh("a request that was taken cannot be withdrawn", func(t *rig) {
			c := t.manual()
			t.win(c)
			if gone, err := t.led.Withdraw(t.ctx(), c.Request); gone || err != nil {
				t.Fatalf("Withdraw() = %v, %v, want false", gone, err)
			}
		})
		t.fresh("a drained host leaves the request to the others", func(t *rig) {
			t.do("HSET", "{t}:drain", "a", "1")
			q := t.request(false)
			t.want("drained", t.answering(q))
			t.want("won", t.answering(q, by("b")))
		})
		t.fresh("a cursor in the future does not matter to it", func(t *rig) {
			t.do("HSET", "{t}:job:j", "tick", t.tick(60).UnixMilli())
			t.want("won", t.manual())
		})
		t.fresh("beyond its patience nobody runs it", func(t *rig) {
			old := t.now().Add(-RequestPatience - time.Second)
			id := t.do("XADD", "{t}:requests", old.UnixMilli(), "job", "j").(string)
			t.want("late skipped", t.answering(Request{ID: id, Job: "j"}))
			t.wantHistory("manual skipped: not taken within 10 s")
			if n := t.do("XLEN", "{t}:requests"); n != int64(0) {
				t.Errorf("XLEN requests = %v, want 0: it is answered", n)
			}
		})
		t.fresh("its run excludes the next tick", func(t *rig) {
			t.win(t.manual())
			t.want("held skipped", t.claim(0))
		})
	})
}

func TestClaim_ManualForce(t *testing.T) {
	onEach(t, func(t *rig) {
		barred := func(c *Claim) { c.Barred = "disabled" }
		t.fresh("a disabled job is refused without force", func(t *rig) {
			t.want("paused", t.manual(barred))
			t.wantHistory("manual skipped: disabled")
			t.want("won", t.answering(t.request(true), barred))
		})
		t.fresh("so is a paused one", func(t *rig) {
			t.do("HSET", "{t}:job:j", "pause_from", t.tick(-1).UnixMilli())
			t.want("paused", t.manual())
			t.wantHistory("manual skipped: paused")
			t.want("won", t.answering(t.request(true)))
		})
		t.fresh("force does not break a lock", func(t *rig) {
			t.win(t.claim(0))
			t.want("held skipped", t.answering(t.request(true)))
		})
	})
}

// A manual run may take the place of what the record had open; then that is accounted for.
func TestClaim_ManualOverwrites(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("an open tick is missed", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.abandon(c)
			t.win(t.manual())
			t.want("already", t.claim(0))
			t.wantHistory("0 missed: given back by a (draining), and not taken again in time", "manual running manual on a")
		})
		t.fresh("a rerun is superseded", func(t *rig) {
			g := t.win(t.claim(0, reruns))
			t.expire(g.Claim)
			t.win(t.manual(reruns))
			t.want("already", t.claim(0, reruns))
			t.wantHistory("0 skipped: its rerun was superseded by a newer run", "0 lost scheduled on a: the lease ended and a reported no outcome", "manual running manual on a")
		})
		t.fresh("a waiting tick goes on waiting", func(t *rig) {
			g := t.win(t.claim(-1, overlap("queue")))
			t.want("held waiting", t.claim(0, overlap("queue")))
			t.end(g, "succeeded")
			g = t.win(t.manual(overlap("queue")))
			t.end(g, "succeeded")
			t.want("won", t.claim(0, overlap("queue")))
		})
		t.fresh("a lost manual run is not run again", func(t *rig) {
			g := t.win(t.manual(reruns))
			t.expire(g.Claim)
			t.win(t.claim(0, reruns))
			t.wantHistory("0 running scheduled on a", "manual lost manual on a")
		})
	})
}

// only is the one entry of this kind in the history.
func (r *rig) only(kind Kind) Entry {
	r.Helper()
	entries, err := r.led.History(r.ctx(), Query{Jobs: []string{"j"}})
	if err != nil {
		r.Fatal(err)
	}
	var found []Entry
	for _, e := range entries {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		r.Fatalf("History() has %d entries of kind %s, want 1", len(found), kind)
	}
	return found[0]
}

package ledger

import "time"

// run is one that was started.
type run struct {
	grant Grant
	trust time.Duration // it is dead by then, unless a renewal moves it
	ended bool
}

// giveBack abandons until that is confirmed.
func (h *daemon) giveBack(c Claim, why string) {
	w, done := h.w, false
	w.seen["given back"]++
	h.gave[c.Job] = w.now
	var send func()
	send = func() {
		if done {
			return
		}
		w.call(h, func() func() {
			if err := w.led.Abandon(w.t.Context(), &c, why); err != nil {
				w.fault("Abandon(%s) = %v", c.Run, err)
			}
			w.trace("redis: %s gives back %s tick %s (%s)", h.name, c.Run, w.since(c.Tick), why)
			w.abandoned[c.Run] = true
			w.inspect()
			return func() { done = true }
		})
		h.timer(modelTimeout, send)
	}
	send()
}

// start begins a run, and all that holds it.
func (h *daemon) start(r *run) {
	w := h.w
	id := r.grant.Claim.Run
	h.runs[id] = r
	w.started(h, r)
	length := []time.Duration{20 * time.Millisecond, modelGap / 4, modelGap * 2 / 3, modelGap + modelGap/3, modelLong}[w.rng.IntN(5)]
	if w.quiet {
		length = w.upTo(modelGap / 4)
	}
	outcome := []string{"succeeded", "succeeded", "failed", "interrupted"}[w.rng.IntN(4)]
	h.timer(length, func() { h.end(r, outcome) })
	h.timer(modelRenew, func() { h.renew(r) })
	h.watch(r)
}

// watch ends the run at its trust deadline, whatever the host does: the warden does that.
func (h *daemon) watch(r *run) {
	w, boot := h.w, h.boots
	w.after(r.trust-w.now, func() {
		switch {
		case r.ended || boot != h.boots:
		case w.now < r.trust:
			h.watch(r)
		default:
			w.dead(r)
			h.awake(boot, func() { h.report(r, "lost") })
		}
	})
}

func (h *daemon) renew(r *run) {
	w := h.w
	if r.ended {
		return
	}
	sent := w.now
	w.call(h, func() func() {
		a := w.led.Renew(w.t.Context(), []*Grant{&r.grant})[0]
		if a.Err != nil {
			w.fault("Renew(%s) = %v", r.grant.Claim.Run, a.Err)
		}
		return func() {
			switch {
			case r.ended:
			case !a.Renewed:
				h.end(r, "lost")
			case a.End != "":
				w.toldToEnd(r)
				h.end(r, "cancelled")
			default:
				r.trust = max(r.trust, sent+modelTTL-modelMargin)
			}
		}
	})
	h.timer(modelRenew, func() { h.renew(r) })
}

func (h *daemon) end(r *run, outcome string) {
	if !r.ended {
		h.w.dead(r)
		h.report(r, outcome)
	}
}

// report sends the outcome until it is confirmed.
func (h *daemon) report(r *run, outcome string) {
	w, done := h.w, false
	e := Ending{Outcome: outcome, Attempt: 1, Ended: w.time()}
	var send func()
	send = func() {
		if done {
			delete(h.runs, r.grant.Claim.Run)
			return
		}
		w.call(h, func() func() {
			held, err := w.led.Finish(w.t.Context(), &r.grant, e)
			if err != nil {
				w.fault("Finish(%s) = %v", r.grant.Claim.Run, err)
			}
			w.trace("redis: %s ended %s, %s, held %v", h.name, r.grant.Claim.Run, outcome, held)
			w.finished(r, outcome)
			w.inspect()
			return func() { done = true }
		})
		h.timer(modelTimeout, send)
	}
	send()
}

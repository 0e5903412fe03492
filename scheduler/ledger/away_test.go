package ledger

import (
	"errors"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/locking"
)

// Every call says the same of a Redis that is not ready, or does not answer, whether it is a
// script or a plain command: asking again may help.
func TestLedger_ARedisThatIsNotReadyIsUnavailable(t *testing.T) {
	by := By{Who: "ada"}
	calls := map[string]func(t *rig) error{
		"claim":    func(t *rig) error { return t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err },
		"beat":     func(t *rig) error { _, err := t.led.Beat(t.ctx(), Host{Name: "a"}, "x", "0"); return err },
		"leave":    func(t *rig) error { return t.led.Leave(t.ctx(), "a", "x") },
		"hosts":    func(t *rig) error { _, err := t.led.Hosts(t.ctx()); return err },
		"ask":      func(t *rig) error { _, err := t.led.Ask(t.ctx(), Request{Job: "j"}); return err },
		"withdraw": func(t *rig) error { _, err := t.led.Withdraw(t.ctx(), "1-1"); return err },
		"answered": func(t *rig) error { _, _, err := t.led.Answered(t.ctx(), Request{ID: "1-1", Job: "j"}); return err },
		"history":  func(t *rig) error { _, err := t.led.History(t.ctx(), Query{Jobs: []string{"j"}}); return err },
		"recent":   func(t *rig) error { _, _, err := t.led.Recent(t.ctx(), []string{"j"}, 1); return err },
		"run":      func(t *rig) error { _, err := t.led.Run(t.ctx(), "r"); return err },
		"output":   func(t *rig) error { _, err := t.led.Output(t.ctx(), "r"); return err },
		"state":    func(t *rig) error { _, err := t.led.State(t.ctx(), []string{"j"}); return err },
		"cursors":  func(t *rig) error { _, _, err := t.led.Cursors(t.ctx(), []string{"j"}); return err },
		"taken":    func(t *rig) error { _, err := t.led.Taken(t.ctx(), "tb", time.Unix(60, 0)); return err },
		"touch": func(t *rig) error {
			return t.led.Touch(t.ctx(), []string{"j"}, time.Hour, func(string) time.Duration { return time.Hour })
		},
		"steering": func(t *rig) error { _, err := t.led.Steering(t.ctx()); return err },
		"pause":    func(t *rig) error { _, err := t.led.Pause(t.ctx(), "j", 0, by, time.Hour); return err },
		"drain":    func(t *rig) error { _, err := t.led.DrainHost(t.ctx(), "a", false, by); return err },
		"undrain":  func(t *rig) error { _, err := t.led.DrainHost(t.ctx(), "a", true, by); return err },
		"restore": func(t *rig) error {
			return t.led.Restore(t.ctx(), Steering{Drained: map[string]By{"a": by}}, time.Now(), time.Hour)
		},
		"cancel": func(t *rig) error { return t.led.Cancel(t.ctx(), "r", by) },
		"reset":  func(t *rig) error { _, _, err := t.led.Reset(t.ctx(), "j"); return err },
	}
	m, _ := redistest.InBubble(t)
	p := redistest.PipeProxy(t, m.Dial)
	r := newRig(t, p.Client())
	for name, call := range calls {
		for _, fault := range []struct {
			make   func()
			mayRun bool
		}{
			{func() { p.Reject(-1, nil, "READONLY You can't write against a read only replica.") }, false},
			{func() {
				p.Reject(-1, nil, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
			}, false},
			{func() { p.Reject(-1, nil, "OOM command not allowed when used memory > 'maxmemory'.") }, false},
			{func() { p.DropReplies(-1, nil) }, true},
		} {
			fault.make()
			err := call(r)
			if !errors.Is(err, locking.ErrUnavailable) || locking.MayHaveRun(err) != fault.mayRun {
				t.Errorf("%s: %v; matches ErrUnavailable: %t, may have run: %t, want true, %t",
					name, err, errors.Is(err, locking.ErrUnavailable), locking.MayHaveRun(err), fault.mayRun)
			}
			p.Heal()
		}
	}
	for name, call := range calls {
		p.Reject(-1, nil, "ERR Invalid stream ID specified as stream command argument")
		if err := call(r); !errors.Is(err, locking.ErrTooOld) || errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrTooOld", name, err)
		}
		p.Heal()
	}
	if err := calls["hosts"](r); err != nil {
		t.Errorf("hosts after the faults: %v", err)
	}
}

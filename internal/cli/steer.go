package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"rota/locking"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// What the commands have in common that change how the fleet goes on: who says so, about what,
// and what to say when it is not known whether Redis heard it.

// reasonHelp ends the help of every --reason.
const reasonHelp = "; at most 200 bytes, on one line"

// by says who steers, the person at this terminal, and why. A reason that cannot be shown is
// refused rather than cleaned: what others read is what was written.
func (s *session) by(reason string) (ledger.By, error) {
	by := ledger.By{Who: asker(s.cfg.Host.Name), Why: strings.TrimSpace(reason)}
	if e, ok := errors.AsType[*ledger.ByError](by.Check()); ok {
		return by, usage("--reason: %s", e.Problem)
	}
	return by, nil
}

// asker names who asks for something. A name that would not be kept, or that would do something
// to a terminal, gives way to the number.
func asker(host string) string {
	id := strconv.Itoa(os.Getuid()) + "@" + host
	u, err := user.Current()
	if err != nil {
		return id
	}
	if by := (ledger.By{Who: u.Username + "@" + host}); by.Check() == nil {
		return by.Who
	}
	return id
}

// change is ask for a call that writes. A Redis that did not answer may have heard it.
func change[T any](ctx context.Context, s *session, call func(context.Context) (T, error)) (T, error) {
	unsure := false
	v, err := ask(ctx, s, func(ctx context.Context) (T, error) {
		v, err := call(ctx)
		unsure = locking.MayHaveRun(err)
		return v, err
	})
	if e, ok := errors.AsType[*exitError](err); ok && unsure {
		e.hint = "if it arrived it holds all the same: 'rota status' tells, and saying it again does no harm"
	}
	return v, err
}

// target is what a pause is about: a job of the table, on one host or on every one, or every job. To
// resume, a job that is in the table no more.
type target struct {
	job  ref
	gone string // the ledger's name of a job that is not in the table
}

// target is what the arguments name.
func (s *session) target(args []string, all bool) (target, error) {
	switch {
	case all && len(args) > 0:
		return target{}, usage("name a job or say --all, not both")
	case all:
		return target{}, nil
	case len(args) == 0:
		return target{}, usage("name a job, or say --all")
	}
	r, err := findRef(s.cfg, args[0])
	return target{job: r}, err
}

// all tells whether every job is meant.
func (t target) all() bool { return t.job.Job == nil && t.gone == "" }

// every tells whether a job is meant that runs on every host, on all of them.
func (t target) every() bool { return !t.all() && t.name() == ledger.EveryHostOf(t.name()) }

// name is the ledger's.
func (t target) name() string {
	switch {
	case t.all():
		return ledger.AllJobs
	case t.job.Job == nil:
		return t.gone
	}
	return t.job.pauseKey()
}

// arg is how a command line names it.
func (t target) arg() string {
	switch {
	case t.all():
		return "--all"
	case t.every():
		name, _, _ := strings.Cut(t.name(), "@")
		return name
	}
	return t.name()
}

func (t target) String() string {
	switch {
	case t.all():
		return "every job"
	case t.every():
		return t.arg() + " on every host"
	}
	return t.name()
}

// own is the pause of the target itself.
func (t target) own(state *ledger.JobState) *ledger.Pause {
	if t.all() {
		return state.FleetPause
	}
	return state.Pause
}

// expiry is how long the record of the target outlives its pause: as long as the daemons keep
// it, or the pause of a job that is due once a year would take its record with it.
func (t target) expiry(s *session, now time.Time) time.Duration {
	var rule *schedule.Schedule
	if t.job.Job != nil {
		rule = t.job.Schedule
	}
	return scheduler.Expiry(rule, s.cfg.History.MaxAge, now)
}

// state reads what the ledger knows of the target. No job is called as the whole fleet is, so
// of that it is its pause alone.
func (t target) state(ctx context.Context, s *session) (ledger.JobState, error) {
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) {
		return s.led.State(ctx, []string{t.name()})
	})
	if err != nil {
		return ledger.JobState{}, err
	}
	return states[0], s.explain(states[0].Err)
}

// pausedText says of a pause by whom it is, until when, and why. until is how its end is to be
// written; it is not used for a pause that has none.
func pausedText(h *ledger.Pause, until string) string {
	text := "paused " + byUntil(h, until)
	if h.Why != "" {
		text += ": " + h.Why
	}
	return plain(text)
}

func byUntil(h *ledger.Pause, until string) string {
	if !h.Ends() {
		until = "resumed"
	}
	if h.Who == "" {
		return "until " + until
	}
	return "by " + h.Who + " until " + until
}

// answer prints what a command did: one object, or a line.
func (a *app) answer(asJSON bool, object any, format string, args ...any) error {
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(object)
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// pauseAnswer is what pause and resume say to scripts: how it stands now, as in status.
type pauseAnswer struct {
	Job    *string       `json:"job"` // null: every job
	Paused bool          `json:"paused"`
	Pause  *ledger.Pause `json:"pause"`
}

func (t target) answer(h *ledger.Pause) pauseAnswer {
	out := pauseAnswer{Paused: h != nil, Pause: h}
	if !t.all() {
		out.Job = new(t.arg())
	}
	return out
}

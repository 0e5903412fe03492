package ledger

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

//go:embed pause.lua
var pauseBody string

//go:embed reset.lua
var resetBody string

// AllJobs names every job of the fleet to [Ledger.Pause] and [Ledger.Resume].
const AllJobs = "-"

// Pause holds a job's ticks back, with [EveryHost] those of a job on every host, or with [AllJobs] the
// whole fleet's, for as long as length says, 0: until resumed. Pausing what is paused sets its end, who
// and why anew; it began when it first did. So did a job's pause if the one before has ended and no host
// has recorded its ticks yet; of many jobs the last eight that ended are remembered until each job has
// recorded its own.
// Runs are not touched. expire is of the job's record, counted from the pause's end; what
// is kept longer already stays.
//
// A tick that is due at the instant at which the pause begins is inside, and one that is due when
// it ends is not.
//
// The length is rounded up to a whole millisecond. The error is a [*ByError] when by cannot be
// kept; one that matches [locking.ErrUnavailable] leaves it unknown whether the pause holds, and
// the call may be repeated.
func (l *Ledger) Pause(ctx context.Context, job string, length time.Duration, by By, expire time.Duration) (Pause, error) {
	if length < 0 {
		return Pause{}, fmt.Errorf("ledger: pause: length is %s, want 0 (until resumed) or more", length)
	}
	if err := by.Check(); err != nil {
		return Pause{}, err
	}
	r, err := l.callPause(ctx, job, "pause", length, by, expire)
	if err != nil {
		return Pause{}, err
	}
	h := Pause{By: by, From: r.instant(2), Until: r.instant(3)}
	return h, r.err
}

// Resume ends a pause. False: there was none. The end of the fleet's pause, or of that on every host,
// leaves jobs that are paused by themselves as they are, and the other way round. The ticks inside a pause are
// recorded with who paused; of by, who resumes, nothing is kept.
//
// Said again it changes nothing, so an error that matches [locking.ErrUnavailable], after which
// it is not known whether the pause has ended, is answered by asking again.
func (l *Ledger) Resume(ctx context.Context, job string, by By) (bool, error) {
	r, err := l.callPause(ctx, job, "resume", 0, by, 0)
	if err != nil {
		return false, err
	}
	return r.text(0) == "1", r.err
}

func (l *Ledger) callPause(ctx context.Context, job, verb string, length time.Duration, by By, expire time.Duration) (reply, error) {
	call := l.pauseCall(job, verb, length, by, expire)
	v, err := l.pause.Run(ctx, l.client, call.Keys, call.Args...)
	return l.readPause(verb, job, locking.Reply{Value: v, Err: err})
}

func (l *Ledger) pauseCall(job, verb string, length time.Duration, by By, expire time.Duration, more ...any) locking.Call {
	return locking.Call{
		// The script makes its keys of the prefix. Naming one sends it to the server that has their
		// slot, where there are several.
		Keys: []string{l.keys.paused()},
		Args: append([]any{l.keys.prefix, job, verb, locking.Millis(length), by.Who, by.Why, l.kept(expire).Milliseconds()}, more...),
	}
}

func (l *Ledger) readPause(verb, job string, rep locking.Reply) (reply, error) {
	if rep.Err != nil {
		return reply{}, fmt.Errorf("%s %q: %w", verb, job, rep.Err)
	}
	r := readReply(verb, job, rep.Value, 4)
	return r, r.err
}

// DrainHost tells a host to claim nothing any more, or with undo lets it claim again. False:
// there was nothing to undo. It holds until it is undone, over restarts of the host, and may be
// said before there is a host of that name.
//
// The error is a [*ByError] when by cannot be kept; undo keeps none. Both may be repeated.
func (l *Ledger) DrainHost(ctx context.Context, host string, undo bool, by By) (bool, error) {
	if undo {
		del := redis.NewIntCmd(ctx, "hdel", l.keys.drain(), host)
		_ = l.client.Process(ctx, unrepeated{del})
		if err := commandError(del); err != nil {
			return false, fmt.Errorf("drain %q: %w", host, err)
		}
		l.hint(ctx, "drain "+host)
		return del.Val() == 1, nil
	}
	if err := by.Check(); err != nil {
		return false, err
	}
	text, err := json.Marshal(by)
	if err != nil {
		return false, fmt.Errorf("ledger: drain: %w", err)
	}
	if err := commandError(l.client.HSet(ctx, l.keys.drain(), host, text)); err != nil {
		return false, fmt.Errorf("drain %q: %w", host, err)
	}
	l.hint(ctx, "drain "+host)
	return true, nil
}

// hint publishes; whoever misses it finds out with the next heartbeat, and until then the
// scripts answer as Redis has it.
func (l *Ledger) hint(ctx context.Context, text string) {
	_ = l.client.Publish(ctx, l.keys.events(), text).Err()
}

// Reset takes back a job's cursor to Redis' clock, if it lies ahead of that. It returns where it
// was, zero if there was none; false: it did not lie ahead. Ticks up to now count as decided: none
// of them is caught up. The instant since which the job's schedule is in force is taken back as
// well. It may be repeated after an error.
func (l *Ledger) Reset(ctx context.Context, job string) (was time.Time, ok bool, err error) {
	v, err := l.reset.Run(ctx, l.client, []string{l.keys.record(job)}, l.keys.prefix, job)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reset %q: %w", job, err)
	}
	r := readReply("reset", job, v, 3)
	ok, was = r.text(0) == "1", r.instant(2)
	return was, ok, r.err
}

// Urge makes the host of a run look now, instead of with the run's next renewal, whether somebody
// asks for its end. It is a hint: nothing depends on it.
func (l *Ledger) Urge(ctx context.Context, run string) { l.hint(ctx, "end "+run) }

package ledger

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed pause.lua
var pauseBody string

//go:embed reset.lua
var resetBody string

// By says who steers and why. It is kept with what was done, and shown to whoever asks.
type By struct {
	Who string `json:"who"`
	Why string `json:"why,omitempty"`
}

// String is "WHO: WHY", or who alone.
func (b By) String() string {
	if b.Why == "" {
		return b.Who
	}
	return b.Who + ": " + b.Why
}

// AllJobs names every job of the fleet to Pause and Resume.
const AllJobs = "-"

// Pause holds a job's ticks back, or with [AllJobs] the whole fleet's, for as long as length
// says, 0: until resumed. Pausing what is paused sets its end anew. Runs are not touched. It
// returns when the pause ends; zero: not by itself. expire is of the job's record.
func (l *Ledger) Pause(ctx context.Context, job string, length time.Duration, by By, expire time.Duration) (until time.Time, err error) {
	v, err := l.pause.Run(ctx, l.client, nil, l.keys.prefix, job, "pause", length.Milliseconds(), by.Who, by.Why, expire.Milliseconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("pause %q: %w", job, err)
	}
	r := readReply("pause", v, 4)
	until = r.instant(3)
	if length == 0 {
		until = time.Time{}
	}
	return until, r.err
}

// Resume ends a pause. False: there was none. The end of the fleet's pause leaves jobs that
// are paused by themselves as they are.
func (l *Ledger) Resume(ctx context.Context, job string, by By) (bool, error) {
	v, err := l.pause.Run(ctx, l.client, nil, l.keys.prefix, job, "resume", 0, by.Who, by.Why, 0)
	if err != nil {
		return false, fmt.Errorf("resume %q: %w", job, err)
	}
	r := readReply("resume", v, 4)
	return r.text(0) == "1", r.err
}

// DrainHost tells a host to claim nothing any more, or with undo lets it claim again. False:
// there was nothing to undo. It holds until it is undone, over restarts of the host.
func (l *Ledger) DrainHost(ctx context.Context, host string, undo bool, by By) (bool, error) {
	if undo {
		n, err := l.client.HDel(ctx, l.keys.drain(), host).Result()
		if err != nil {
			return false, fmt.Errorf("drain %q: %w", host, err)
		}
		return n == 1, nil
	}
	text, err := json.Marshal(by)
	if err != nil {
		return false, fmt.Errorf("ledger: drain: %w", err)
	}
	if err := l.client.HSet(ctx, l.keys.drain(), host, text).Err(); err != nil {
		return false, fmt.Errorf("drain %q: %w", host, err)
	}
	l.hint(ctx, "drain "+host)
	return true, nil
}

// Hold is a pause as it stands in Redis.
type Hold struct {
	By
	From  time.Time
	Until time.Time // far in the future if it does not end by itself
}

// Steering is what people have set and Redis remembers. Every heartbeat brings it, so that the
// hosts can tell a Redis that forgot.
type Steering struct {
	Drained map[string]By   // hosts told to claim nothing
	Paused  map[string]Hold // by job; under [AllJobs] the fleet's. Some may have ended
}

func readSteering(drain, paused map[string]string) Steering {
	s := Steering{Drained: map[string]By{}, Paused: map[string]Hold{}}
	for host, text := range drain {
		var by By
		_ = json.Unmarshal([]byte(text), &by) // whoever wrote it: the host is drained all the same
		s.Drained[host] = by
	}
	hold := func(name string, from, until int64, by By) {
		s.Paused[name] = Hold{By: by, From: instant(from), Until: instant(until)}
	}
	if from, err := strconv.ParseInt(paused["from"], 10, 64); err == nil {
		until, _ := strconv.ParseInt(paused["until"], 10, 64)
		hold(AllJobs, from, until, By{paused["who"], paused["why"]})
	}
	for field, text := range paused {
		var v struct{ From, Until, Who, Why string }
		if job, ok := strings.CutPrefix(field, "job:"); ok && json.Unmarshal([]byte(text), &v) == nil {
			from, _ := strconv.ParseInt(v.From, 10, 64)
			until, _ := strconv.ParseInt(v.Until, 10, 64)
			hold(job, from, until, By{v.Who, v.Why})
		}
	}
	return s
}

// Steering reads what people have set.
func (l *Ledger) Steering(ctx context.Context) (Steering, error) {
	pipe := l.client.Pipeline()
	drain := pipe.HGetAll(ctx, l.keys.drain())
	paused := pipe.HGetAll(ctx, l.keys.paused())
	if err := exec(ctx, pipe); err != nil {
		return Steering{}, fmt.Errorf("steering: %w", err)
	}
	return readSteering(drain.Val(), paused.Val()), nil
}

// Restore writes what was set before Redis forgot back to it, as of now: pauses that have ended
// are left out, and nothing is overwritten that was set since. Every host may do it.
func (l *Ledger) Restore(ctx context.Context, s Steering, now time.Time, expire time.Duration) error {
	for job, h := range s.Paused {
		if !h.Until.After(now) {
			continue
		}
		length := h.Until.Sub(now)
		if h.Until.UnixMilli() == forever {
			length = 0
		}
		_, err := l.pause.Run(ctx, l.client, nil, l.keys.prefix, job, "restore", length.Milliseconds(),
			h.Who, h.Why, expire.Milliseconds(), millis(h.From))
		if err != nil {
			return fmt.Errorf("restore the pause of %q: %w", job, err)
		}
	}
	for host, by := range s.Drained {
		text, err := json.Marshal(by)
		if err != nil {
			return fmt.Errorf("ledger: restore: %w", err)
		}
		if err := l.client.HSetNX(ctx, l.keys.drain(), host, text).Err(); err != nil {
			return fmt.Errorf("restore the drain of %q: %w", host, err)
		}
	}
	return nil
}

// forever is the end of a pause that has none, in milliseconds: the largest integer of Lua.
const forever = 1<<53 - 1

// Reset takes back a job's cursor to Redis' clock, if it lies ahead of that. It returns where it
// was; false: it did not lie ahead, and nothing was changed.
func (l *Ledger) Reset(ctx context.Context, job string) (was time.Time, ok bool, err error) {
	v, err := l.reset.Run(ctx, l.client, nil, l.keys.prefix, job)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reset %q: %w", job, err)
	}
	r := readReply("reset", v, 3)
	ok, was = r.text(0) == "1", r.instant(2)
	return was, ok, r.err
}

// ErrEnded says that a run has ended already.
var ErrEnded = errors.New("ledger: the run has ended")

// Cancel asks for the end of a run, wherever it goes on. Its host hears of it within a second,
// or with the run's next renewal. The error matches [ErrNoRun] or [ErrEnded].
func (l *Ledger) Cancel(ctx context.Context, run string, by By) error {
	fields, err := l.client.HMGet(ctx, l.keys.run(run), "job", "lock").Result()
	if err != nil {
		return fmt.Errorf("cancel %q: %w", run, err)
	}
	if text(fields, 0) == "" {
		return ErrNoRun
	}
	lease, err := l.client.Get(ctx, text(fields, 1)).Result()
	if errors.Is(err, redis.Nil) || err == nil && leaseRun(lease) != run {
		return ErrEnded
	}
	if err != nil {
		return fmt.Errorf("cancel %q: %w", run, err)
	}
	if err := l.client.HSet(ctx, l.keys.run(run), "cancel", by.String(), "cancel_at", strconv.FormatInt(time.Now().UnixMilli(), 10)).Err(); err != nil {
		return fmt.Errorf("cancel %q: %w", run, err)
	}
	l.hint(ctx, "cancel "+run)
	return nil
}

// hint publishes; whoever misses it finds out with the next heartbeat or renewal.
func (l *Ledger) hint(ctx context.Context, text string) {
	_ = l.client.Publish(ctx, l.keys.events(), text).Err()
}

// leaseRun reads the run out of a lease's holder HOST/JOB/RUN; "" if it is not a run's.
func leaseRun(value string) string {
	parts := strings.SplitN(value, "|", 4)
	if len(parts) != 4 {
		return ""
	}
	holder := strings.SplitN(parts[3], "/", 3)
	if len(holder) != 3 {
		return ""
	}
	return holder[2]
}

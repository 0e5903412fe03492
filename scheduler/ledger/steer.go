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

// Drains returns the hosts that are told to claim nothing, and by whom.
func (l *Ledger) Drains(ctx context.Context) (map[string]By, error) {
	all, err := l.client.HGetAll(ctx, l.keys.drain()).Result()
	if err != nil {
		return nil, fmt.Errorf("drains: %w", err)
	}
	out := make(map[string]By, len(all))
	for host, text := range all {
		var by By
		_ = json.Unmarshal([]byte(text), &by) // written by another version: the host is drained all the same
		out[host] = by
	}
	return out, nil
}

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

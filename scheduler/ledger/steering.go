package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"rota/locking"
)

// Steering is what people have set and Redis remembers. Every heartbeat brings it, so that the
// hosts can tell a Redis that forgot.
type Steering struct {
	Drained map[string]By    // hosts told to claim nothing
	Paused  map[string]Pause // by job; under [AllJobs] the fleet's. Some may have ended
}

// readSteering reads two hashes that anybody may have written to. What cannot be read as a pause
// is none; a host that is named is drained, whoever named it and however.
func readSteering(drain, paused map[string]string) Steering {
	s := Steering{Drained: map[string]By{}, Paused: map[string]Pause{}}
	for host, text := range drain {
		var by By
		_ = json.Unmarshal([]byte(text), &by)
		s.Drained[host] = by
	}
	if h, ok := readPauseFields(paused["from"], paused["until"], paused["who"], paused["why"]); ok {
		s.Paused[AllJobs] = h
	}
	for field, text := range paused {
		var v struct{ From, Until, Who, Why string }
		if job, ok := strings.CutPrefix(field, "job:"); ok && json.Unmarshal([]byte(text), &v) == nil {
			if h, ok := readPauseFields(v.From, v.Until, v.Who, v.Why); ok {
				s.Paused[job] = h
			}
		}
	}
	return s
}

// Steering reads what people have set. A key of another type is an error that matches
// locking.ErrConflict and names it.
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
// are left out, and nothing is overwritten that was set since. Every host may do it, and repeat
// it after an error, which may have come half way. It takes two round trips, however much there is.
func (l *Ledger) Restore(ctx context.Context, s Steering, now time.Time, expire time.Duration) error {
	var calls []locking.Call
	var jobs []string
	for job, h := range s.Paused {
		if h.Until.After(now) {
			jobs, calls = append(jobs, job), append(calls, l.restoreCall(job, h, now, expire))
		}
	}
	var faults []error
	if len(calls) > 0 {
		for i, r := range l.pause.RunAll(ctx, l.client, calls) {
			if _, err := l.readPause("restore", jobs[i], r); err != nil {
				faults = append(faults, err)
			}
		}
	}
	pipe := l.client.Pipeline()
	for host, by := range s.Drained {
		text, err := json.Marshal(by)
		if err != nil {
			return fmt.Errorf("ledger: restore: %w", err)
		}
		pipe.HSetNX(ctx, l.keys.drain(), host, text)
	}
	if pipe.Len() > 0 {
		if err := exec(ctx, pipe); err != nil {
			faults = append(faults, fmt.Errorf("restore the drains: %w", err))
		}
	}
	return errors.Join(faults...)
}

// restoreCall is Pause as it was set before, unless there is, or was, one since.
func (l *Ledger) restoreCall(job string, h Pause, now time.Time, expire time.Duration) locking.Call {
	length := time.Duration(0)
	if h.Ends() {
		length = h.Until.Sub(now)
	}
	return l.pauseCall(job, "restore", length, h.By, expire, millis(h.From))
}

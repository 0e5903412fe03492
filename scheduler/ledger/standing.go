package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Standing is what a job's record says of ticks that may still want a run, and of the newest run.
type Standing struct {
	Job     string
	Cursor  time.Time // the newest tick decided; zero: none
	Waiting time.Time // the tick that waits for the lock; zero: none
	Open    time.Time // a tick that was won and given back; zero: none

	Run     string // the newest run's id; "": there was none
	RunTick time.Time
	Left    time.Duration // of its lease; 0: it does not hold it
	Crashed bool          // it ended with its host, by its lease or its outcome
	Again   bool          // its tick may be run once more if it did

	Err error // of this record alone: a key of another type
}

// standingFields are those of the record that say where a job stands.
func standingFields() []string {
	return []string{"tick", "wait_tick", "run_state", "run_id", "run_token", "run_tick", "run_kind", "run_reruns", "run_lock"}
}

// Standings reads where jobs stand, in their order, in two pipelines: less than [Ledger.State]
// does, for hosts that look after many.
func (l *Ledger) Standings(ctx context.Context, jobs []string) ([]Standing, error) {
	out := make([]Standing, len(jobs))
	if len(jobs) == 0 {
		return out, nil
	}
	pipe := l.client.Pipeline()
	records := make([]*redis.SliceCmd, len(jobs))
	for i, job := range jobs {
		records[i] = pipe.HMGet(ctx, l.keys.record(job), standingFields()...)
	}
	if err := execEach(ctx, pipe); err != nil {
		return nil, fmt.Errorf("standings: %w", err)
	}
	leases := l.client.Pipeline()
	runs := make([]runReads, len(jobs))
	for i, job := range jobs {
		out[i].Job = job
		if out[i].Err = commandError(records[i]); out[i].Err != nil {
			continue
		}
		rec := map[string]string{}
		for k, name := range standingFields() {
			rec[name] = text(records[i].Val(), k)
		}
		runs[i].rec = rec
		if rec["run_state"] == "running" {
			runs[i].lease = leases.Get(ctx, rec["run_lock"])
			runs[i].left = leases.PTTL(ctx, rec["run_lock"])
		}
	}
	if leases.Len() > 0 {
		if err := execEach(ctx, leases); err != nil {
			return nil, fmt.Errorf("standings: leases: %w", err)
		}
	}
	for i := range out {
		if out[i].Err == nil {
			out[i].Err = runs[i].into(&out[i])
		}
	}
	return out, nil
}

// runReads are the answers about one record and the lease of its newest run.
type runReads struct {
	rec   map[string]string
	lease *redis.StringCmd // nil unless the record has a running run
	left  *redis.DurationCmd
}

func (q *runReads) into(s *Standing) error {
	rec := q.rec
	s.Cursor, s.Waiting = at(rec, "tick"), at(rec, "wait_tick")
	s.Run, s.RunTick = rec["run_id"], at(rec, "run_tick")
	reruns, _ := strconv.Atoi(rec["run_reruns"])
	s.Again = s.Run != "" && Kind(rec["run_kind"]) != Manual && reruns == 0
	switch rec["run_state"] {
	case "open":
		s.Open = s.RunTick
	case "lost", "interrupted":
		s.Crashed = true
	case "running":
		if err := commandError(q.lease); err != nil {
			return err
		}
		if err := commandError(q.left); err != nil {
			return err
		}
		// Only the token tells this run's lease from that of whoever came after it.
		if token, rest, _ := strings.Cut(q.lease.Val(), "|"); token != "" && token == rec["run_token"] {
			s.Left = max(q.left.Val(), time.Millisecond)
			// More than its whole length is left only after Redis' clock stepped back.
			if parts := strings.Split(rest, "|"); len(parts) > 1 {
				if ms, err := strconv.ParseInt(parts[1], 10, 64); err == nil && ms > 0 {
					s.Left = min(s.Left, time.Duration(ms)*time.Millisecond)
				}
			}
		} else {
			s.Crashed = true // and nobody has recorded it
		}
	}
	return nil
}

package scheduler

import (
	"time"

	"rota/jobs"
)

// Some handlers do not return when they must: a Go function that looks at nothing, a program that hangs
// in the kernel. Its run is given up then, and its job stays closed on this host until it has returned.

// abandonAfterKill is how long a handler may go on, at least, after its Kill channel was closed before
// the run is recorded as ended without it.
const abandonAfterKill = time.Second

// lastPatience is how long the handler is waited for whose Kill channel is closed. What can be killed
// dies, mostly in no time: as long as the lease can be trusted nothing is gained by looking away. A Go
// function that looks at neither its context nor Kill may never return.
func (r *run) lastPatience() time.Duration {
	if killable(r.job.Handler) {
		return max(abandonAfterKill, r.lease.Remaining())
	}
	return abandonAfterKill
}

// killable tells whether a handler returns once its Kill channel is closed, as all must but Go functions,
// which nothing can end but themselves.
func killable(h jobs.Handler) bool {
	if r, ok := h.(jobs.Retry); ok {
		h = r.Handler
	}
	_, function := h.(jobs.Func)
	return !function
}

// isStuck tells whether a run of the job was given up here whose handler has not returned: it
// still works, so this host starts nothing of the job, and others may.
func (s *Scheduler) isStuck(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck[job] > 0
}

func (s *Scheduler) countStuck(job string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck[job] += n; s.stuck[job] == 0 {
		delete(s.stuck, job)
	}
}

package drill

import (
	"fmt"
	"time"
)

// The results of a drill.
const (
	Pass = "PASS"
	Fail = "FAIL"
)

// Report is what a drill showed.
type Report struct {
	Scenario   string `json:"scenario"`
	Workers    int    `json:"workers"`
	Iterations int    `json:"iterations"` // of each worker
	Expected   int    `json:"expected"`   // Workers × Iterations
	Entered    int    `json:"entered"`    // leases won
	Completed  int    `json:"completed"`  // times inside that were finished, stale writes included
	Violations int    `json:"violations"` // entries while another was inside
	Stale      int    `json:"stale"`      // writes that the guard refused
	Failures   int    `json:"failures"`   // errors
	ElapsedMS  int64  `json:"elapsed_ms"`
	Result     string `json:"result"`

	Faults   []string      `json:"-"` // why it failed; empty if it passed
	Lost     int           `json:"-"` // leases that were lost under a worker, which took the lock again
	Repeated int           `json:"-"` // fencing tokens that were granted twice
	Elapsed  time.Duration `json:"-"`
	Ended    bool          `json:"-"` // early, by the caller
	Away     int           `json:"-"` // workers that gave up on a Redis that did not answer; each is a failure too

	texts []string // of the other failures, the first few
	away  string   // why one of them gave up
}

// hear counts a word.
func (r *Report) hear(w said, tokens map[int64]bool) {
	switch w.What {
	case entered:
		r.Entered++
		if w.Others {
			r.Violations++
		}
		if tokens[w.Token] {
			r.Repeated++
		}
		tokens[w.Token] = true
	case left:
		r.Completed++
		if w.Stale {
			r.Stale++
		}
	case lost:
		r.Lost++
	case away:
		r.Failures++
		r.Away++
		r.away = w.Text
	case failed:
		r.Failures++
		if len(r.texts) < 3 {
			r.texts = append(r.texts, w.Text)
		}
	}
}

// judge says whether the scenario went as it must.
func (r *Report) judge(s Scenario) {
	fault := func(format string, args ...any) { r.Faults = append(r.Faults, fmt.Sprintf(format, args...)) }
	if r.Ended {
		fault("it was ended early")
	}
	if r.Away > 0 {
		fault("%d of %d workers gave up after %s: %s", r.Away, r.Workers, patience, r.away)
	}
	for _, text := range r.texts {
		fault("%s", text)
	}
	if more := r.Failures - r.Away - len(r.texts); more > 0 {
		fault("%d more failures", more)
	}
	if r.Completed != r.Expected && r.Failures == 0 && !r.Ended {
		fault("%d of %d were completed", r.Completed, r.Expected)
	}
	if r.Repeated > 0 {
		fault("%d fencing tokens were granted twice", r.Repeated)
	}
	switch {
	case s.LetsTwoIn() && r.Completed != r.Expected: // which says enough
	case (s.overstays || s.flushes) && r.Violations == 0:
		fault("some stayed inside without a lease, and nobody was seen to enter meanwhile: this drill cannot see a fault")
	case s.LetsTwoIn() && r.Stale == 0:
		fault("no late write was refused")
	case !s.LetsTwoIn():
		if r.Violations > 0 {
			fault("%d times somebody entered while another was inside", r.Violations)
		}
		if r.Stale > 0 {
			fault("%d writes were refused", r.Stale)
		}
	}
	r.Result = Pass
	if len(r.Faults) > 0 {
		r.Result = Fail
	}
}

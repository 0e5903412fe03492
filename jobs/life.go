//go:build linux

package jobs

import "time"

// A life is what the warden knows of one run: how far its end has got, and why it is being ended.
// It is a value that functions of the time change; it sends no signal and reads no clock.
//
//	          the main process ends: SIGTERM to what it left, for grace
//	          the daemon asks: SIGTERM, for as long as it says
//	          term has come: SIGTERM, until kill
//	running ─────────────────────────────────────────────────────────▶ ending
//	   │                                                                  │ until has come,
//	   │ kill has come, or the daemon asks and gives no time              │ or kill
//	   └───────────────────────────────▶ killing ◀────────────────────────┘
//
// A stage is never left for an earlier one, and why it began is decided once, when running ends.
// Deadlines move on for as long as the lease is renewed, under an end that was asked for and under what
// the main process left behind too: both have their grace, however long it is. Once a deadline has ended
// the run nobody vouches for it any more, and kill comes earlier or stays. What was asked for after the
// main process had ended by itself only shortens the rest.
type life struct {
	grace      time.Duration // for what the main process leaves behind
	term, kill time.Duration // see [Deadlines]
	stage      stage
	by         endedBy       // whoever ended running
	until      time.Duration // in ending: SIGKILL then, unless kill comes first
	exited     bool          // the main process has ended
}

// A stage of the end of a run. Each has its signals, which are sent when it is entered.
type stage uint8

const (
	running stage = iota
	ending        // SIGTERM was sent
	killing       // SIGKILL was sent, and is sent again as long as anything lives
)

// endedBy is who began the end of a run. The values are the wire's.
type endedBy uint8

const (
	byItself   endedBy = iota // its main process ended before anybody asked for it
	byDaemon                  // the daemon asked
	byDeadline                // nobody vouched for it any more
)

// step takes the passing of time in and returns the stage. Whoever wakes late finds both instants
// passed and comes to killing at once.
func (l *life) step(now time.Duration) stage {
	if l.kill != 0 && now >= l.kill || l.stage == ending && now >= l.until {
		l.begin(killing, byDeadline)
	}
	if l.stage == running && l.term != 0 && now >= l.term {
		l.begin(ending, byDeadline)
		l.until = never
	}
	return l.stage
}

// begin enters a stage, unless a later one was entered before.
func (l *life) begin(s stage, by endedBy) {
	if l.stage == running {
		l.by = by
	}
	l.stage = max(l.stage, s)
}

// exit takes the end of the main process in.
func (l *life) exit(now time.Duration) {
	l.exited = true
	if l.stage == running {
		l.begin(ending, byItself)
		l.until = later(now, l.grace)
	}
}

// ask takes the daemon's wish in that the run ends within grace. A negative one means without
// SIGTERM.
func (l *life) ask(now, grace time.Duration) {
	if grace < 0 {
		l.begin(killing, byDaemon)
		return
	}
	until := later(now, grace)
	if l.stage == ending {
		until = min(until, l.until)
	}
	l.begin(ending, byDaemon)
	l.until = until
}

// move takes new deadlines in.
func (l *life) move(term, kill time.Duration) {
	if l.stage == killing || l.by == byDeadline {
		l.kill = earlier(l.kill, kill)
		return
	}
	l.term, l.kill = term, kill
}

// wake returns when step must be called next, zero if time alone changes nothing.
func (l *life) wake() time.Duration {
	switch l.stage {
	case running:
		return earlier(l.term, l.kill)
	case ending:
		return earlier(l.until, l.kill)
	default:
		return 0
	}
}

package preview

import (
	"encoding/json"
	"time"
)

// Report is what a replay found. Lists are never null in JSON. Nothing in it is shared with the
// Options, and nothing writes to it after Run has returned it.
type Report struct {
	Window   Window        `json:"window"`
	Hosts    []HostReport  `json:"hosts"`  // in the order of the Options
	Ticks    Ticks         `json:"ticks"`  // of all jobs
	Jobs     []JobReport   `json:"jobs"`   // in the order of the table
	Peaks    []Peak        `json:"peaks"`  // the fullest minute first, at most ten
	Locks    []LockReport  `json:"locks"`  // those found held, or that several jobs share; the most contended first
	Load     Load          `json:"load"`   // of Redis
	Clocks   []ClockChange `json:"clocks"` // by time
	Advice   []Advice      `json:"advice"` // the most helpful first
	Warnings []Warning     `json:"warnings"`
	Heat     Heat          `json:"heat"`
}

// Window is the time that was replayed: ticks that are to start at From or later, and before Until.
// Runs that are going on at Until are taken to end there.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Millis is a duration that is a number of milliseconds in JSON, with up to three decimals.
type Millis time.Duration

// Duration is m as the time package has it.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

// String is for people.
func (m Millis) String() string { return time.Duration(m).String() }

// MarshalJSON writes a number of milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}

// UnmarshalJSON reads a number of milliseconds. Any other value is an error.
func (m *Millis) UnmarshalJSON(b []byte) error {
	var ms float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return err
	}
	*m = Millis(ms * float64(time.Millisecond))
	return nil
}

// Ticks counts ticks by what became of them: Due = Ran + Skipped + Missed + Waiting. One of a job
// with scope "host" counts once for each host.
type Ticks struct {
	Due     int64 `json:"due"`
	Ran     int64 `json:"ran"`
	Skipped int64 `json:"skipped"` // by overlap; see Skips
	Missed  int64 `json:"missed"`  // not run in time; see Misses
	Waiting int64 `json:"waiting"` // for the lock, for a place, or to be caught up, when the window ended
	Late    int64 `json:"late"`    // of those that ran: after their start deadline

	Skips  Skips  `json:"skips"`
	Misses Misses `json:"misses"`
}

// Lost is how many ticks did not run.
func (t *Ticks) Lost() int64 { return t.Skipped + t.Missed }

// Skips says why ticks were skipped.
type Skips struct {
	Own        int64 `json:"own"`        // the run before was still going on
	Other      int64 `json:"other"`      // another job held the lock
	Parallel   int64 `json:"parallel"`   // max_parallel runs were going on
	Superseded int64 `json:"superseded"` // a newer tick took the place of one that waited
}

// Misses says why ticks were missed.
type Misses struct {
	Deadline int64 `json:"deadline"` // nobody claimed it before its start deadline
	Full     int64 `json:"full"`     // every host was at its max_runs
	NoHost   int64 `json:"no_host"`  // no host may run the job
}

// JobReport is one job of the table; of one with scope "host" all hosts together.
type JobReport struct {
	Job      string `json:"job"`
	Lock     string `json:"lock"`     // of scope "host": ends in @*
	Hosts    int    `json:"hosts"`    // how many may run it
	Disabled bool   `json:"disabled"` // it has no ticks, nor has one without a schedule
	Ticks

	First time.Time `json:"first,omitzero"` // tick of the window, nominal; zero: there is none
	Next  time.Time `json:"next,omitzero"`  // tick after the window's; zero: there is none

	LostShare float64 `json:"lost_share"` // of its ticks, to overlap: skipped / due

	// PastDeadline counts ticks that had not started by their start deadline: the missed ones, those
	// that ran as misfires, and those that waited longer for the lock, which no deadline drops.
	PastDeadline int64 `json:"past_deadline"`
	// OverGap counts runs that went on when the job's next tick was due.
	OverGap  int64 `json:"over_gap"`
	TimedOut int64 `json:"timed_out"` // runs that were asked to end by their timeout
	Replaced int64 `json:"replaced"`  // runs that were asked to end by a newer tick

	SmallestGap Millis `json:"smallest_gap_ms"` // between two ticks of the window that follow each other; 0: fewer than two
	Delay       Millis `json:"delay_ms"`        // its share of its splay; the mean of the hosts under scope "host"

	// Lag is from the instant a run was due, which is tick + splay, to its start.
	LagP50 Millis `json:"lag_p50_ms"`
	LagP99 Millis `json:"lag_p99_ms"`
	LagMax Millis `json:"lag_max_ms"`

	RunP50  Millis  `json:"run_p50_ms"` // how long runs took
	RunMax  Millis  `json:"run_max_ms"`
	Busy    float64 `json:"busy"`     // share of the window in which at least one run went on; mean of the hosts under scope "host"
	MostRan int     `json:"most_ran"` // runs at once

	Cells []Cell `json:"cells"` // as Heat divides the time
}

// Cell is one job or lock in one stretch of time.
type Cell struct {
	Ticks int64   `json:"ticks"`
	Lost  int64   `json:"lost"` // skipped or missed; of a lock: found held
	Busy  float64 `json:"busy"` // 0 to 1
}

// Peak is one minute with many ticks, counted when they start: tick + splay. Where the window is
// longer than a day, minutes of the day in UTC are told apart, each by its fullest day.
type Peak struct {
	Minute time.Time  `json:"minute"`
	Ticks  int64      `json:"ticks"`
	Times  int        `json:"times"`  // how many days of the window had as many in this minute
	Second time.Time  `json:"second"` // the fullest of the minute
	Most   int64      `json:"most"`   // ticks in that second
	Jobs   []JobCount `json:"jobs"`   // of the minute, the most ticks first
}

// JobCount is a number of ticks of one job.
type JobCount struct {
	Job   string `json:"job"`
	Ticks int64  `json:"ticks"`
}

// LockReport is one lock; of jobs with scope "host" the locks of all hosts together, named LOCK@*.
type LockReport struct {
	Lock    string      `json:"lock"`
	Jobs    []string    `json:"jobs"`   // that name it, in the order of the table
	Claims  int64       `json:"claims"` // ticks that were claimed
	Held    int64       `json:"held"`   // of them found it held
	ByPair  []Contended `json:"by"`     // who found it held by whom, the most first
	Busy    float64     `json:"busy"`   // share of the window in which it was held; mean of the hosts
	MaxWait Millis      `json:"max_wait_ms"`
	// Longest is the job that waited that long for it, and Since the tick.
	Longest string    `json:"longest,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Cells   []Cell    `json:"cells"`
}

// Contended says how often ticks of one job found a lock held by a run of another, or of the same.
type Contended struct {
	Job    string `json:"job"`
	Holder string `json:"holder"`
	Times  int64  `json:"times"`
}

// HostReport is one host's part.
type HostReport struct {
	Host    string  `json:"host"`
	Wins    int64   `json:"wins"`     // ticks that it ran
	Share   float64 `json:"share"`    // of all wins
	Full    int64   `json:"full"`     // ticks for which it had no place when its turn came
	Most    int     `json:"most"`     // runs at once, of all jobs
	MaxRuns int     `json:"max_runs"` // places, for jobs that count
}

// Load is what the fleet asks of Redis in the second with the most ticks. An estimate from the
// protocol: what each claim, each look before a turn, each renewal and each heartbeat costs.
type Load struct {
	Second time.Time   `json:"second"` // zero: there are no ticks
	Ticks  int64       `json:"ticks"`
	Fleets []FleetLoad `json:"fleets"` // for fleets of 1 to 100 hosts
}

// FleetLoad is the load by a fleet of so many hosts.
type FleetLoad struct {
	Hosts      int   `json:"hosts"`
	Claims     int64 `json:"claims"`     // in that second
	Reads      int64 `json:"reads"`      // looks at what is taken, before a host's turn
	Finishes   int64 `json:"finishes"`   // ends of runs
	Renewals   int64 `json:"renewals"`   // of leases
	Heartbeats int64 `json:"heartbeats"` // one a host every two seconds
	Commands   int64 `json:"commands"`   // all of them
}

// ClockChange is one change of a zone's offset within the window.
type ClockChange struct {
	Zone   string       `json:"zone"`
	At     time.Time    `json:"at"`        // the first instant with the new offset
	Before Millis       `json:"before_ms"` // east of UTC
	After  Millis       `json:"after_ms"`
	Jobs   []ChangedJob `json:"jobs"` // in the order of the table; empty: no job has ticks near it
}

// Shift is how far the clocks move: above 0 they go forward.
func (c *ClockChange) Shift() time.Duration { return time.Duration(c.After - c.Before) }

// ChangeEffect says what a clock change does to a job.
type ChangeEffect string

// The effects.
const (
	AfterGap  ChangeEffect = "after_gap"  // a fixed time that the clocks skip: it runs once, right after
	FirstPass ChangeEffect = "first_pass" // a fixed time that comes twice: it runs once, at the first pass
	Elapsed   ChangeEffect = "elapsed"    // wildcard times: they follow elapsed time
)

// ChangedJob is a job whose times a clock change skips or repeats.
type ChangedJob struct {
	Job    string       `json:"job"`
	Effect ChangeEffect `json:"effect"`
	Tick   time.Time    `json:"tick,omitzero"` // the one that comes of it; zero: none, or many
	Ticks  int64        `json:"ticks"`         // in the hours around: from Shift before the change to Shift after
	Text   string       `json:"text"`          // what happens, in a sentence
}

// AdviceKind says what to change.
type AdviceKind string

// The kinds of advice.
const (
	AdviseSplay AdviceKind = "splay" // spread the jobs of a crowded minute
	AdviseLock  AdviceKind = "lock"  // a lock of its own for a job that shares one
	AdviseTime  AdviceKind = "time"  // other times for a job: another minute, or fewer ticks
)

// Advice is a change that was tried: the jobs concerned were replayed with it, and it helped.
type Advice struct {
	Kind   AdviceKind `json:"kind"`
	Jobs   []string   `json:"jobs"`   // to change
	Key    string     `json:"key"`    // of the job's table in the config: splay, lock, schedule
	Value  string     `json:"value"`  // for it, as the config has it, without quotes
	What   string     `json:"what"`   // is counted: the unit of Before and After
	Before int64      `json:"before"` // in the part of the window that was tried, a day at most
	After  int64      `json:"after"`
	Text   string     `json:"text"` // all of it in a sentence
}

// WarningKind says what a warning is about.
type WarningKind string

// The kinds of warnings.
const (
	WarnNoHost   WarningKind = "no_host"  // no host may run the job
	WarnOverGap  WarningKind = "over_gap" // its usual run lasts longer than its gap
	WarnSchedule WarningKind = "schedule" // valid, and often not what was meant
	WarnNoTicks  WarningKind = "no_ticks" // nothing is due in the window
	WarnFull     WarningKind = "full"     // max_runs made ticks wait or miss
	WarnTimeout  WarningKind = "timeout"  // runs were ended by their timeout
)

// Warning is one thing that somebody should look at.
type Warning struct {
	Kind WarningKind `json:"kind"`
	Job  string      `json:"job,omitempty"` // "": the whole table
	Text string      `json:"text"`
}

// Heat says how Cells divide time, and how ticks spread over it, counted when they start. From a
// window of a day on everything is folded into one day, in UTC: one cell an hour, summed over the days.
type Heat struct {
	Folded bool      `json:"folded"`
	Start  time.Time `json:"start"`   // of the first cell; folded: the midnight at or before From
	Step   Millis    `json:"step_ms"` // of a cell
	Cells  int       `json:"cells"`   // 24, or fewer where each would be under a second
	// Fine is the same in finer steps: minutes of the day if folded, else at most 1440 of the window.
	FineStep Millis  `json:"fine_step_ms"`
	Fine     []int64 `json:"fine"`
}

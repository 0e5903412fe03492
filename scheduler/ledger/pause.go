package ledger

import (
	"encoding/json"
	"strconv"
	"time"
)

// forever is the end of a pause that has none, in milliseconds: the largest integer of Lua.
const forever = 1<<53 - 1

// Pause is a pause as it stands in Redis.
type Pause struct {
	By
	From  time.Time // zero: not known
	Until time.Time // far beyond the year 9999 if it does not end by itself; see [Pause.Ends]
}

// readPauseFields reads the fields of a pause as the claim does: without a start there is none, and
// without an end that is a number it has none.
func readPauseFields(from, until, who, why string) (Pause, bool) {
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return Pause{}, false
	}
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		end = forever
	}
	return Pause{By: By{who, why}, From: instant(max(0, start)), Until: instant(end)}, true
}

// Active tells whether the pause holds ticks back at an instant of Redis' clock: from From on, and
// not at Until any more.
func (p Pause) Active(now time.Time) bool { return !now.Before(p.From) && now.Before(p.Until) }

// Ends tells whether the pause ends by itself: at an instant that RFC 3339 can write, up to the
// year 9999.
func (p Pause) Ends() bool { return p.Until.Year() <= 9999 }

// String is for logs and tests: from when until when, by whom and why.
func (p Pause) String() string {
	until := "without an end"
	if p.Ends() {
		until = "until " + p.Until.Format(time.RFC3339Nano)
	}
	return "from " + p.From.Format(time.RFC3339Nano) + " " + until + " by " + p.By.String()
}

// MarshalJSON writes the pause with the contract's names. It has a value receiver so that a
// Pause and a pointer to one look the same.
func (p Pause) MarshalJSON() ([]byte, error) {
	type pause struct {
		From  *time.Time `json:"from"`
		Until *time.Time `json:"until"`
		By
	}
	out := pause{From: optional(p.From), By: p.By}
	if p.Ends() {
		out.Until = optional(p.Until)
	}
	return json.Marshal(out)
}

package ledger

import (
	"encoding/json"
	"strconv"
	"time"
)

// forever is the end of a pause that has none, in milliseconds: the largest integer of Lua.
const forever = 1<<53 - 1

// Hold is a pause as it stands in Redis.
type Hold struct {
	By
	From  time.Time // zero: not known
	Until time.Time // far beyond the year 9999 if it does not end by itself; see [Hold.Ends]
}

// readHold reads the fields of a pause as the claim does: without a start there is none, and
// without an end that is a number it has none.
func readHold(from, until, who, why string) (Hold, bool) {
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return Hold{}, false
	}
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		end = forever
	}
	return Hold{By: By{who, why}, From: instant(max(0, start)), Until: instant(end)}, true
}

// Active tells whether the pause holds ticks back at an instant of Redis' clock: from From on, and
// not at Until any more.
func (h Hold) Active(now time.Time) bool { return !now.Before(h.From) && now.Before(h.Until) }

// Ends tells whether the pause ends by itself: at an instant that RFC 3339 can write, up to the
// year 9999.
func (h Hold) Ends() bool { return h.Until.Year() <= 9999 }

// String is for logs and tests: from when until when, by whom and why.
func (h Hold) String() string {
	until := "without an end"
	if h.Ends() {
		until = "until " + h.Until.Format(time.RFC3339Nano)
	}
	return "from " + h.From.Format(time.RFC3339Nano) + " " + until + " by " + h.By.String()
}

// MarshalJSON writes the pause with the contract's names. It has a value receiver so that a
// Hold and a pointer to one look the same.
func (h Hold) MarshalJSON() ([]byte, error) {
	type hold struct {
		From  *time.Time `json:"from"`
		Until *time.Time `json:"until"`
		By
	}
	out := hold{From: optional(h.From), By: h.By}
	if h.Ends() {
		out.Until = optional(h.Until)
	}
	return json.Marshal(out)
}

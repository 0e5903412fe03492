package drill

import "time"

// The lease of a drill: short, so that what happens to it happens often.
const (
	ttl        = 300 * time.Millisecond
	renewEvery = 75 * time.Millisecond
)

// Scenario is one kind of drill.
type Scenario struct {
	Name  string
	About string // what it shows, in a sentence

	// inside is how long a worker is inside, and long how long in one of longEach iterations.
	inside, long time.Duration
	longEach     int

	overstays bool // in a long iteration it neither renews nor leaves when its lease ends
	freezes   bool // in a long iteration it is stopped for that long, wherever it is
	flushes   bool // the lock and its fence are deleted again and again; in a long iteration it does not look
}

// LetsTwoIn tells whether it is part of the scenario that two are inside at once. The lock cannot put
// anybody out; if that did not show, the drill could not see it where it must not be.
func (s Scenario) LetsTwoIn() bool { return s.overstays || s.freezes || s.flushes }

// LeastWorkers is how few can show it: what goes wrong for one shows in another.
func (s Scenario) LeastWorkers() int {
	if s.LetsTwoIn() {
		return 2
	}
	return 1
}

// flushEvery is the distance of deletions where there are any.
const flushEvery = 250 * time.Millisecond

// Scenarios are those there are.
var Scenarios = []Scenario{
	{
		Name:   "mutex",
		About:  "many processes want one lock, each for a moment",
		inside: time.Millisecond,
	},
	{
		Name:   "renew",
		About:  "some stay inside for several times the ttl, and renewals keep the lock for them",
		inside: time.Millisecond, long: 3 * ttl, longEach: 40,
	},
	{
		Name:   "expiry",
		About:  "some stay inside without a lease: it must show as violations, and their late writes must be refused",
		inside: time.Millisecond, long: ttl + ttl/2, longEach: 40, overstays: true,
	},
	{
		Name:   "hang",
		About:  "some processes freeze inside for longer than the ttl: others go on, and what the frozen ones write after that is refused",
		inside: time.Millisecond, long: 2 * ttl, longEach: 40, freezes: true,
	},
	{
		Name:   "flush",
		About:  "Redis forgets the lock and its fencing token again and again: tokens rise all the same, and late writes are refused",
		inside: 5 * time.Millisecond, long: flushEvery + 2*ttl, longEach: 40, flushes: true,
	},
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, bool) {
	for _, s := range Scenarios {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// stays is how long a worker is inside in its nth iteration of so many, counted from 0. Workers take
// their long ones at different times, and each has one at least.
func (s Scenario) stays(worker, n, of int) (d time.Duration, long bool) {
	if s.longEach == 0 {
		return s.inside, false
	}
	each := min(s.longEach, of)
	if (n+worker*7)%each == each/2 {
		return s.long, true
	}
	return s.inside, false
}

package shadow

import (
	"sync"
	"time"

	"rota/jobs"
	"rota/scheduler"
)

// batch is what a process has to say at one time.
type batch struct {
	Process string             `json:"p"`
	Number  int64              `json:"n"` // rises: one that comes twice is dropped
	Sights  []sight            `json:"s,omitempty"`
	Trips   map[string][]int64 `json:"d,omitempty"` // by host, how long each claim took, in µs
	Sent    map[int64]int      `json:"c,omitempty"` // by second of Redis' clock, commands that the hosts sent
}

func (b *batch) empty() bool { return len(b.Sights) == 0 && len(b.Trips) == 0 && len(b.Sent) == 0 }

// turnAfter is how long it is remembered at least who came for a tick: longer than a race goes on.
const turnAfter = 10 * time.Second

// sightsKept bounds what is collected while Redis takes nothing.
const sightsKept = 20_000

// collector gathers what the hosts of this process see until it is exchanged. It is safe for
// concurrent use.
type collector struct {
	mu     sync.Mutex
	b      batch
	offset time.Duration // of this machine's clock to Redis'
	counts bool          // commands are counted

	// How many hosts came second for a tick: of the time since turned, and of that before.
	second, older map[tickKey]int
	turned        time.Time
}

// tickKey is one tick of one job.
type tickKey struct {
	job  string
	tick int64 // in ms
}

func newCollector() *collector { return &collector{} }

// saw takes in what a host saw. Of those that find a tick decided only the first two of a process
// matter, of which one may be the winner: the rest comes later.
func (c *collector) saw(host string, s scheduler.Sight, holds map[string]Hold) {
	sights := sightsOf(host, &s, holds[tableName(s.Job)].Length)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Trip > 0 && s.Decision.Err == nil {
		if c.b.Trips == nil {
			c.b.Trips = map[string][]int64{}
		}
		c.b.Trips[host] = append(c.b.Trips[host], s.Trip.Microseconds())
	}
	for _, v := range sights {
		if v.What == came && !c.early(&v) {
			continue
		}
		c.add(v)
	}
}

// early tells whether less than two hosts of this process came for the tick so far.
func (c *collector) early(v *sight) bool {
	if now := time.Now(); now.Sub(c.turned) > turnAfter {
		c.second, c.older, c.turned = map[tickKey]int{}, c.second, now
	}
	key := tickKey{v.Job, v.Tick}
	if c.second[key]+c.older[key] >= 2 {
		return false
	}
	c.second[key]++
	return true
}

// ended takes in that a hold ended otherwise than by itself.
func (c *collector) ended(host string, run jobs.Run, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(endedSight(host, run, outcome, c.redisNow()))
}

func (c *collector) add(v sight) {
	if len(c.b.Sights) < sightsKept {
		c.b.Sights = append(c.b.Sights, v)
	}
}

// startCounting makes commands count.
func (c *collector) startCounting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = true
}

// count takes in that a host sent n commands.
func (c *collector) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts {
		return
	}
	if c.b.Sent == nil {
		c.b.Sent = map[int64]int{}
	}
	c.b.Sent[c.redisNow().Unix()] += n
}

// now is Redis' clock, as far as it is known.
func (c *collector) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.redisNow()
}

func (c *collector) redisNow() time.Time { return time.Now().Add(-c.offset) }

// setOffset says how far this machine's clock is ahead of Redis'.
func (c *collector) setOffset(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = d
}

// take hands out what there is and begins anew.
func (c *collector) take() batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.b
	c.b = batch{}
	return b
}

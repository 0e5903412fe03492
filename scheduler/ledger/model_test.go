package ledger

import (
	"cmp"
	"container/heap"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

// The randomised model (design, section 3): a few hosts with wrong clocks run the real scripts
// on an in-process Redis whose clock the model moves. Requests and replies are lost, repeated
// and delayed beyond leases, hosts crash, hang, drain, give back what they won and get another
// table; people pause, trigger and flush. Then the faults stop, and everything must come right.
//
//	model_test.go        the world: its clock and its network
//	model_people_test.go what people do: tables, pauses, drains, requests, flushes
//	model_host_test.go   what a host does until it has won, model_run_test.go what then
//	model_check_test.go  what must hold at each step, model_settled_test.go what in the end
//
// A seed fixes all of it: ROTA_MODEL_SEED=n replays one and tells each step, ROTA_MODEL_SEEDS=n
// tries n a policy, ROTA_MODEL_ALL=1 goes on after one that failed.

const (
	modelGap     = 10 * time.Second // between ticks
	modelTTL     = 4 * time.Second
	modelRenew   = 1200 * time.Millisecond
	modelMargin  = 50 * time.Millisecond
	modelLate    = 6 * time.Second // a scheduled tick's start deadline: a lease may end before it
	modelBack    = 4               // ticks that misfire "all" still runs
	modelFaults  = 80 * time.Second
	modelQuiet   = 50 * time.Second // after the faults; the last ticks of it must run
	modelLong    = 23 * time.Second // the longest run
	modelEvents  = 100_000          // some thousand are usual
	modelTimeout = 700 * time.Millisecond
)

func TestModel(t *testing.T) {
	seeds := uint64(400)
	if underRace {
		seeds = 15
	}
	if n, err := strconv.ParseUint(os.Getenv("ROTA_MODEL_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	only, replay := os.LookupEnv("ROTA_MODEL_SEED")
	// Each script gets a Lua of its own, all of it garbage: a third of the time otherwise.
	percent := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, overlap := range []string{"skip", "queue", "replace", "allow"} {
		t.Run(overlap, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for seed := range seeds {
				if replay && only != strconv.FormatUint(seed, 10) {
					continue
				}
				// Each seed has a server of its own: what those of redistest remember adds up.
				ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					redis, client := redistest.InBubble(t)
					w := newWorld(t, redis, client, overlap, seed)
					w.log = replay
					w.run()
					for what, n := range w.seen {
						seen[what] += n
					}
					if len(w.faults) > 0 {
						t.Errorf("%s:\n  %s\nreplay: ROTA_MODEL_SEED=%d go test -run TestModel/%s -v ./scheduler/ledger",
							w.jobs["j"], strings.Join(w.faults, "\n  "), seed, overlap)
					}
				})
				if !ok && os.Getenv("ROTA_MODEL_ALL") == "" {
					return // the next ones would say the same
				}
			}
			t.Logf("%d seeds: %v", seeds, seen)
			if replay || seeds < 100 {
				return
			}
			// A model in which nothing happens proves nothing.
			for _, what := range usual {
				if seen[what] == 0 {
					t.Errorf("%s never happened in %d seeds", what, seeds)
				}
			}
		})
	}
}

// usual is what happens in some hundred seeds.
var usual = []string{"won", "held", "already", "early", "late", "rerun", "open", "given back", "manual", "paused", "drained", "flush", "behind", "crash", "reply lost", "request twice"}

type world struct {
	t      *testing.T
	rng    *rand.Rand
	redis  *miniredis.Miniredis
	client *redis.Client
	led    *Ledger
	log    bool

	epoch time.Time // of the model's clock, which is Redis'
	now   time.Duration
	queue events
	seq   int
	quiet bool // the faults are over

	jobs   map[string]policy // the old table
	edited map[string]policy // the new one
	hosts  []*daemon
	people
	checks
}

func newWorld(t *testing.T, m *miniredis.Miniredis, c *redis.Client, overlap string, seed uint64) *world {
	t.Helper()
	led, err := New(c, Options{Namespace: "m"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), redis: m, client: c, led: led,
		epoch: time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC),
	}
	w.checks = newChecks()
	m.FlushAll()
	m.SetTime(w.time())
	// Each seed has one of the six other combinations, so that all of them are met.
	p := policy{
		overlap: overlap, misfire: []string{"skip", "once", "all"}[seed%3], onCrash: []string{"skip", "rerun"}[seed/3%2],
		lock: "j", hash: "s1", definition: "d1", every: modelGap,
	}
	if w.chance(0.3) {
		p.lock = "shared"
	}
	w.jobs = map[string]policy{"j": p, "k": {overlap: "skip", misfire: "skip", onCrash: "skip", lock: "shared", hash: "k1", definition: "d1", every: 3 * modelGap / 2}}
	w.edited = map[string]policy{"j": w.edit(p), "k": w.jobs["k"]}
	for i := range 3 {
		w.hosts = append(w.hosts, &daemon{w: w, name: string(rune('a' + i))})
	}
	return w
}

func (w *world) run() {
	for _, h := range w.hosts {
		h.boot(w.jobs)
	}
	w.people.live(w)
	w.until(modelFaults)
	w.calm()
	w.until(modelFaults + modelQuiet)
	w.settled()
}

// until handles events up to an instant, or to the first fault.
func (w *world) until(end time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= end && len(w.faults) == 0 {
		if w.seq > modelEvents {
			w.fault("%d events, and no end: somebody asks again and again", w.seq)
		}
		e := heap.Pop(&w.queue).(event)
		w.now = max(w.now, e.at)
		e.do()
	}
	w.now = max(w.now, end)
	w.redis.SetTime(w.time())
}

// after does something later.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

func (w *world) time() time.Time                    { return w.epoch.Add(w.now) }
func (w *world) since(t time.Time) string           { return t.Sub(w.epoch).String() }
func (w *world) chance(p float64) bool              { return w.rng.Float64() < p }
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

func (w *world) trace(format string, args ...any) {
	if w.log {
		w.t.Logf("%9.3fs %s", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) token() locking.Token {
	var b [16]byte
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return locking.Token(hex.EncodeToString(b[:]))
}

// call sends a request through the network. Redis may get it never, late or twice; the reply,
// which is what handle returned, may get lost. Handle runs when Redis does, and returns what
// the host does with the reply.
func (w *world) call(h *daemon, handle func() (reply func())) {
	boot := h.boots
	arrive := func() func() {
		w.now += time.Microsecond // no two scripts run in one instant
		w.redis.SetTime(w.time())
		return handle()
	}
	delay, loss, twice := w.upTo(20*time.Millisecond), 0.08, 0.06
	if w.quiet {
		loss, twice = 0, 0
	} else if w.chance(0.04) {
		delay = w.upTo(2 * modelTTL) // lies in a connection of a server that is frozen
	}
	if w.chance(loss) {
		return
	}
	if w.chance(twice) {
		w.seen["request twice"]++
		w.after(delay+w.upTo(2*modelTTL), func() { arrive() })
	}
	w.after(delay, func() {
		if w.now < w.awayTo {
			return
		}
		reply := arrive()
		if w.chance(loss) || w.now < h.deafTo {
			w.seen["reply lost"]++
			return
		}
		back := w.upTo(20 * time.Millisecond)
		if !w.quiet && w.chance(0.03) {
			back = w.upTo(2 * modelTTL)
		}
		w.after(back, func() { h.awake(boot, reply) })
	})
}

// calm ends the faults: every host is up, none is drained, nothing is paused.
func (w *world) calm() {
	w.trace("the faults are over")
	w.quiet, w.awayTo = true, 0
	for _, h := range w.hosts {
		h.deafTo = 0
		w.drain(h, false)
		if !h.up {
			h.boot(h.table)
		}
	}
	for i, p := range w.paused {
		if p.until > w.now {
			w.pause(w.paused[i].from, w.now)
		}
	}
}

// events is a heap by time, then by the order in which they were made.
type (
	event struct {
		at  time.Duration
		seq int
		do  func()
	}
	events []event
)

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), q[i].seq-q[j].seq) < 0
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

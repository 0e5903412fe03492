package ledger

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rota/locking"
)

//go:embed claim.lua
var claimBody string

// Answer is how a claim ended.
type Answer string

// The answers to a claim. A claim that got none is unknown: its error is not nil.
const (
	Won     Answer = "won"     // the caller holds the lease and must run the tick, or abandon it
	Held    Answer = "held"    // somebody holds the lock; Decision.Decided says what became of the tick
	Already Answer = "already" // the tick is decided
	Early   Answer = "early"   // by Redis' clock the tick is not due for another Decision.Wait
	Late    Answer = "late"    // the start deadline has passed
	Behind  Answer = "behind"  // an older tick, after Decision.Base, must be claimed first
	Paused  Answer = "paused"  // the job or the fleet is paused until Decision.Base
	Drained Answer = "drained" // the host is told to claim nothing
	Future  Answer = "future"  // the record's cursor lies ahead of Redis' clock
)

// Decided is what a claim that was not won made of its tick.
type Decided string

// What can be decided. Undecided leaves the tick to be asked for again.
const (
	Undecided Decided = ""
	Skipped   Decided = "skipped" // the overlap policy, or a manual run that could not be
	Waiting   Decided = "waiting" // for the lock
	Missed    Decided = "missed"  // its start deadline had passed
)

// Found is what a tick was before it was won.
type Found string

// What a claim can find. FoundNew is a tick that nobody had claimed.
const (
	FoundNew   Found = ""
	FoundOpen  Found = "open"  // won before, and given back
	FoundWait  Found = "wait"  // it waited for the lock
	FoundRerun Found = "rerun" // run before, and lost with its host
)

// count is an answer that stays inside this package: the script found ticks that nobody
// decided and asks how many they are.
const count Answer = "count"

// Claim is one try to win one tick. Times are cut to milliseconds.
type Claim struct {
	Job   string // as [CheckName] wants it; one for each host is NAME@HOST
	Lock  string // the lock's name; likewise
	Lease string // the lease's name, where a policy gives runs of one lock leases of their own; "" is Lock

	Kind Kind      // Scheduled, Misfire or Manual; a rerun is recognised by the script
	Tick time.Time // of a manual run the instant it was asked for
	Due  time.Time // not before this; zero: Tick
	Prev time.Time // the tick before; zero: there is none
	Back time.Time // the oldest tick that misfire "all" would still run; zero: no such policy

	Deadline time.Time // the latest start; zero: none
	Known    time.Time // the newest tick of the job that the caller knows decided; a manual run's is none
	Since    time.Time // when the caller first loaded this schedule, by Redis' clock

	Run   string // id of the run this becomes; the caller's own, and new for every tick it claims
	Token locking.Token
	Host  string

	Definition   string
	ScheduleHash string
	TTL          time.Duration // of the lease, 1 ms or more
	Floor        int64         // the highest fencing token the caller ever saw of the lock
	Expire       time.Duration // of the job's keys, from now; TTL or more

	Overlap, Misfire, OnCrash string
	MaxParallel               int

	// Race says that the tick has just become due and is claimed unseen. Such a claim may lie in a server
	// that hangs until the lease of a run has ended whose host is well: what looks like a crash then is for
	// those to run again who have looked, and left that host the time to report. A newer tick goes before a
	// rerun all the same.
	Race bool

	Request string // id of the request a manual run answers
	Who     string // who made the request
	Force   bool   // also when the job is paused or barred
	Barred  string // why a manual run is refused without Force, and why a tick was not claimed in time; "": nothing is

	Table string // hash of the caller's table, and the job's place in it: Taken reads them
	Index int    // below 0: not marked

	// Count tells of the ticks in (after, until]. The ledger cannot: it knows no schedules. Nil
	// counts nothing, so gaps leave no entry.
	Count func(after, until time.Time) Ticks
}

// Ticks are ticks of one schedule, in a row.
type Ticks struct {
	N           int       // how many
	More        bool      // there are more than N: they were not all counted
	First, Last time.Time // zero if there are none
}

// Decision is the answer to a claim.
type Decision struct {
	Answer Answer
	Now    time.Time // Redis' clock
	Epoch  string    // changes when Redis forgot everything

	Fence  int64     // won: the fencing token; held: the holder's
	Found  Found     // won: what the tick was
	Reruns int       // won
	Won    time.Time // won: when, by Redis' clock

	Decided    Decided // held: Skipped, Waiting or Undecided (ask again); late: Missed or Undecided
	Holder     string  // held: the holding host
	HolderJob  string
	HolderRun  string
	HolderFrom time.Time     // zero if unknown
	Left       time.Duration // held: what is left of the lease

	Wait time.Duration // early
	Base time.Time     // behind: the newest decided instant; paused: its end; already, future: the cursor

	// Short is not nil if the tick was won and too few replicas confirm it (Options.WaitReplicas), or it is
	// not known whether they do. It matches [locking.ErrNotReplicated]. The caller must not run the tick
	// but give it back with [Ledger.Abandon], for it may be won again after a failover.
	Short error

	Unrun Ticks // ticks from before this one that nobody ran: this claim wrote the entries that say so

	Err error // the claim is unknown; nothing else is set
}

// Claim sends the claims in one pipeline and answers each. One that fails has Err; whether it
// was won is then unknown, and it must be sent again with the same Run and Token, or given
// back with [Ledger.Abandon]; one that lacks a required field is not sent and stays as it is.
// With Options.WaitReplicas a pipeline that wins anything answers when the replicas have, or after half
// of the time that ctx had left.
// Claims that find undecided ticks take a second round trip, for which there is as much time as ctx
// had left for the first: how long they take to count does not matter.
func (l *Ledger) Claim(ctx context.Context, claims []Claim) []Decision {
	out := make([]Decision, len(claims))
	gaps := make([]gap, len(claims))
	pending := make([]int, 0, len(claims))
	for i := range claims {
		if err := claims[i].check(); err != nil {
			out[i].Err = err
			continue
		}
		pending = append(pending, i)
	}
	trips := tripsOf(ctx)
	// A count is stale only if the record changed in between; the fourth try has seen enough.
	for try := 0; len(pending) > 0; try++ {
		calls := make([]locking.Call, len(pending))
		for k, i := range pending {
			calls[k] = l.claimCall(&claims[i], gaps[i])
		}
		var again []int
		trip, cancel := trips.begin(ctx)
		replies, short := l.claim.RunConfirmed(trip, l.client, l.replicas, calls)
		cancel()
		for k, r := range replies {
			i := pending[k]
			was := gaps[i].unrun
			out[i], gaps[i] = readDecision(claims[i].Job, r, claims[i].Count)
			switch out[i].Answer {
			case count:
			case Won, Held, Late: // they come after the gap
				if out[i].Answer == Won {
					out[i].Short = short
				}
				out[i].Unrun = was
				continue
			default:
				continue
			}
			if try == 3 {
				out[i] = Decision{Err: fmt.Errorf("ledger: claim %q: the record changes faster than its gaps are counted", claims[i].Job)}
				continue
			}
			again = append(again, i)
		}
		pending = again
	}
	return out
}

// check refuses what would do harm: keys that expire at once would forget that the tick ran.
func (c *Claim) check() error {
	switch {
	case c.Job == "" || c.Lock == "" || c.Run == "" || c.Host == "":
		return fmt.Errorf("ledger: claim %q: Job, Lock, Run and Host are required", c.Job)
	case len(c.Token) != 32:
		return fmt.Errorf("ledger: claim %q: Token has %d digits, want 32 of locking.NewToken", c.Job, len(c.Token))
	case c.TTL < time.Millisecond:
		return fmt.Errorf("ledger: claim %q: TTL is %s, want 1ms or more", c.Job, c.TTL)
	case c.Expire < c.TTL:
		return fmt.Errorf("ledger: claim %q: Expire is %s, want the TTL of %s or more", c.Job, c.Expire, c.TTL)
	case c.Kind != Scheduled && c.Kind != Misfire && c.Kind != Manual:
		return fmt.Errorf("ledger: claim %q: Kind is %q, want scheduled, misfire or manual", c.Job, c.Kind)
	}
	if err := cmp.Or(checkScoped(c.Job), checkScoped(c.Lock), CheckName(c.Host)); err != nil {
		return fmt.Errorf("ledger: claim %q: %w", c.Job, err)
	}
	return nil
}

// Check returns the fault for which [Ledger.Finish] would refuse the grant unasked: it is for grants
// that were read from somewhere else.
func (g *Grant) Check() error { return g.Claim.check() }

// gap is the script's question, ranges of undecided ticks, and the caller's answer.
type gap struct {
	asked, counts string
	unrun         Ticks // all of them
}

func countGap(asked string, count func(after, until time.Time) Ticks) (gap, error) {
	g := gap{asked: asked}
	var counts []string
	for r := range strings.SplitSeq(asked, ",") {
		from, until, ok := strings.Cut(r, ":")
		after, err1 := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(until, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return gap{}, fmt.Errorf("range %q is not FROM:UNTIL", r)
		}
		var t Ticks
		if count != nil {
			t = count(time.UnixMilli(after), time.UnixMilli(last))
		}
		more := ""
		if t.More {
			more = "+"
		}
		counts = append(counts, fmt.Sprintf("%d:%d:%d%s", millis(t.First), millis(t.Last), t.N, more))
		if t.N > 0 {
			if g.unrun.N == 0 {
				g.unrun.First = t.First
			}
			g.unrun.N, g.unrun.More, g.unrun.Last = g.unrun.N+t.N, g.unrun.More || t.More, t.Last
		}
	}
	g.counts = strings.Join(counts, ",")
	return g, nil
}

func (l *Ledger) claimCall(c *Claim, g gap) locking.Call {
	lease := c.Lease
	if lease == "" {
		lease = c.Lock
	}
	due := c.Due
	if due.IsZero() {
		due = c.Tick
	}
	taken := ""
	if c.Table != "" && c.Index >= 0 {
		taken = l.keys.taken(c.Table, strconv.FormatInt(c.Tick.Unix(), 10))
	}
	call := locking.Call{
		Keys: []string{l.keys.lease(lease), l.keys.fence(c.Lock), l.keys.record(c.Job)},
		Args: []any{
			l.keys.prefix, c.Job,
			millis(c.Tick), millis(due), millis(c.Prev), millis(c.Back),
			millis(c.Deadline), millis(c.Known), millis(c.Since),
			c.Run, c.Token.Reveal(), c.Host, string(c.Kind), c.Lock,
			c.Definition, c.ScheduleHash,
			c.TTL.Milliseconds(), c.Floor, l.fenceTTL.Milliseconds(), l.expireOf(c).Milliseconds(),
			c.Overlap, c.Misfire, c.onCrash(), c.MaxParallel,
		},
	}
	// What most claims have no use for goes last, and only as far as it is needed.
	switch {
	case c.Request != "" || c.Barred != "":
		call.Args = append(call.Args, taken, c.Index, g.asked, g.counts, c.Request, flag(c.Force), c.Barred, RequestPatience.Milliseconds())
	case g.asked != "":
		call.Args = append(call.Args, taken, c.Index, g.asked, g.counts)
	case taken != "":
		call.Args = append(call.Args, taken, c.Index)
	}
	return call
}

// onCrash is the policy as the script has it.
func (c *Claim) onCrash() string {
	if c.Race && c.OnCrash == "rerun" {
		return "supersede"
	}
	return c.OnCrash
}

// expireOf is how long the keys of the claim's job stay: never for less than its lease does.
func (l *Ledger) expireOf(c *Claim) time.Duration { return max(c.TTL, l.kept(c.Expire)) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func readDecision(job string, rep locking.Reply, ticks func(after, until time.Time) Ticks) (Decision, gap) {
	if rep.Err != nil {
		return Decision{Err: fmt.Errorf("claim %q: %w", job, rep.Err)}, gap{}
	}
	r := readReply("claim", job, rep.Value, 3)
	d := Decision{Answer: Answer(r.text(0)), Now: r.instant(1), Epoch: r.text(2)}
	var g gap
	switch d.Answer {
	case Won:
		d.Fence, d.Found, d.Reruns, d.Won = r.number(3), Found(r.text(4)), int(r.number(5)), r.instant(6)
	case Held:
		d.Decided, d.Holder, d.HolderJob, d.HolderRun = Decided(r.text(3)), r.text(4), r.text(5), r.text(6)
		d.HolderFrom, d.Left, d.Fence = r.instant(7), r.span(8), r.number(9)
	case Early:
		d.Wait = r.span(3)
	case Late:
		d.Decided = Decided(r.text(3))
	case Behind, Paused, Already, Future:
		d.Base = r.instant(3)
	case Drained:
	case count:
		var err error
		if g, err = countGap(r.text(3), ticks); err != nil {
			r.fail("%s", err)
		}
	default:
		r.fail("unknown answer %q", d.Answer)
	}
	if r.err != nil {
		return Decision{Err: r.err}, gap{}
	}
	return d, g
}

package shadow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rota/internal/config"
	"rota/internal/redistest"
	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// patience bounds every wait: a busy machine is slow, and not at fault.
const patience = 30 * time.Second

// onServer loads a config of a host on a server.
func onServer(t *testing.T, s *redistest.ServerProc, host, jobs string) *config.Config {
	t.Helper()
	c := tableOf(t, fmt.Sprintf(`
[redis]
url = "redis://%s"
op_timeout = "1500ms"
[lease]
ttl = "4s"
renew_every = "500ms"
loss_grace = "500ms"
%s`, s.Addr(), jobs))
	c.Host.Name = host
	return c
}

// dry is one dry run that goes on beside a test.
type dry struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	events []Event
	notes  []string
	report *Report
	err    error
}

func start(t *testing.T, opt Options) *dry {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d := &dry{t: t, stop: stop, done: make(chan struct{})}
	opt.Show = func(e Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}
	opt.Note = func(text string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.notes = append(d.notes, text)
	}
	go func() {
		defer close(d.done)
		d.report, d.err = Run(ctx, opt)
	}()
	t.Cleanup(func() { stop(); <-d.done })
	return d
}

// end ends it and returns the report.
func (d *dry) end() *Report {
	d.t.Helper()
	d.stop()
	<-d.done
	if d.err != nil {
		d.t.Fatalf("Run = %v, want a report", d.err)
	}
	return d.report
}

// seen are the events of a job so far, of one kind.
func (d *dry) seen(job string, what EventWhat) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.events), func(e Event) bool { return e.Job != job || e.What != what })
}

func (d *dry) await(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.done:
			d.t.Fatalf("the dry run ended, with %v, before %s", d.err, what)
		default:
		}
		if time.Now().After(end) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.t.Fatalf("not within %s: %s; events %v, notes %q", patience, what, d.events, d.notes)
		}
	}
}

func (d *dry) noted(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.notes, func(n string) bool { return strings.Contains(n, text) })
}

const (
	beat = "[jobs.beat]\nschedule = \"* * * * * *\"\ncommand = [\"false\"]\n"
	slow = "[jobs.slow]\nschedule = \"* * * * * *\"\ncommand = [\"false\"]\n"
)

// Two processes see one race: the same winner of each tick, and the same next one.
func TestRun_ProcessesAgree(t *testing.T) {
	s := redistest.Server(t)
	a := start(t, Options{Config: onServer(t, s, "a", beat), Hosts: 2})
	a.await("a alone has won", func() bool { return len(a.seen("beat", EventWon)) > 0 })
	b := start(t, Options{Config: onServer(t, s, "b", beat)})
	winners := map[string]bool{}
	b.await("b has seen some ticks, and several winners", func() bool {
		wins := b.seen("beat", EventWon)
		for _, e := range wins {
			winners[e.Host] = true
		}
		return len(wins) >= 7 && len(winners) > 1
	})
	byTick := func(events []Event) map[time.Time]Event {
		m := map[time.Time]Event{}
		for _, e := range events {
			if _, twice := m[e.Tick]; twice {
				t.Errorf("tick %s is won twice", e.Tick)
			}
			m[e.Tick] = e
		}
		return m
	}
	inB := byTick(b.seen("beat", EventWon))
	last := slices.MaxFunc(slices.Collect(maps.Keys(inB)), time.Time.Compare)
	a.await("a has seen the same", func() bool {
		return slices.ContainsFunc(a.seen("beat", EventWon), func(e Event) bool { return !e.Tick.Before(last) })
	})
	inA, raced := byTick(a.seen("beat", EventWon)), 0
	for tick, e := range inB {
		got := inA[tick]
		if got.Host != e.Host || !got.At.Equal(e.At) || got.Kind != e.Kind {
			t.Errorf("tick %s: one process says %+v, the other %+v", tick, got, e)
		}
		if e.Next != "" && e.Next == got.Next && e.Margin == got.Margin {
			raced++
		}
	}
	// On a machine that stalls, who comes next may be heard of too late for one of them.
	if raced < len(inB)/2 {
		t.Errorf("%d of %d ticks have one next host for both, want most", raced, len(inB))
	}
	ra, rb := a.end(), b.end()
	if len(ra.Hosts) != 3 || len(rb.Hosts) != 3 || !ra.Hosts[0].Here || ra.Hosts[2].Here || !rb.Hosts[2].Here {
		t.Errorf("hosts of the reports: %+v and %+v, want a-1, a-2 and b, here and there", ra.Hosts, rb.Hosts)
	}
	for _, h := range rb.Hosts {
		if h.ClockOffsetMS == nil || winners[h.Name] && (h.Claims.Count == 0 || h.Claims.P50MS <= 0 || h.Claims.P99MS < h.Claims.P50MS) {
			t.Errorf("host %s: %+v, want its clock and how long its claims took", h.Name, h)
		}
	}
	if rb.Commands.PeakPerS < 5 || rb.Jobs[0].MarginP50MS == nil {
		t.Errorf("report: commands %+v, margin %v", rb.Commands, rb.Jobs[0].MarginP50MS)
	}
}

// What a dry run leaves decides no tick of the next one, and is gone soon.
func TestRun_BeginsAnew(t *testing.T) {
	s := redistest.Server(t)
	c := onServer(t, s, "a", beat)
	d := start(t, Options{Config: c})
	d.await("a win", func() bool { return len(d.seen("beat", EventWon)) > 1 })
	first := d.end()
	for _, key := range s.Client().Keys(t.Context(), "*").Val() {
		ttl := s.Client().PTTL(t.Context(), key).Val()
		if !strings.HasPrefix(key, "{rota}~dry.") || ttl <= 0 || ttl > ledger.ShadowKept {
			t.Errorf("key %s is left for %s, want a shadow's for %s at most", key, ttl, ledger.ShadowKept)
		}
	}
	time.Sleep(1500 * time.Millisecond) // a tick passes without anybody
	began := time.Now()
	d = start(t, Options{Config: c})
	d.await("a win", func() bool { return len(d.seen("beat", EventWon)) > 1 })
	second := d.end()
	if first.Shadow == second.Shadow {
		t.Errorf("both were in %s, want another one", first.Shadow)
	}
	for _, e := range d.seen("beat", EventMissed) {
		if e.Tick.Add(-time.Duration(e.Count) * time.Second).Before(began.Add(-time.Second)) {
			t.Errorf("the second counts %d ticks as missed before %s, when nobody was there", e.Count, e.Tick)
		}
	}
}

func TestSession_LastsWhileSomebodyIsThere(t *testing.T) {
	s := redistest.Server(t)
	c := s.Client()
	joined := func() *session {
		t.Helper()
		got, err := join(t.Context(), c, "rota", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	one, two := joined(), joined()
	if one.id != two.id || one.id == "" {
		t.Errorf("ids %q and %q, want one", one.id, two.id)
	}
	if ttl := c.PTTL(t.Context(), sessionKey("rota")).Val(); ttl <= 0 || ttl > sessionKept {
		t.Errorf("the session lasts %s, want %s at most", ttl, sessionKept)
	}
	c.Del(t.Context(), sessionKey("rota")) // nobody was heard of: Redis was away, or all were killed
	pipe := c.Pipeline()
	kept := one.keep(t.Context(), pipe)
	if _, err := pipe.Exec(t.Context()); err != nil || kept.Val() != one.id {
		t.Errorf("keep after it expired = %q, %v; want its own id", kept.Val(), err)
	}
	two.end(t.Context(), c)
	three := joined()
	if three.id == one.id {
		t.Error("who comes after the end joins what has ended")
	}
	one.end(t.Context(), c)
	if got := c.Get(t.Context(), sessionKey("rota")).Val(); got != three.id {
		t.Errorf("the end of another session left %q, want %q", got, three.id)
	}
}

// A lease is held as long as the runs in the ledger took: half of them took less.
func TestRun_HoldsAsLongAsThePast(t *testing.T) {
	s := redistest.Server(t)
	c := onServer(t, s, "a", slow+beat+"[jobs.each]\nschedule = \"@daily\"\nscope = \"host\"\ncommand = [\"false\"]\n")
	led, err := ledger.New(s.Client(), ledger.Options{Namespace: "rota"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ran := func(job string, took time.Duration, outcome jobs.Outcome) {
		t.Helper()
		n++
		from := time.Now().Add(-time.Hour)
		claim := ledger.Claim{
			Job: job, Lock: job, Kind: ledger.Scheduled, Tick: from.Add(time.Duration(n) * time.Second).Truncate(time.Second),
			Run: fmt.Sprint("run", n), Token: locking.NewToken(), Host: "web", TTL: time.Minute, Expire: time.Hour,
			Overlap: "skip", Misfire: "skip", OnCrash: "skip", MaxParallel: 1,
		}
		d := led.Claim(t.Context(), []ledger.Claim{claim})[0]
		if d.Answer != ledger.Won {
			t.Fatalf("claim %d: %+v", n, d)
		}
		_, err := led.Finish(t.Context(), &ledger.Grant{Claim: claim, Fence: d.Fence, Won: d.Won}, ledger.Ending{
			Outcome: string(outcome), Attempt: 1, Started: from, Ended: from.Add(took),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for took, outcome := range map[time.Duration]jobs.Outcome{
		2 * time.Second: jobs.Succeeded, 2500 * time.Millisecond: jobs.Failed, 30 * time.Second: jobs.TimedOut,
		time.Millisecond: jobs.Cancelled, 2 * time.Millisecond: jobs.Interrupted, 3 * time.Millisecond: jobs.Lost,
	} {
		ran("slow", took, outcome)
	}
	if _, err := led.Beat(t.Context(), ledger.Host{Name: "web"}, "x", "0"); err != nil {
		t.Fatal(err)
	}
	ran("each@web", 7*time.Second, jobs.Succeeded)
	if _, err := led.Pause(t.Context(), "beat", 0, ledger.By{Who: "ann"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := led.DrainHost(t.Context(), "web", false, ledger.By{Who: "ann"}); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		assume time.Duration
		want   map[string]Hold
	}{
		{0, map[string]Hold{"slow": {2500 * time.Millisecond, FromLedger, 3}, "beat": {0, FromNone, 0}, "each": {7 * time.Second, FromLedger, 1}}},
		{5 * time.Second, map[string]Hold{"slow": {2500 * time.Millisecond, FromLedger, 3}, "beat": {5 * time.Second, Assumed, 0}, "each": {7 * time.Second, FromLedger, 1}}},
	} {
		p, err := readPast(t.Context(), led, c, tc.assume)
		if err != nil || !maps.Equal(p.holds, tc.want) {
			t.Errorf("with --assume %s: holds %v, %v; want %v", tc.assume, p.holds, err, tc.want)
		}
	}

	d := start(t, Options{Config: c})
	d.await("slow is skipped for itself and won again", func() bool {
		return len(d.seen("slow", EventSkipped)) >= 2 && len(d.seen("slow", EventWon)) >= 2
	})
	r := d.end()
	for i, e := range d.seen("slow", EventWon) {
		if e.Holds != 2500*time.Millisecond {
			t.Errorf("the lease is held for %s, want 2.5s", e.Holds)
		}
		if wins := d.seen("slow", EventWon); i > 0 && e.At.Sub(wins[i-1].At) < 2500*time.Millisecond {
			t.Errorf("won %s after the win before, which held it for 2.5s", e.At.Sub(wins[i-1].At))
		}
	}
	for _, e := range d.seen("slow", EventSkipped) {
		if e.HolderJob != "slow" || e.Holder != "a" {
			t.Errorf("skipped for %s on %s, want slow on a", e.HolderJob, e.Holder)
		}
	}
	if n := len(d.seen("beat", EventSkipped)); n != 0 {
		t.Errorf("beat, which holds its lease not at all, was skipped %d times", n)
	}
	if !d.noted("beat is paused") || !d.noted("web is drained") {
		t.Errorf("notes %q: want beat's pause and web's drain", d.notes)
	}
	for _, j := range r.Jobs {
		if j.Paused != (j.Name == "beat") {
			t.Errorf("%s: paused %t", j.Name, j.Paused)
		}
	}
}

// A Redis that goes away is said, and the race goes on when it is back.
func TestRun_RedisGoesAway(t *testing.T) {
	s := redistest.Server(t)
	d := start(t, Options{Config: onServer(t, s, "a", beat), Hosts: 2})
	d.await("a win", func() bool { return len(d.seen("beat", EventWon)) > 0 })
	s.Stop()
	d.await("it is said", func() bool { return d.noted("redis went away") })
	s.Start()
	d.await("it is said", func() bool { return d.noted("redis came back") })
	n := len(d.seen("beat", EventWon))
	d.await("wins after that", func() bool { return len(d.seen("beat", EventWon)) > n+1 })
	d.end()
	for _, what := range []string{"went away", "came back"} {
		if n := len(slices.DeleteFunc(slices.Clone(d.notes), func(s string) bool { return !strings.Contains(s, what) })); n != 1 {
			t.Errorf("%q was said %d times for two hosts, want once: %q", what, n, d.notes)
		}
	}
}

// At the start it waits for Redis, and says so; one that refuses is an error at once.
func TestRun_NeedsRedisToBegin(t *testing.T) {
	s := redistest.Server(t)
	c := onServer(t, s, "a", beat)
	s.Stop()
	d := start(t, Options{Config: c})
	d.await("it is said", func() bool { return d.noted("redis is away") })
	d.stop()
	<-d.done
	if !errors.Is(d.err, locking.ErrUnavailable) {
		t.Errorf("Run without a Redis = %v, want ErrUnavailable", d.err)
	}
	d = start(t, Options{Config: c})
	s.Start()
	d.await("a win", func() bool { return len(d.seen("beat", EventWon)) > 0 })
	d.end()

	s.Do("ACL", "SETUSER", "default", "resetkeys", "~{rota}:*")
	if _, err := Run(t.Context(), Options{Config: c}); err == nil || errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("Run without a right to the shadow's keys = %v, want a refusal", err)
	}
}

// The user of docs/deployments.md, with what it says there of a dry run, is enough.
func TestRun_AsAnACLUser(t *testing.T) {
	page, err := os.ReadFile("../../docs/deployments.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^ACL SETUSER rota on .*$").FindString(string(page))
	more := regexp.MustCompile("(?m)^\\| `rota run --dry-run` \\| `(.*)` \\|$").FindStringSubmatch(string(page))
	if line == "" || more == nil {
		t.Fatal("docs/deployments.md has no line for a user, or none for a dry run's")
	}
	s := redistest.Server(t)
	var do []any
	for word := range strings.FieldsSeq(strings.Replace(line, ">SECRET", ">secret", 1) + " " + more[1]) {
		do = append(do, word)
	}
	s.Do(do...)
	c := onServer(t, s, "a", beat)
	c.Redis.Username, c.Redis.Password = "rota", config.NewSecret("secret")
	d := start(t, Options{Config: c, Hosts: 2})
	d.await("wins", func() bool { return len(d.seen("beat", EventWon)) > 1 })
	d.end()
	if denied := s.Do("ACL", "LOG"); fmt.Sprint(denied) != "[]" {
		t.Errorf("Redis denied the user something: %v", denied)
	}
}

func TestStartGap(t *testing.T) {
	for jobs, want := range map[int]time.Duration{0: 0, 10: 3 * time.Millisecond, 1000: 300 * time.Millisecond} {
		if got := startGap(jobs); got != want {
			t.Errorf("startGap(%d) = %s, want %s", jobs, got, want)
		}
	}
}

func TestRun_Options(t *testing.T) {
	c := tableOf(t, beat)
	for name, o := range map[string]Options{
		"no config": {}, "hosts": {Config: c, Hosts: MostHosts + 1}, "fewer": {Config: c, Hosts: -1},
		"for": {Config: c, For: -1}, "assume": {Config: c, Assume: -1},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: Run has no fault to find, want one", name)
		}
	}
	long := *c
	long.Host.Name = strings.Repeat("h", 63)
	if _, err := (&Options{Config: &long, Hosts: 10}).names(); err == nil {
		t.Error("names that are too long are no fault")
	}
}

package locking

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"rota/internal/redistest"
)

// Histories of one lock: processes that take it as fast as they can, while they are killed and frozen
// and replies to them are lost. Each tells what it saw, on a clock that all of the machine share.
const (
	historyTTL       = 400 * time.Millisecond
	historyProcesses = 8
)

func historyAcquires() int {
	if underRace { // of two processors nothing is left then
		return 100
	}
	return 1000
}

// historyChild takes the lock n times. It prints when it began to try, when it had the lock and with
// which token, when it last knew that its lease was good, and when it had released it.
func historyChild(l *Locker, n int) error {
	for range n {
		fmt.Println("try", int64(boottime()))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		lease, err := l.Acquire(ctx, "shared")
		cancel()
		if err != nil {
			return err
		}
		fmt.Println("got", int64(boottime()), lease.FencingToken())
		good := int64(0)
		for range 3 { // this is what it does inside: whatever it did, it would do it while it may
			now := int64(boottime())
			if !lease.Valid() {
				break
			}
			good = now
			time.Sleep(100 * time.Microsecond)
		}
		fmt.Println("out", good)
		_ = lease.Release(context.Background())
		fmt.Println("end", int64(boottime()))
	}
	return nil
}

// inside is one time that a process had the lock: asked for it at try, had it at got, was in it at
// least until good, and was surely out of it at end; math.MaxInt64 of one that was killed.
type inside struct {
	process             int
	token               int64
	try, got, good, end int64
}

// history gathers what the processes tell.
type history struct {
	t     *testing.T
	addr  string
	times int // each process takes the lock

	mu      sync.Mutex
	all     []inside
	running map[int]*exec.Cmd
	wg      sync.WaitGroup
}

// process is one place of eight. A process that is killed has a successor, which does the rest.
func (h *history) process(i int) {
	for left := h.times; left > 0; {
		cmd := childCommand(h.t, "history", h.addr, strconv.Itoa(left))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			h.t.Error(err)
			return
		}
		h.mu.Lock()
		h.running[i] = cmd
		h.mu.Unlock()
		var told []inside
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var what string
			var at, token int64
			_, _ = fmt.Sscan(lines.Text(), &what, &at, &token)
			if what == "try" {
				told = append(told, inside{process: i, try: at, end: math.MaxInt64})
				continue
			}
			last := &told[len(told)-1]
			switch what {
			case "got":
				last.got, last.token = at, token
				left--
			case "out":
				last.good = at
			case "end":
				last.end = at
			}
		}
		err = cmd.Wait()
		h.mu.Lock()
		delete(h.running, i)
		h.all = append(h.all, told...)
		h.mu.Unlock()
		if err != nil && !strings.Contains(err.Error(), "killed") {
			h.t.Errorf("process %d: %v", i, err)
			return
		}
	}
}

// disturb kills a process, or freezes one for longer than the lease, until all are done.
func (h *history) disturb(done <-chan struct{}) (kills, freezes int) {
	rng := rand.New(rand.NewPCG(7, 7))
	for {
		select {
		case <-done:
			return kills, freezes
		case <-time.After(time.Duration(100+rng.IntN(300)) * time.Millisecond):
		}
		h.mu.Lock()
		cmd := h.running[rng.IntN(historyProcesses)]
		h.mu.Unlock()
		if cmd == nil {
			continue
		}
		if rng.IntN(2) == 0 {
			_ = cmd.Process.Kill()
			kills++
			continue
		}
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(historyTTL + historyTTL/2)
		_ = cmd.Process.Signal(syscall.SIGCONT)
		freezes++
	}
}

func recordHistory(t *testing.T, p *redistest.FaultProxy, times int, meanwhile func()) []inside {
	t.Helper()
	h := &history{t: t, addr: p.Addr(), times: times, running: map[int]*exec.Cmd{}}
	for i := range historyProcesses {
		h.wg.Go(func() { h.process(i) })
	}
	done := make(chan struct{})
	go func() {
		h.wg.Wait()
		close(done)
	}()
	go func() {
		scripts, before := redistest.Named("evalsha"), 0

		for range time.Tick(50 * time.Millisecond) {
			select {
			case <-done:
				return
			default:
			}
			// As long as they get through: on a machine that is too busy they would hear nothing else.
			if n := p.Count(scripts); n > before+10 {
				before = n
				p.DropReplies(1, scripts)
				meanwhile()
			}
		}
	}()
	kills, freezes := h.disturb(done)
	if kills == 0 || freezes == 0 {
		t.Errorf("%d kills and %d freezes, want some of each", kills, freezes)
	}
	var had []inside
	for _, x := range h.all {
		if x.token > 0 { // else nobody knows whether it had it, and it did nothing with it
			had = append(had, x)
		}
	}
	if want := historyProcesses * h.times; len(had) != want {
		t.Errorf("the lock was had %d times, want %d", len(had), want)
	}
	t.Logf("%d times inside; %d kills, %d freezes", len(had), kills, freezes)
	return had
}

// A sequential lock: free or held, and the newest token.
type lockState struct {
	held   bool
	newest int64
}

type lockStep struct {
	enters bool
	token  int64
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, step := state.(lockState), input.(lockStep)
		if step.enters {
			return !s.held && step.token > s.newest, lockState{held: true, newest: step.token}
		}
		return s.held && s.newest == step.token, lockState{newest: s.newest}
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// operations of a history. Whoever was killed inside may have been so for a while, and is out whenever
// that suits: its lease ends by itself.
func operations(all []inside) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, x := range all {
		out := x.got
		if x.good > 0 {
			out = x.good
		} else if x.end != math.MaxInt64 {
			out = x.try // it was never inside: frozen before it could be
		}
		ops = append(ops,
			porcupine.Operation{ClientId: x.process, Input: lockStep{true, x.token}, Call: x.try, Return: x.got},
			porcupine.Operation{ClientId: x.process, Input: lockStep{false, x.token}, Call: out, Return: x.end})
	}
	return ops
}

func TestHistory_MutualExclusion(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	all := recordHistory(t, redistest.Proxy(t, s.Addr()), historyAcquires(), func() {})
	if got := porcupine.CheckOperationsTimeout(lockModel, operations(all), time.Minute); got != porcupine.Ok {
		t.Errorf("porcupine: %s", got)
	}
}

// Redis forgets again and again. Then two can be inside, but tokens rise.
func TestHistory_TokensRiseOverFlushes(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	c, ctx := s.Client(), t.Context()
	n := 0
	all := recordHistory(t, redistest.Proxy(t, s.Addr()), historyAcquires()/4, func() {
		if n++; n%4 == 0 {
			_ = c.FlushAll(ctx).Err()
		}
	})
	var spans []grantSpan
	for _, x := range all {
		spans = append(spans, grantSpan{x.try, x.got, x.token})
	}
	if err := checkOrder(spans); err != nil {
		t.Error(err)
	}
}

// The checker must see faults.
func TestHistory_CheckerSeesFaults(t *testing.T) {
	good := []inside{{1, 5, 0, 10, 20, 30}, {2, 6, 5, 25, 40, 50}, {3, 8, 26, 60, 70, math.MaxInt64}, {4, 9, 26, 100, 110, 120}}
	if got := porcupine.CheckOperationsTimeout(lockModel, operations(good), time.Minute); got != porcupine.Ok {
		t.Errorf("a good history: got %s", got)
	}
	for name, change := range map[string]func([]inside){
		"two inside at once":          func(h []inside) { h[1].got = 15; h[1].good = 16 },
		"a token twice":               func(h []inside) { h[1].token = 5 },
		"a token that fell":           func(h []inside) { h[1].token = 4 },
		"one inside before the other": func(h []inside) { h[3].try, h[3].got, h[3].good = 61, 62, 65 },
	} {
		bad := append([]inside{}, good...)
		change(bad)
		if name == "one inside before the other" {
			bad[2].end = 90 // it was inside from 60 to 70 at least
		}
		if got := porcupine.CheckOperationsTimeout(lockModel, operations(bad), time.Minute); got != porcupine.Illegal {
			t.Errorf("%s: got %s, want it to be illegal", name, got)
		}
	}
}

//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A hand turns the loop of a warden that this process is, round by round, and is its daemon.
type hand struct {
	*server
	daemon int // its end of the connection
}

func newHand() (*hand, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	s, err := newServer(int(theirs.Fd()), nil)
	if err != nil {
		return nil, err
	}
	return &hand{s, int(ours.Fd())}, nil
}

// say sends a message to the loop.
func (h *hand) say(m message) {
	if err := send(h.daemon, m.append(nil)); err != nil {
		panic(err)
	}
}

// round is what the loop does between two waits.
func (h *hand) round() {
	h.flush()
	h.read()
	if j := h.spawner.take(); j != nil {
		h.spawned(j)
	}
	h.answered()
	h.settle()
	h.startNext()
}

// heard returns what the loop has said, without what it says first and what strays it saw.
func (h *hand) heard() (all []message) {
	h.flush()
	buf := make([]byte, maxPacket)
	for {
		packet, _, err := receive(h.daemon, buf)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		if err != nil {
			panic(err)
		}
		m, err := decode(append([]byte(nil), packet...))
		if err != nil {
			panic(err)
		}
		if _, ok := m.(readyMessage); !ok {
			all = append(all, m)
		}
	}
}

// until turns the loop until ok says so.
func (h *hand) until(what string, ok func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !ok(); h.round() {
		if time.Now().After(deadline) {
			panic("not after 20s: " + what)
		}
	}
}

// crowded starts a run that has a crowd outside of its process group, and takes no SIGTERM.
func (h *hand) crowded() *served {
	started := os.TempDir() + fmt.Sprintf("/crowd-%d", os.Getpid())
	defer os.Remove(started)
	script := "trap '' TERM; " + crowdScript("setsid sleep 300") + ": >" + started + "; while :; do sleep 300; done"
	body := (&spec{run: "crowded", path: "/bin/sh", dir: "/", args: Shell(script)}).encode()
	h.say(startMessage{run: 1, spec: body, specLen: uint32(len(body))})
	h.until("the run is started", func() bool { return h.runs[1] != nil && h.runs[1].pid != 0 })
	h.until("the crowd is there", func() bool { _, err := os.Stat(started); return err == nil && len(h.living()) > crowd })
	return h.runs[1]
}

// living are the live processes below this one.
func (h *hand) living() (all []int) {
	h.orphans.tree.below(os.Getpid(), func(p process, _ procStat) { all = append(all, p.pid) })
	return all
}

// turnTheLoop is a warden without any time to look at processes, and says what it does all the same.
func turnTheLoop() {
	h, err := newHand()
	if err != nil {
		fmt.Println(err)
		return
	}
	h.ration = ration{}
	r := h.crowded()
	h.heard()

	// Nobody dies of this, so it is known who has got it.
	h.say(endMessage{run: 1, grace: time.Hour})
	h.say(pingMessage{seq: 7})
	h.round()
	fmt.Printf("after one round of SIGTERM it has said %T\n", h.heard()[0])
	fmt.Println("few have been looked at:", len(r.family.told) < 3)
	h.until("all have been looked at", func() bool { return r.family.walk == nil })
	fmt.Println("then all:", len(r.family.told) > crowd)

	h.say(endMessage{run: 1, grace: -1})
	h.round()
	for n := 0; n < 1000 && !hasExited(r.pid); n++ {
		time.Sleep(10 * time.Millisecond) // it is dying
	}
	fmt.Println("the group is dead:", hasExited(r.pid), "most others live:", len(h.living()) > crowd*9/10)

	h.round()
	fmt.Println("few orphans have been looked at:", len(h.orphans.all) < 3)
	rounds := 1
	for ; h.runs[1] != nil; rounds++ {
		h.round()
	}
	fmt.Println("it took a round for each at least:", rounds > crowd)
	end, _ := h.heard()[0].(endedMessage)
	fmt.Println("ended:", end.run, end.killed, "live:", len(h.living()))
}

// A look at thousands of processes does not keep the loop from what else there is to do; and those that can be
// killed without a look do not wait for it.
func TestServer_GoesOnBetweenLooks(t *testing.T) {
	text, err := play(t, "loop", "").Output()
	if err != nil {
		t.Error(err)
	}
	want := strings.Join([]string{
		"after one round of SIGTERM it has said jobs.pongMessage",
		"few have been looked at: true",
		"then all: true",
		"the group is dead: true most others live: true",
		"few orphans have been looked at: true",
		"it took a round for each at least: true",
		"ended: 1 true live: 0",
		"",
	}, "\n")
	if string(text) != want {
		t.Errorf("it printed\n%s\nwant\n%s", text, want)
	}
}

// The loop's thread alone has more priority than the daemon, where this user may give it that, but while others
// work for it at a start. Nothing that it starts ever has.
func TestWarden_Hurries(t *testing.T) {
	own, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	niceOf := func(pid int) (hurried, others int) {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name())
			switch attr, err := unix.SchedGetAttr(tid, 0); {
			case err != nil: // it has ended
			case attr.Nice == highest:
				hurried++
			case attr.Nice == own.Nice:
				others++
			default:
				t.Errorf("a thread of %d has nice %d", pid, attr.Nice)
			}
		}
		return hurried, others
	}
	w := startWarden(t)
	want := 0
	if MayNice(highest) == nil {
		want = 1
	}
	hurries := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d threads have more priority", want), func() bool {
			hurried, others := niceOf(w.PID())
			return hurried == want && others > 1
		})
	}
	hurries(want)
	for range 3 {
		run, out := testRun(t)
		in(w, "nice").Run(t.Context(), run)
		if want := fmt.Sprintln(own.Nice); out.String() != want {
			t.Errorf("nice of a run is %q, want %q", out, want)
		}
	}
	path, free := hangingExec(t)
	defer free()
	run, _ := testRun(t)
	kill := make(chan struct{})
	run.Kill = kill
	ended := make(chan Result, 1)
	go func() { ended <- in(w, path).Run(t.Context(), run) }()
	eventually(t, "exec hangs", func() bool { return len(forkedBy(t, w.PID())) == 1 })
	hurries(0)
	close(kill)
	<-ended
	hurries(want)
}

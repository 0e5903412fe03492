package scheduler

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// A tick of every second while the only replica comes and goes: what it has not is given back, and runs
// when it is there again if there is still time; nothing runs twice, and each tick is accounted for.
func TestServer_WaitReplicas(t *testing.T) {
	t.Parallel()
	f, master := onServer(t)
	replica := redistest.Replica(t, master)
	j := job(t, "j", "* * * * * *", f.handler(10*time.Millisecond))
	var log safeLog
	for _, name := range names(2) {
		f.start(name, func(o *Options) {
			led, err := ledger.New(f.client(), ledger.Options{Namespace: "t", Keep: f.keep, WaitReplicas: 1})
			if err != nil {
				t.Fatal(err)
			}
			o.Ledger, o.OpTimeout, o.Logger = led, 600*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
		}, j)
	}
	time.Sleep(2500 * time.Millisecond)
	replica.Freeze()
	frozen := time.Now()
	time.Sleep(200 * time.Millisecond) // what was won just before has its run
	before := len(f.ran())
	time.Sleep(3500 * time.Millisecond)
	if n := len(f.ran()); n != before {
		t.Errorf("%d runs while the replica hung, want none", n-before)
	}
	replica.Thaw()
	thawed := time.Now()
	time.Sleep(3500 * time.Millisecond)
	runs, others := f.accounts(j, f.ran()[0].Tick, time.Now().Add(-2*time.Second))
	if before == 0 || runs < 3 || others == 0 {
		t.Errorf("%d runs before the replica hung, %d in all, %d ticks without one; want some of each", before, runs, others)
	}
	given := 0
	for _, e := range f.history("j") {
		if e.Run == "" && e.Tick.After(frozen) && e.Tick.Before(thawed) && strings.Contains(e.Reason, "0 of its replicas have it in time, and 1 must") {
			given++
		}
	}
	if given == 0 {
		t.Errorf("no tick says why it has no run: %q", f.says("j"))
	}
	if text := log.String(); strings.Count(text, "win given back") > 2 || !strings.Contains(text, "replicas have it in time") {
		t.Errorf("the log has %d lines of wins given back, want one a host, with the reason:\n%s", strings.Count(text, "win given back"), text)
	}
}

// safeLog collects what several write.
type safeLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

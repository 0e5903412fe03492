package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rota/internal/config"
	"rota/jobs"
	"rota/locking"
	"rota/scheduler"
)

func lockConfig() *config.Config {
	return &config.Config{
		Redis: config.Redis{OpTimeout: 1500 * time.Millisecond},
		Lease: config.Lease{TTL: 30 * time.Second, RenewEvery: 5 * time.Second, LossGrace: 5 * time.Second},
	}
}

func TestLockTimes_KeepTheProportions(t *testing.T) {
	c := lockConfig()
	for flag, want := range map[string]leaseTimes{
		"":      {30 * time.Second, 5 * time.Second, 5 * time.Second},
		"6s":    {6 * time.Second, time.Second, time.Second},
		"1m":    {time.Minute, 10 * time.Second, 10 * time.Second},
		"300ms": {300 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		if got, err := lockTimes(c, flag); err != nil || got != want {
			t.Errorf("lockTimes(%q) = %v, %v, want %v", flag, got, err, want)
		}
	}
}

// The shortest that is named is taken, and a millisecond less is not.
func TestLockTimes_NameTheShortest(t *testing.T) {
	c := lockConfig()
	_, err := lockTimes(c, "10ms")
	if err == nil {
		t.Fatal("lockTimes(10ms) took it")
	}
	_, text, _ := strings.Cut(err.Error(), "the smallest that will do is ")
	least, parseErr := time.ParseDuration(text)
	if parseErr != nil {
		t.Fatalf("lockTimes(10ms) said %q", err)
	}
	got, err := lockTimes(c, least.String())
	if err != nil {
		t.Fatalf("lockTimes(%s), which was named, = %v", least, err)
	}
	if need := scheduler.LeastTTL(got.renewEvery, got.grace, 0); got.ttl < need {
		t.Errorf("lockTimes(%s) = %v, in which no three renewals and the grace fit (%s)", least, got, need)
	}
	if _, err := lockTimes(c, (least - time.Millisecond).String()); err == nil {
		t.Errorf("lockTimes takes 1ms less than what it says is the smallest, %s", least)
	}
}

// What became of a lease is told once, and in words.
func TestHold_SaysHowTheLeaseWasLost(t *testing.T) {
	code := 143
	result := jobs.Result{Outcome: jobs.Lost, ExitCode: &code}
	trouble := errors.New("redis does not answer")
	for _, c := range []struct {
		name          string
		over, trouble error
		want          string
	}{
		{"a renewal failed last", &locking.LossError{Name: "db", Reason: locking.ReasonDeadline, Err: trouble}, nil, "db: the lease was lost: it could not be renewed in time: said"},
		{"none came back", &locking.LossError{Name: "db", Reason: locking.ReasonDeadline}, nil, "db: the lease was lost: it could not be renewed in time; this process may have been stopped"},
		{"the warden was first", nil, trouble, "db: the lease was lost: it could not be renewed in time: said"},
		{"it was the warden alone", nil, nil, "db: the lease was lost: it could not be renewed in time; this process may have been stopped"},
	} {
		h := &hold{over: c.over, trouble: c.trouble}
		e, ok := errors.AsType[*exitError](h.lost("db", result, nil, func(error) string { return "said" }))
		if !ok || e.code != exitLost || e.text != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, e, c.want)
		}
	}
}

func TestHeldBy_NamesEveryKindOfHolder(t *testing.T) {
	now := time.Date(2026, 11, 29, 2, 10, 0, 0, time.UTC)
	token := now.Add(-10 * time.Minute).UnixMicro()
	for _, c := range []struct {
		holder string
		token  int64
		want   string
	}{
		{"web-1//lock:42", token, "web-1 (rota lock, pid 42) since 02:00Z, and for another 25s if it is not renewed"},
		{"web-1/backup/01JD", token, "web-1 for backup (run 01JD) since 02:00Z, and for another 25s if it is not renewed"},
		{"db-9/other/", token, "db-9 for other since 02:00Z, and for another 25s if it is not renewed"},
		{"worker 7\x1b[2J", 7, "worker 7\uFFFD[2J, and for another 25s if it is not renewed"},
	} {
		e := &locking.HeldError{Name: "db", Holder: c.holder, FencingToken: c.token, Remaining: 25 * time.Second}
		if got := heldBy(e, now); got != c.want {
			t.Errorf("heldBy(%q) = %q, want %q", c.holder, got, c.want)
		}
	}
}

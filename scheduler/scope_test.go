package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"rota/scheduler/ledger"
)

// A pause of a job that runs on every host holds wherever the job is, or comes to be, while it lasts, and
// each host's own record has the ticks that it missed and those that were skipped.
func TestScope_PauseOnEveryHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		own := job(t, "own", "* * * * *", f.handler(time.Second))
		own.Scope = ScopeHost
		pause := func(from, end string) {
			t.Helper()
			until(t, from)
			if _, err := f.led.Pause(t.Context(), ledger.EveryHost("own"), 0, tester, time.Hour); err != nil {
				t.Fatal(err)
			}
			until(t, end)
			if ok, err := f.led.Resume(t.Context(), ledger.EveryHost("own"), tester); err != nil || !ok {
				t.Fatalf("Resume = %t, %v, want the pause ended", ok, err)
			}
		}
		f.start("h0", nil, own)
		var h1 *host
		go func() {
			until(t, "00:04:30")
			h1 = f.start("h1", nil, own)
		}()
		pause("00:02:30", "00:06:30")
		until(t, "00:07:30")
		h1.stop()
		<-h1.ended
		pause("00:08:30", "00:10:30")
		pause("00:12:30", "00:13:30")
		until(t, "00:14:45")
		f.start("h1", nil, own)
		until(t, "00:15:30")
		f.wantTicks("own@h0", []string{
			"00:01:00 succeeded", "00:02:00 succeeded", "00:03:00…00:06:00 (4) skipped", "00:07:00 succeeded",
			"00:08:00 succeeded", "00:09:00…00:10:00 (2) skipped", "00:11:00 succeeded", "00:12:00 succeeded",
			"00:13:00 skipped", "00:14:00 succeeded", "00:15:00 succeeded",
		})
		f.wantTicks("own@h1", []string{
			"00:05:00…00:06:00 (2) skipped", "00:07:00 succeeded",
			"00:08:00 missed", "00:09:00…00:10:00 (2) skipped", "00:11:00…00:12:00 (2) missed",
			"00:13:00 skipped", "00:14:00 missed", "00:15:00 succeeded",
		})
	})
}

// Redis forgets everything under such a pause, and is told of it again.
func TestScope_PauseOnEveryHostSurvivesAFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		own := job(t, "own", "* * * * *", f.handler(time.Second))
		own.Scope = ScopeHost
		f.start("h0", nil, own)
		until(t, "00:01:30")
		if _, err := f.led.Pause(t.Context(), ledger.EveryHost("own"), 0, tester, time.Hour); err != nil {
			t.Fatal(err)
		}
		until(t, "00:01:40")
		f.redis.FlushAll()
		until(t, "00:03:30")
		f.start("h1", nil, own)
		until(t, "00:05:30")
		if n := len(f.ran()); n != 1 {
			t.Errorf("%d ticks ran, want the one before the pause", n)
		}
	})
}

// Its record is kept as long as the job is in a table, or a pause until it is resumed would end by itself.
func TestScope_PauseOnEveryHostIsTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		own := job(t, "own", "0 0 1 * *", f.handler(time.Second))
		own.Scope = ScopeHost
		if _, err := f.led.Pause(t.Context(), ledger.EveryHost("own"), 0, tester, 48*time.Hour); err != nil {
			t.Fatal(err)
		}
		f.start("h0", nil, own) // it touches its table at once, and then once a day
		time.Sleep(5 * time.Second)
		if left := f.redis.TTL("{t}:job:own@*"); left < 60*24*time.Hour {
			t.Errorf("the record of the pause expires in %s, want two gaps of the schedule and a day", left)
		}
	})
}

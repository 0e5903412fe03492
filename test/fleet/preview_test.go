package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rota/internal/preview"
	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// previewTable has ticks that always run, that always find their own run going, or another job's, and
// that wait; all by margins of half a second.
const previewTable = `
[history]
keep = 500
[jobs.often]
schedule = "* * * * * *"
command = ["true"]
[jobs.own]
schedule = "0-59/4,1-59/4 * * * * *"
command = ["sleep", "1.5"]
[jobs.holder]
schedule = "*/6 * * * * *"
command = ["sleep", "2.5"]
lock = "shared"
[jobs.loser]
schedule = "1-59/6,4-59/6 * * * * *"
command = ["true"]
lock = "shared"
[jobs.waiter]
schedule = "2-59/6 * * * * *"
command = ["true"]
lock = "shared"
overlap = "queue"
[jobs.beside]
schedule = "0-59/3,1-59/3 * * * * *"
command = ["sleep", "1.4"]
overlap = "allow"
`

// Five real daemons run a table for a while, and the preview of the same while on the same hosts comes to
// the same: as many ticks of each job, as many of them skipped, and each host's share of the wins within
// 15 points. ROTA_PREVIEW_FOR=2m makes it longer.
func TestFleet_PreviewAgrees(t *testing.T) {
	t.Parallel() // most of it is waiting
	length := 36 * time.Second
	if s := os.Getenv("ROTA_PREVIEW_FOR"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.start(name, s.Addr(), previewTable)
	}
	f.awaitHosts(5)
	// A tick of `holder` begins the window, and none from before reaches into it.
	from := time.Now().Add(8 * time.Second).Truncate(12 * time.Second).Add(12 * time.Second)
	until := from.Add(length.Truncate(12 * time.Second))
	time.Sleep(time.Until(until) + 4*time.Second)

	bin, err := rota()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, bin, "preview", "-c", filepath.Join(f.dir, "a.toml"), "--redis", "--json",
		"--from", from.UTC().Format(time.RFC3339), "--for", until.Sub(from).String())
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r preview.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Hosts) != 5 {
		t.Fatalf("the preview is of %d hosts, want 5", len(r.Hosts))
	}
	wins, all := map[string]int{}, 0
	for _, j := range r.Jobs {
		var ran, skipped, other int64
		for _, e := range f.history(j.Job) {
			if e.Tick.Before(from) && e.Until.Before(from) || !e.Tick.Before(until) {
				continue
			}
			switch {
			case e.Outcome == ledger.OutcomeSkipped:
				skipped += int64(max(1, e.Count))
			case e.Run != "":
				ran++
				wins[e.Host]++
				all++
			default:
				other++
			}
		}
		if ran != j.Ran || skipped != j.Skipped || other != j.Missed || j.Ran+j.Skipped != j.Due {
			t.Errorf("%s: %d run, %d skipped, %d missed; the preview says %d, %d, %d of %d", j.Job, ran, skipped, other, j.Ran, j.Skipped, j.Missed, j.Due)
		}
	}
	text := ""
	for _, h := range r.Hosts {
		share := float64(wins[h.Host]) / float64(all)
		text += fmt.Sprintf(" %s %.0f/%.0f", h.Host, 100*share, 100*h.Share)
		if d := share - h.Share; d > 0.15 || d < -0.15 {
			t.Errorf("%s won %.0f %%, the preview says %.0f %%", h.Host, 100*share, 100*h.Share)
		}
	}
	t.Logf("%d ticks in %s, shares of the wins in %%, real and previewed:%s", r.Ticks.Due, until.Sub(from), text)
}

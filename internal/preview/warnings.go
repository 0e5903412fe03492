package preview

import (
	"fmt"
	"strings"
	"time"
)

// warnings says what somebody should look at, in the order of the table.
func (r *replay) warnings(rep *Report) []Warning {
	out := []Warning{}
	add := func(kind WarningKind, job, format string, args ...any) {
		out = append(out, Warning{Kind: kind, Job: job, Text: fmt.Sprintf(format, args...)})
	}
	if rep.Ticks.Due == 0 {
		add(WarnNoTicks, "", "nothing is due in the window")
	}
	for i := range rep.Jobs {
		j, job := &rep.Jobs[i], &r.opt.Jobs[i]
		if j.Disabled {
			continue
		}
		if j.Hosts == 0 {
			add(WarnNoHost, j.Job, "no host may run it: hosts = [%s] names none of the fleet, and each tick is missed", strings.Join(job.Hosts, ", "))
		}
		for _, text := range job.Schedule.Warnings() {
			add(WarnSchedule, j.Job, "%s", text)
		}
		if rep.Ticks.Due > 0 && j.Due == 0 {
			add(WarnNoTicks, j.Job, "nothing is due in the window")
		}
		gap := j.SmallestGap.Duration()
		if gap > 0 && 2*j.OverGap >= max(j.Ran, 1) {
			add(WarnOverGap, j.Job, "its usual run takes %s, and its next tick comes after %s: %d of %d runs went on when the next was due",
				j.RunP50.Duration().Round(time.Millisecond), gap, j.OverGap, j.Ran)
		}
		if j.TimedOut > 0 {
			add(WarnTimeout, j.Job, "%d of %d runs were ended by the timeout of %s", j.TimedOut, j.Ran, job.Timeout)
		}
		if j.Misses.Full > 0 {
			add(WarnFull, j.Job, "%d of %d ticks were missed because every host was at its max_runs", j.Misses.Full, j.Due)
		}
	}
	return out
}

package preview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rota/scheduler/schedule"
)

// clocks lists the changes of clocks within the window, with what becomes of each job by the rules of
// its schedule.
func clocks(opt *Options) []ClockChange {
	out := []ClockChange{}
	until := opt.From.Add(opt.For)
	for i := range opt.Jobs {
		j := &opt.Jobs[i]
		if j.Disabled || j.Schedule == nil {
			continue
		}
		for _, c := range j.Schedule.Changes(opt.From, until) {
			k := slices.IndexFunc(out, func(o ClockChange) bool { return o.Zone == c.Zone && o.At.Equal(c.At) })
			if k < 0 {
				k = len(out)
				out = append(out, ClockChange{Zone: c.Zone, At: c.At, Before: Millis(c.Before), After: Millis(c.After), Jobs: []ChangedJob{}})
			}
			if c.Spec != "" {
				out[k].Jobs = append(out[k].Jobs, changedJob(j, &c))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b ClockChange) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Zone, b.Zone)) })
	return out
}

func changedJob(j *Job, c *schedule.Change) ChangedJob {
	out := ChangedJob{Job: j.Name, Effect: Elapsed, Tick: c.Tick}
	shift := (c.After - c.Before).Abs()
	n, _, _ := j.Schedule.Count(c.At.Add(-shift-1), c.At.Add(shift-1), 100_000)
	out.Ticks = int64(n)
	forward := c.After > c.Before
	zone := j.Schedule.Location()
	if l, err := time.LoadLocation(c.Zone); err == nil {
		zone = l
	}
	local := c.Tick.In(zone).Format("15:04:05 MST")
	switch {
	case c.Fixed && forward:
		out.Effect = AfterGap
		out.Text = fmt.Sprintf("%q names times that the clocks skip: it runs once, at %s, right after", c.Spec, local)
	case c.Fixed:
		out.Effect = FirstPass
		out.Text = fmt.Sprintf("%q names times that come twice: it runs at the first pass only, first at %s", c.Spec, local)
	case forward:
		out.Text = fmt.Sprintf("%q follows elapsed time: it has no ticks in the %s that the clocks skip", c.Spec, shift)
	default:
		out.Text = fmt.Sprintf("%q follows elapsed time: it ticks in both passes of the %s that come twice", c.Spec, shift)
	}
	return out
}

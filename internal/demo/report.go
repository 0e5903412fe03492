package demo

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines is the verdict for people: a table whose rows say what they mean, and the result. With
// faults, each is a line of its own and may be longer than a terminal is wide: what is wrong has
// to be said whole.
func (v *Verdict) Lines(style Style) []string {
	paint := (&view{style: style}).paint
	lines := []string{"The verdict, from the ledger and from a file that the jobs themselves wrote:", ""}
	for _, r := range v.rows() {
		value := fmt.Sprintf("%7s", r.value)
		switch {
		case r.fine == nil:
			value = paint(bold, value)
		case *r.fine:
			value = paint(good, value)
		default:
			value = paint(bad, value)
		}
		lines = append(lines, "  "+pad(r.name, 11)+value+"  "+r.means)
	}
	lines = append(lines, "")
	switch {
	case v.Result != Passed:
		lines = append(lines, paint(bad, "Failed:"))
		for _, f := range v.Faults {
			lines = append(lines, strings.Split("  "+strings.ReplaceAll(f, "\n", "\n    "), "\n")...)
		}
	case v.Early:
		lines = append(lines, paint(good, "Passed, as far as it went: no tick ran twice, and every tick is accounted for."))
	default:
		lines = append(lines, paint(good, "Passed: no tick ran twice, and every tick is accounted for."))
	}
	return lines
}

// A verdictRow is one number of the verdict. fine tells whether it is as it must be; nil: it may
// be any.
type verdictRow struct {
	name, value string
	means       string
	fine        *bool
}

// rows begin with the account of the ticks, whose numbers add up to the first. Skipped, missed and
// lost ones are no faults: they are what the ledger is there to tell. A wrong row is one that a
// fault stands behind, so the colours and the result cannot disagree.
func (v *Verdict) rows() []verdictRow {
	number := func(name string, n int, means string) verdictRow {
		return verdictRow{name: name, value: strconv.Itoa(n), means: means}
	}
	must := func(r verdictRow, fine bool) verdictRow {
		r.fine = &fine
		return r
	}
	tokens, lost := "rising", "ended with their host"
	if !v.TokensRising {
		tokens = "falling"
	}
	if v.Killed != "" {
		lost = "ended with " + v.Killed + ", when it was killed"
	}
	return []verdictRow{
		number("ticks due", v.Due, "by the schedules, from when all hosts were up to the stop"),
		number("runs", v.Runs, "ticks that a host won and ran"),
		number("skipped", v.Skipped, "ticks that found their job's lease still held"),
		number("missed", v.Missed, "ticks that no host claimed in time"),
		must(number("unaccounted", v.Unaccounted, "ticks of which the ledger knows nothing"), v.Unaccounted == 0),
		must(number("doubles", v.Doubles, "ticks that ran twice, in the ledger or in the jobs' file"), v.Doubles == 0),
		number("lost runs", v.Lost, lost),
		number("takeovers", v.Takeovers, v.takeoverMeans()),
		must(verdictRow{name: "tokens", value: tokens, means: "run by run, in the ledger and in the jobs' file"}, v.TokensRising),
		must(number("left over", v.LeftOver, "processes that outlived their host"), v.LeftOver == 0),
		must(number("drained", v.Drained, "hosts that let their runs finish on SIGTERM, and exited 0"), v.Drained == v.survivors()),
	}
}

func (v *Verdict) takeoverMeans() string {
	switch {
	case v.takeover != nil:
		return fmt.Sprintf("%s ran %s again, %.1f s after the lost run had begun", v.takeover.host, v.takeover.job, v.takeover.after.Seconds())
	case v.Killed == "": // it ended too early for that
		return "no host was killed before the end"
	}
	return "the lease of " + v.Killed + " outlived the demo"
}

// survivors are the hosts that were to be drained.
func (v *Verdict) survivors() int {
	if v.Killed != "" {
		return v.Hosts - 1
	}
	return v.Hosts
}

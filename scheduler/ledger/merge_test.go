package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// message makes a stream entry of words: "start", "lost", "end OUTCOME", "late OUTCOME". The
// id says when it was appended.
func message(id int, run, what string) redis.XMessage {
	v := map[string]any{"run": run, "tick": "1000", "kind": "scheduled", "host": "a", "won": "1005", "token": fmt.Sprint(id)}
	kind, outcome, _ := strings.Cut(what, " ")
	switch kind {
	case "start":
		v["ev"], v["request"] = "start", "9-9"
	case "lost":
		v["ev"], v["outcome"], v["reason"] = "end", "lost", "the lease ended"
	case "end", "late":
		v["ev"], v["outcome"], v["attempt"], v["reason"] = "end", outcome, "1", ""
		if kind == "late" {
			v["late"] = "1"
		}
	}
	return redis.XMessage{ID: fmt.Sprintf("%d-0", id), Values: v}
}

// orders yields every order of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, o := range orders(n - 1) {
		for i := 0; i <= len(o); i++ {
			out = append(out, slices.Insert(slices.Clone(o), i, n-1))
		}
	}
	return out
}

// What was appended about one run becomes one entry, in whatever order it is read.
func TestMergeRuns_EveryOrder(t *testing.T) {
	for name, c := range map[string]struct {
		appended []string
		want     string // outcome, reason, token: the id of the entry that stands
	}{
		"a run that goes on":                   {[]string{"start"}, `running "" 1`},
		"a grant made anew":                    {[]string{"start", "start"}, `running "" 2`},
		"it ended":                             {[]string{"start", "end succeeded"}, `succeeded "" 2`},
		"its start was trimmed":                {[]string{"end failed"}, `failed "" 1`},
		"it was lost":                          {[]string{"start", "lost"}, `lost "the lease ended" 2`},
		"it was lost and two hosts said so":    {[]string{"start", "lost", "lost"}, `lost "the lease ended" 2`},
		"its host reported late":               {[]string{"start", "lost", "late succeeded"}, `succeeded "reported late" 3`},
		"its host reported late that it lost":  {[]string{"start", "lost", "late lost"}, `lost "reported late" 3`},
		"its host was faster":                  {[]string{"start", "end failed", "lost"}, `failed "" 2`},
		"an end that came twice":               {[]string{"start", "end succeeded", "end succeeded"}, `succeeded "" 2`},
		"an end that came again, late":         {[]string{"start", "end succeeded", "late succeeded"}, `succeeded "" 2`},
		"lost, and late twice":                 {[]string{"start", "lost", "late failed", "late failed"}, `failed "reported late" 3`},
		"a grant made anew after it was lost":  {[]string{"start", "lost", "start", "end succeeded"}, `succeeded "" 4`},
		"the list of failures repeats the end": {[]string{"start", "end failed", "end failed", "lost"}, `failed "" 2`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range orders(len(c.appended)) {
				var read []redis.XMessage
				for _, i := range order {
					read = append(read, message(i+1, "r", c.appended[i]))
				}
				got := mergeRuns("j", read)
				if len(got) != 1 {
					t.Fatalf("mergeRuns(%v) has %d entries, want 1", order, len(got))
				}
				e := got[0]
				if s := fmt.Sprintf("%s %q %d", e.Outcome, e.Reason, e.Token); s != c.want {
					t.Errorf("mergeRuns(%v) = %s, want %s", order, s, c.want)
				}
				if slices.Contains(c.appended, "start") && e.Request != "9-9" {
					t.Errorf("mergeRuns(%v): Request = %q, want the start's", order, e.Request)
				}
			}
		})
	}
}

func TestMergeRuns_KeepsRunsApart(t *testing.T) {
	got := mergeRuns("j", []redis.XMessage{
		message(1, "x", "start"), message(2, "y", "start"), message(3, "x", "end succeeded"), message(4, "z", "lost"),
	})
	var runs []string
	for _, e := range got {
		runs = append(runs, e.Run+" "+e.Outcome)
	}
	slices.Sort(runs)
	if want := []string{"x succeeded", "y running", "z lost"}; !slices.Equal(runs, want) {
		t.Errorf("mergeRuns() = %v, want %v", runs, want)
	}
}

// An end that knows not when its run was won takes that from the start.
func TestMergeRuns_WonOfTheStart(t *testing.T) {
	start, end := message(1, "r", "start"), message(2, "r", "end succeeded")
	delete(end.Values, "won")
	for _, read := range [][]redis.XMessage{{start, end}, {end, start}} {
		if e := mergeRuns("j", read)[0]; e.Won.UnixMilli() != 1005 || e.Outcome != "succeeded" {
			t.Errorf("mergeRuns() = %+v, want won at 1005, succeeded", e)
		}
	}
}

// Entries may hold anything: they come from Redis.
func TestReadEntry_Nonsense(t *testing.T) {
	e := readEntry("j", redis.XMessage{ID: "x", Values: map[string]any{
		"tick": "soon", "count": "-", "token": "1e9", "won": 7, "code": "none", "attempt": "", "outcome": nil,
	}})
	if !e.Tick.IsZero() || e.Token != 0 || e.ExitCode != nil || e.Outcome != "" || e.Job != "j" {
		t.Errorf("readEntry() = %+v, want zero values", e)
	}
	if leaseFence("no|lease") != 0 || leaseFence("t|x|1|h") != 0 || leaseFence("t|7|1|h|more") != 7 {
		t.Error("leaseFence() reads what is no lease, want 0")
	}
}

func TestCompareIDs(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"9-0", "10-0", -1},
		{"10-2", "10-10", -1},
		{"10-1", "10-1", 0},
		{"11-0", "10-9", 1},
		{"", "1-0", -1},
	} {
		if got := compareIDs(c.a, c.b); got != c.want {
			t.Errorf("compareIDs(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A finish that falls between the reading of the entries and that of the leases makes no run lost.
func TestHistory_EndsWhileItIsRead(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("its outcome is there by then", func(t *rig) {
			g := t.win(t.claim(0))
			t.do("DEL", "{t}:lock:j")
			t.wantHistory("0 lost scheduled on a: the lease ended and a reported no outcome")
			t.do("HSET", "{t}:run:"+g.Claim.Run, "ended", 1) // what its finish does besides
			t.wantHistory("0 running scheduled on a")
		})
	})
}

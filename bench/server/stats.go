package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stats are what a server has done since it started, by the name of the command. What a script
// calls is counted under its own name and, in time, in that of the EVALSHA too: an EVALSHA's time
// minus that of the commands is what Lua itself took.
type Stats map[string]Stat

// Stat is one command's line of INFO commandstats (redis.io/docs/latest/commands/info).
type Stat struct {
	Calls int64
	Time  time.Duration // on the server, to the microsecond; waiting for the network is not in it
}

// Read asks the server, by one INFO, which is counted as well.
func Read(tb testing.TB, c redis.UniversalClient) Stats {
	tb.Helper()
	text, err := c.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatalf("info commandstats: %v", err)
	}
	return parse(text)
}

// parse reads lines such as cmdstat_get:calls=3,usec=5,usec_per_call=1.67,rejected_calls=0.
func parse(text string) Stats {
	s := Stats{}
	for line := range strings.Lines(text) {
		name, values, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		name, isStat := strings.CutPrefix(name, "cmdstat_")
		var calls, micros int64
		if n, _ := fmt.Sscanf(values, "%d,usec=%d", &calls, &micros); !ok || !isStat || n != 2 {
			continue
		}
		s[name] = Stat{calls, time.Duration(micros) * time.Microsecond}
	}
	return s
}

// Since is what was done after another, earlier reading.
func (s Stats) Since(earlier Stats) Stats {
	d := Stats{}
	for name, stat := range s {
		if was := earlier[name]; stat.Calls > was.Calls {
			d[name] = Stat{stat.Calls - was.Calls, stat.Time - was.Time}
		}
	}
	return d
}

// Table shows what n repetitions of one thing cost, one line a command, dearest first. The last
// line is what the EVALSHAs took beyond the commands that they called.
func (s Stats) Table(what string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %8s %8s\n", what, "calls", "µs")
	inner := time.Duration(0)
	line := func(name string, calls float64, t time.Duration) {
		fmt.Fprintf(&b, "  %-26s %8.2f %8.2f\n", name, calls, float64(t)/float64(time.Microsecond)/float64(n))
	}
	names := slices.SortedFunc(maps.Keys(s), func(x, y string) int {
		return cmp.Or(cmp.Compare(s[y].Time, s[x].Time), cmp.Compare(x, y))
	})
	for _, name := range names {
		if name == "info" {
			continue
		}
		if name != "evalsha" {
			inner += s[name].Time
		}
		line(name, float64(s[name].Calls)/float64(n), s[name].Time)
	}
	line("(Lua and its calls)", 1, s["evalsha"].Time-inner)
	return b.String()
}

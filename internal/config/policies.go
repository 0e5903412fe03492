package config

import (
	"fmt"
	"time"

	"github.com/BurntSushi/toml"

	"rota/scheduler"
)

// finishPolicies holds against each other what a job says of ticks that cannot simply run. Each key
// is right by itself then.
func (l *loader) finishPolicies(f found, j *Job) {
	at := f.at.in("splay")
	if gap := l.minGap(j); gap > 0 && j.Splay >= gap && !l.rep.blames(toml.Key(at.path).String()) {
		pr := problem{text: fmt.Sprintf("%s is not below %s, the smallest gap between two ticks", short(j.Splay), short(gap))}
		if _, own := f.values["splay"]; !own {
			pr.text = "that of [defaults], " + pr.text
			pr.hint = "set a shorter one here"
		}
		at.fault(pr)
	}
	if j.Overlap == scheduler.OverlapAllow {
		if _, own := f.values["lock"]; own && j.Lock != "" {
			f.at.in("lock").warn(problem{text: `excludes nothing under overlap = "allow": each run has a lease of its own`})
		}
	} else if n, own := f.values["max_parallel"]; own && n != int64(defaultParallel) {
		f.at.in("max_parallel").warn(problem{text: `says nothing without overlap = "allow"`})
	}
}

// defaultParallel is the default of max_parallel, which may be spelt out anywhere.
const defaultParallel = 10

// minGap is the smallest gap of a job with a splay, else 0: it takes a fraction of a millisecond to
// find, which adds up where a splay is in [defaults] and the jobs are thousands.
func (l *loader) minGap(j *Job) time.Duration {
	if j.Schedule == nil || j.Splay == 0 {
		return 0
	}
	name := j.Schedule.String()
	gap, ok := l.gaps[name]
	if !ok {
		gap = j.Schedule.MinGap()
		l.gaps[name] = gap
	}
	return gap
}

package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/schedule"
)

// Job is one job of the table, with [defaults] and the defaults of Rota filled in. What the
// scheduler makes of it is in [Config.Table].
type Job struct {
	Name string
	File string // where its table stands

	Schedule *schedule.Schedule // with its zone
	Timezone string             // of the schedule
	Enabled  bool

	Command []string          // program and arguments; nil if Shell or Request is set
	Shell   string            // a line for /bin/sh -c; "" if Command or Request is set
	Request *Request          // nil if Command or Shell is set
	Env     map[string]string // its own variables: those of [defaults] and env; never ROTA_*
	EnvFile string            // absolute, with more of them, read when a run starts; "": none
	Dir     string            // absolute; it need not exist
	User    string            // whom it runs as, a name or a number; "": as the daemon
	Group   string            // likewise; "": the user's
	Umask   *int              // 0 to 0777; nil: the daemon's
	Nice    *int              // -20 to 19; nil: the daemon's

	Timeout       time.Duration // of one run, all its attempts together; 0: none
	KillGrace     time.Duration // between SIGTERM and SIGKILL; 0: none
	Limits        jobs.Limits   // of one run; zero: none
	SuccessCodes  []int         // exit codes, at least one
	Retries       int           // attempts after the first
	RetryBackoff  time.Duration // bound of the first wait, at most RetryMax; 0: no wait
	RetryMax      time.Duration // bound of every wait
	StartDeadline time.Duration // 0: half the gap to the next tick, within 5 s … 1 h
	Splay         time.Duration // below the smallest gap; 0: none

	Scope       scheduler.Scope   // never ""
	Hosts       []string          // names or labels; none: all
	Lock        string            // "" is the job's own
	Overlap     scheduler.Overlap // never "": the default is filled in, as in the next two
	MaxParallel int               // runs at once, under OverlapAllow
	Misfire     scheduler.Misfire
	OnCrash     scheduler.OnCrash

	specs []string // as written
}

// finishJobs checks every job that was found, in any file, and puts the good ones into the
// config. It is no matter which those are: with one bad one there is no config.
func (l *loader) finishJobs() {
	for _, f := range l.jobs {
		l.cfg.Jobs = append(l.cfg.Jobs, l.finishJob(f))
	}
	slices.SortFunc(l.cfg.Jobs, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
}

func (l *loader) finishJob(f found) Job {
	j := Job{Name: f.name, File: f.at.src.name}
	keys := jobKeys(&j)
	setDefaults(keys)
	// What is wrong in [defaults] was said of it, and is not said again of every job.
	read(f.at.silent(), "jobs", l.defaults, keys)
	read(f.at, "jobs", f.values, keys)

	var ways []string
	for _, way := range []string{"command", "shell", "http"} {
		if _, ok := f.values[way]; ok {
			ways = append(ways, way)
		}
	}
	// Of a torn file it is not known what the job had; and what stands there misspelt was
	// reported as that.
	missing := func(names ...string) bool {
		return !f.at.src.torn && !slices.ContainsFunc(names, func(name string) bool {
			_, given := f.values[name]
			return given || misspelt(name, f.values, keys)
		})
	}
	if missing("command", "shell", "http") {
		f.at.fault(problem{"says nothing to run", "set command, shell or http"})
	}
	if missing("schedule") {
		f.at.fault(problem{"has no schedule", `set schedule = "0 2 * * *"`})
	}
	for _, way := range ways[min(1, len(ways)):] {
		f.at.in(way).fault(problem{ways[0] + " already says what to run", "keep one"})
	}
	for _, arg := range append(slices.Clone(j.Command), j.Shell) {
		if strings.Contains(arg, `\%`) {
			f.at.in(ways[0]).warn(problem{`\% reaches the program as it stands`, "% needs no escape outside of a crontab"})
			break
		}
	}
	l.finishRequest(f, &j, keys)
	l.finishAccount(f, &j)
	l.finishEnvFile(f, &j)
	l.finishRetries(f, &j)
	l.finishSchedule(f, &j)
	l.finishPolicies(f, &j)
	return j
}

// placeOf is where a job's value stands: in its own table, or in [defaults].
func (l *loader) placeOf(f found, name string) place {
	if _, own := f.values[name]; own {
		return f.at.in(name)
	}
	return place{rep: f.at.rep, src: l.main, path: []string{"defaults", name}}
}

// blames tells whether something was said of that value already.
func (l *loader) blames(f found, name string) bool {
	return l.rep.blames(toml.Key(l.placeOf(f, name).path).String())
}

// finishSchedule parses the schedule in its zone. A zone that is wrong was reported where it
// stands, for all jobs that it is of; the specs are then checked in another.
func (l *loader) finishSchedule(f found, j *Job) {
	j.Timezone = cmp.Or(j.Timezone, l.cfg.Timezone)
	if len(j.specs) == 0 {
		return
	}
	var err error
	j.Schedule, err = schedule.Parse(j.Timezone, j.specs...)
	at := f.at.in("schedule")
	for _, err := range joined(err) {
		at.faultf("%s", err.Error())
	}
	zoneAt := f.at.in("timezone")
	if _, own := f.values["timezone"]; !own {
		zoneAt = place{rep: f.at.rep, src: l.main, path: []string{"timezone"}}
	}
	for _, w := range j.Schedule.Warnings() {
		if ofZone, ok := strings.CutPrefix(w, "timezone "); ok {
			zoneAt.warn(problem{text: ofZone})
			continue
		}
		at.warn(problem{text: w})
	}
}

// joined takes apart what errors.Join put together: one fault each.
func joined(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return many.Unwrap()
	}
	return []error{err}
}

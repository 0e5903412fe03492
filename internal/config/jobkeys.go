package config

import (
	"cmp"
	"time"

	"rota/scheduler"
)

// jobKeys are the keys of one job, stored to j: what to run, when, in which surroundings, how it
// ends, what happens when it cannot simply run, and who is told. All but [whatAndWhen] may stand
// in [defaults] too.
func jobKeys(j *Job) []key {
	return []key{
		command("command", &j.Command),
		none(text("shell", "", &j.Shell, checkNotEmpty, checkNoNUL)),
		request("http", &j.Request),

		specs("schedule", &j.specs),
		none(text("timezone", "", &j.Timezone, checkZone)),
		duration("splay", "0s", &j.Splay, 0, longest),
		boolean("enabled", true, &j.Enabled),
		duration("start_deadline", "", &j.StartDeadline, time.Millisecond, longest),
		word("scope", scheduler.ScopeOnce, &j.Scope, scheduler.ScopeOnce, scheduler.ScopeHost),
		texts("hosts", &j.Hosts, checkName),

		// Whether programs and directories exist is no matter here: they may be mounted later, and the
		// run that does not find them says so. Accounts and env_file are looked at, see [loader.finishAccount].
		environ("env", &j.Env),
		text("env_file", "", &j.EnvFile, unlessEmpty(checkAbsolute)),
		text("dir", "/", &j.Dir, checkAbsolute),
		text("user", "", &j.User, unlessEmpty(checkAccount)),
		text("group", "", &j.Group, unlessEmpty(checkAccount)),
		umask("umask", &j.Umask),
		optional(&j.Nice, func(n *int) key { return none(count("nice", 0, -20, 19, n)) }),
		none(table("limits",
			// Less memory than a mebibyte is the slip of a unit. The most are a pebibyte, 8192 CPUs, which is
			// the most that a kernel is built for, and PID_MAX_LIMIT of proc(5).
			size("memory", "", &j.Limits.MemoryBytes, 1<<20, 1<<50),
			percent("cpu", &j.Limits.CPUPercent, 1, 8192*100),
			none(count("tasks", 0, 1, 1<<22, &j.Limits.Tasks)),
		)),

		duration("timeout", "", &j.Timeout, time.Millisecond, longest),
		duration("kill_grace", "10s", &j.KillGrace, 0, longest),
		codes("success_codes", []any{int64(0)}, 0, 255, &j.SuccessCodes),
		count("retries", 0, 0, 1000, &j.Retries),
		duration("retry_backoff", "1s", &j.RetryBackoff, 0, longest),
		duration("retry_max", "5m", &j.RetryMax, time.Millisecond, longest),

		text("lock", "", &j.Lock, unlessEmpty(checkName)),
		word("overlap", scheduler.OverlapSkip, &j.Overlap,
			scheduler.OverlapSkip, scheduler.OverlapQueue, scheduler.OverlapReplace, scheduler.OverlapAllow),
		count("max_parallel", defaultParallel, 1, 1000, &j.MaxParallel),
		word("misfire", scheduler.MisfireSkip, &j.Misfire,
			scheduler.MisfireSkip, scheduler.MisfireOnce, scheduler.MisfireAll),
		word("on_crash", scheduler.CrashSkip, &j.OnCrash, scheduler.CrashSkip, scheduler.CrashRerun),

		duration("expect_within", "", new(time.Duration), time.Millisecond, longest),
		none(text("ping", "", new(string))),
		texts("notify", new([]string), checkName),
		words("notify_on", new([]string),
			[]string{"failed", "lost", "timed_out", "missed", "recovered", "no_host"}, "drift"),
	}
}

// whatAndWhen are the job keys that have no default for all jobs: with one, a job whose own was
// forgotten or misspelt would run something else.
func whatAndWhen() []string {
	return []string{"command", "shell", "http", "schedule", "timezone"}
}

// command is argv. No message shows an argument: passwords are among them, whatever ps(1) shows.
func command(name string, dst *[]string) key {
	k := none(texts(name, dst, checkNoNUL))
	strings := k.set
	k.set = func(at place, v any) bool {
		if _, ok := v.(string); ok {
			at.fault(problem{"must be an array of strings, not a string", `write it like ["/path/to/program", "argument"], or use shell`})
			return false
		}
		if !strings(at, v) {
			return false
		}
		if len(*dst) == 0 || (*dst)[0] == "" {
			at.faultf("names no program")
			return false
		}
		return true
	}
	return k
}

// specs is one spec of a schedule, or an array of them. They are parsed when the zone is known.
func specs(name string, dst *[]string) key {
	k := none(texts(name, dst))
	k.kind = aSpec
	list := k.set
	k.set = func(at place, v any) bool {
		switch some := v.(type) {
		case string:
			v = []any{some}
		case []any:
			if len(some) == 0 {
				at.faultf("is empty")
				return false
			}
		default:
			return at.wrongType(aSpec, v)
		}
		return list(at, v)
	}
	return k
}

// environ is a job's environment.
func environ(name string, dst *map[string]string) key {
	k := pairs(name, dst, func(name, value string) problem {
		return cmp.Or(checkVariable(name), checkNoNUL(value))
	})
	return swallowsNothing(k, "a variable", func() []key { return jobKeys(new(Job)) })
}

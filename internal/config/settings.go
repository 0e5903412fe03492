package config

import (
	"time"

	"rota/scheduler"
)

// settings are all keys there are, with their defaults: those of the top of the main file, and
// in the tables among them all others.
func (l *loader) settings() []key {
	c := l.cfg
	notify := []key{none(text("url", "", new(string))), none(texts("command", new([]string)))}
	return []key{
		text("namespace", "rota", &c.Namespace, checkNamespace),
		text("timezone", "UTC", &c.Timezone, checkZone),
		texts("include", &l.include, checkPattern),
		text("state_dir", "/var/lib/rota", &c.StateDir, checkAbsolute),

		table("host",
			text("name", "", &c.Host.Name, unlessEmpty(checkName)),
			texts("labels", &c.Host.Labels, checkName),
			count("max_runs", 0, 0, 10_000, &c.Host.MaxRuns),
			texts("env_pass", &c.Host.EnvPass, checkVariable),
		),
		table("redis", l.redisSettings()...),
		table("lease",
			duration("ttl", "30s", &c.Lease.TTL, time.Millisecond, day),
			duration("renew_every", "5s", &c.Lease.RenewEvery, time.Millisecond, day),
			duration("loss_grace", "5s", &c.Lease.LossGrace, 0, day),
			word("on_renew_error", "retry", &c.Lease.OnRenewError, "retry", "cancel"),
		),
		table("http",
			text("listen", "127.0.0.1:8440", &c.HTTP.Listen, unlessEmpty(checkListen)),
			text("token_file", "", &c.HTTP.TokenFile, checkNoNUL),
		),
		table("log",
			level("level", "info", &c.Log.Level),
			word("format", "auto", &c.Log.Format, "auto", "text", "json", "journal"),
		),
		table("history",
			count("keep", 50, 1, 10_000, &c.History.Keep),
			duration("max_age", "14d", &c.History.MaxAge, time.Second, longest),
			size("output", "16KiB", &c.History.OutputBytes, 0, 16<<20),
		),
		table("shutdown",
			duration("drain", "60s", &c.Shutdown.Drain, 0, longest),
		),

		{name: "defaults", kind: aTable, set: l.setJobDefaults},
		named("jobs", jobKeys(new(Job)), l.collect),
		named("notify", notify, func(at place, values map[string]any) bool { return read(at, "notify", values, notify) }),
	}
}

func (l *loader) redisSettings() []key {
	r := &l.cfg.Redis
	return []key{
		text("url", "redis://127.0.0.1:6379/0", &l.url),
		texts("addrs", new([]string)),
		text("master", "", new(string)),
		text("username", "", &r.Username, checkNoNUL),
		text("password", "", &l.password, checkNoNUL),
		text("password_file", "", &l.passwordFile, checkNoNUL),
		text("sentinel_username", "", new(string)),
		text("sentinel_password_file", "", new(string)),
		table("tls",
			text("ca_file", "", new(string)),
			text("cert_file", "", new(string)),
			text("key_file", "", new(string)),
			text("server_name", "", new(string)),
		),
		duration("op_timeout", "1500ms", &r.OpTimeout, time.Millisecond, day),
		count("wait_replicas", 0, 0, 100, new(int)),
		texts("nodes", new([]string)),
		duration("restart_delay", "0s", new(time.Duration), 0, longest),
	}
}

// jobKeys are the keys of one job. Those that may stand in [defaults] are all but
// [whatAndWhen].
func jobKeys(j *Job) []key {
	return []key{
		command("command", &j.Command),
		none(text("shell", "", &j.Shell, checkNotEmpty, checkNoNUL)),
		none(table("http",
			none(text("url", "", new(string))),
			text("method", "POST", new(string)),
			pairs("headers", new(map[string]string), func(string, string) problem { return problem{} }),
			text("body", "", new(string)),
			none(codes("expect", nil, 100, 599, new([]int))),
		)),

		specs("schedule", &j.specs),
		none(text("timezone", "", &j.Timezone, checkZone)),
		duration("splay", "0s", new(time.Duration), 0, longest),
		flag("enabled", true, &j.Enabled),
		duration("start_deadline", "", &j.StartDeadline, time.Millisecond, longest),
		word("scope", "once", &j.Scope, "once", "host"),
		texts("hosts", new([]string), checkName),

		environ("env", &j.Env),
		none(text("env_file", "", new(string), checkAbsolute)),
		text("dir", "/", &j.Dir, checkAbsolute),
		none(text("user", "", new(string))),
		none(text("group", "", new(string))),
		none(text("umask", "", new(string), checkUmask)),
		none(count("nice", 0, -20, 19, new(int))),
		none(table("limits",
			size("memory", "", new(int), 1, 1<<50),
			none(text("cpu", "", new(string))),
			none(count("tasks", 0, 1, 1<<22, new(int))),
		)),

		duration("timeout", "", &j.Timeout, time.Millisecond, longest),
		duration("kill_grace", "10s", &j.KillGrace, 0, longest),
		codes("success_codes", []any{int64(0)}, 0, 255, &j.SuccessCodes),
		count("retries", 0, 0, 1000, new(int)),
		duration("retry_backoff", "1s", new(time.Duration), 0, longest),
		duration("retry_max", "5m", new(time.Duration), time.Millisecond, longest),

		text("lock", "", &j.Lock, unlessEmpty(checkName)),
		word("overlap", scheduler.OverlapSkip, &j.Overlap,
			scheduler.OverlapSkip, scheduler.OverlapQueue, scheduler.OverlapReplace, scheduler.OverlapAllow),
		count("max_parallel", 10, 1, 1000, new(int)),
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

// whatAndWhen are the job keys that have no default for all jobs.
func whatAndWhen() []string {
	return []string{"command", "shell", "http", "schedule", "timezone"}
}

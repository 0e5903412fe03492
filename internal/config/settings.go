package config

import "time"

// settings are all keys there are, with their defaults: those of the top of the main file, and
// in the tables among them all others. What is stored to new(T) is of a part that is not built
// (later.go); whoever builds it gives it a field.
//
// The upper bounds stand for "this is a slip", and are far from what anybody needs.
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
		// A millisecond is the resolution of PEXPIRE; a day is the most that package locking takes.
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
		// The output of a run is one value in Redis, sent whole: hence a bound in its size.
		table("history",
			count("keep", 50, 1, 10_000, &c.History.Keep),
			duration("max_age", "14d", &c.History.MaxAge, time.Second, longest),
			size("output", "16KiB", &c.History.OutputBytes, 0, 16<<20),
		),
		table("shutdown",
			duration("drain", "60s", &c.Shutdown.Drain, 0, longest),
		),

		// The keys of [defaults] are those of jobs: it has none of its own.
		{name: "defaults", kind: aTable, set: l.setJobDefaults},
		named("jobs", jobKeys(new(Job)), l.collect),
		named("notify", notify, func(at place, values map[string]any) bool { return read(at, "notify", values, notify) }),
	}
}

// redisSettings: url, password and password_file are put together by finishRedis. Nothing here is
// checked in a way that would show a value.
func (l *loader) redisSettings() []key {
	r := &l.cfg.Redis
	return []key{
		text("url", "redis://127.0.0.1:6379/0", &l.url),
		texts("addrs", &r.Addrs, checkAddr),
		text("master", "", &r.Master, unlessEmpty(checkMaster)),
		text("username", "", &r.Username, checkNoNUL),
		text("password", "", &l.redisPassword, checkNoNUL),
		text("password_file", "", &l.passwordFile, checkNoNUL),
		text("sentinel_username", "", &r.SentinelUsername, checkNoNUL),
		text("sentinel_password_file", "", &l.sentinelPasswordFile, checkNoNUL),
		table("tls",
			text("ca_file", "", &l.tls.caFile, checkNoNUL),
			text("cert_file", "", &l.tls.certFile, checkNoNUL),
			text("key_file", "", &l.tls.keyFile, checkNoNUL),
			text("server_name", "", &l.tls.serverName, unlessEmpty(checkServerName)),
		),
		// Who beats less often than every six seconds is gone for the others (ledger.HostGone).
		duration("op_timeout", "1500ms", &r.OpTimeout, time.Millisecond, 10*time.Second),
		count("wait_replicas", 0, 0, 100, &r.WaitReplicas),
		texts("nodes", new([]string)),
		duration("restart_delay", "0s", new(time.Duration), 0, longest),
	}
}

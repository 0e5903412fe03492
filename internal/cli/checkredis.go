package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/internal/redischeck"
	"rota/scheduler"
)

// askRedis asks the config's Redis what would hurt later. The error is that of a command which cannot
// reach it, with its exit code.
func (a *app) askRedis(ctx context.Context, cfg *config.Config) (*redischeck.Report, error) {
	redis.SetLogger(silent{})
	client, err := connect.Open(cfg)
	if err != nil {
		return nil, &exitError{code: exitUsage, text: err.Error()}
	}
	defer func() { _ = client.Close() }()
	opt := redischeck.Options{
		Namespace: cfg.Namespace, User: cfg.Redis.Username, OpTimeout: cfg.Redis.OpTimeout, WaitReplicas: cfg.Redis.WaitReplicas,
		Cluster: len(cfg.Redis.Addrs) > 0 && cfg.Redis.Master == "", Sentinels: cfg.Redis.Master != "",
	}
	seen := map[string]bool{}
	for _, j := range cfg.Jobs {
		name, lock := j.Name, j.Lock
		if lock == "" {
			lock = name
		}
		if j.Scope == scheduler.ScopeHost {
			name, lock = name+"@"+cfg.Host.Name, lock+"@"+cfg.Host.Name
		}
		opt.Jobs = append(opt.Jobs, name)
		if !seen[lock] {
			seen[lock] = true
			opt.Locks = append(opt.Locks, lock)
		}
	}
	report, err := redischeck.Run(ctx, client, opt)
	return report, (&session{cfg: cfg}).explain(err)
}

// printRedis prints what was found, and fails if there is a fault among it.
func (a *app) printRedis(cfg *config.Config, r *redischeck.Report) error {
	what := strings.TrimSpace(r.Server + " " + r.Version)
	if what == "" {
		what = "redis"
	}
	pings := ""
	if r.Pings > 0 {
		pings = fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, ", r.P50MS, r.P99MS)
	}
	if _, err := fmt.Fprintf(a.stdout, "redis at %s: %s\n  %s%s\n", cfg.Redis.Where(), plain(what), pings, clockAgainst(r.ClockOffsetMS)); err != nil {
		return err
	}
	if _, err := findingsTable(r.Findings).WriteTo(a.stdout); err != nil {
		return err
	}
	said := make([]string, 0, 3)
	for _, l := range []redischeck.Level{redischeck.Fault, redischeck.Warning, redischeck.Hint} {
		if n := r.Count(l); n > 0 {
			said = append(said, count(n, string(l), string(l)+"s"))
		}
	}
	if r.Count(redischeck.Fault) > 0 {
		return &exitError{code: exitFailed, text: "redis has " + strings.Join(said, ", ")}
	}
	if len(said) == 0 {
		said = append(said, "nothing to say against it")
	}
	_, err := fmt.Fprintf(a.stdout, "ok: redis: %s\n", strings.Join(said, ", "))
	return err
}

// findingsTable has what was found in lines that a terminal does not break.
func findingsTable(findings []redischeck.Finding) *table {
	level, check := 0, 0
	for _, f := range findings {
		level, check = max(level, len(f.Level)), max(check, len(f.Check))
	}
	room := proseWidth - level - check - 2*gap
	t := newTable(false, "")
	for _, f := range findings {
		for i, line := range wrap(plain(f.Problem), room) {
			if i == 0 {
				t.row(string(f.Level), f.Check, line)
			} else {
				t.row("", "", line)
			}
		}
		arrow := "→ "
		for _, line := range wrap(plain(f.Remedy), room-len("  ")) {
			t.row("", "", arrow+line)
			arrow = "  "
		}
	}
	return t
}

// clockAgainst says how far this host's clock is from the server's.
func clockAgainst(ms int64) string {
	if ms < 0 {
		return fmt.Sprintf("our clock is %d ms behind its", -ms)
	}
	return fmt.Sprintf("our clock is %d ms ahead of its", ms)
}

// redisJSON is what was found, or why nothing could be.
type redisJSON struct {
	URL         string `json:"url"`
	Reachable   bool   `json:"reachable"`
	redisReport        // its fields
}

type redisReport = redischeck.Report

func (a *app) redisJSON(ctx context.Context, cfg *config.Config) (out *redisJSON, code int) {
	out = &redisJSON{URL: cfg.Redis.Where()}
	report, err := a.askRedis(ctx, cfg)
	if err != nil {
		code = exitFailed
		f := redischeck.Finding{Check: "connection", Level: redischeck.Fault, Problem: err.Error()}
		if e, ok := errors.AsType[*exitError](err); ok {
			code, f.Remedy = e.code, e.hint
		}
		out.Reachable = code != exitUnreachable
		out.Findings = []redischeck.Finding{f}
		return out, code
	}
	out.Reachable, out.redisReport = true, *report
	if report.Count(redischeck.Fault) > 0 {
		return out, exitFailed
	}
	return out, exitOK
}

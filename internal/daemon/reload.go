package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/jobs"
	"rota/scheduler"
)

// reloader puts the config of the file in force again: all of it, or nothing. One goroutine of
// [Run] alone uses it.
type reloader struct {
	log       *slog.Logger
	notify    *notifier
	scheduler *scheduler.Scheduler
	warden    *jobs.Warden
	login     *connect.Login
	started   *config.Config // with what the daemon was started: its settings hold until it ends
	current   *config.Config // with what was loaded last: its jobs hold
}

// reload reads the config again. A bad one changes nothing and is reported whole. What cannot
// change under a running daemon is named, and waits for the next start.
func (r *reloader) reload(ctx context.Context) {
	r.notify.reloading()
	defer func() { r.notify.ready(fmt.Sprintf("%d jobs", len(r.current.Jobs))) }()
	next, err := config.Load(r.started.Path)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			r.log.Error("reload refused", "fault", strings.TrimRight(line, "\n"), "effect", "the old table stays")
		}
		return
	}
	if err := r.scheduler.Reload(next.Table(ctx, r.warden), next.TableHash()); err != nil {
		r.log.Error("reload refused", "fault", err, "effect", "the old table stays")
		return
	}
	// A login belongs to its server. That of another waits with the server: the daemon would lose
	// the server it is with, and show it the secret.
	if reflect.DeepEqual(server(r.started.Redis), server(next.Redis)) {
		r.login.Set(next.Redis)
	}
	for _, w := range next.Warnings {
		r.log.Warn("config warning", "warning", w)
	}
	warnOfLimits(r.log, next, r.warden)
	if keys := needRestart(r.started, next); len(keys) > 0 {
		r.log.Warn("reload left settings as they were", "settings", strings.Join(keys, " "), "remedy", "restart the daemon")
	}
	added, removed, changed := compare(r.current.Jobs, next.Jobs)
	r.log.Info("table reloaded", "jobs", len(next.Jobs), "table", next.TableHash(),
		"added", added, "removed", removed, "changed", changed)
	r.current = next
}

// needRestart names the tables of the config that differ from those a running daemon was started
// with, and keeps.
func needRestart(was, is *config.Config) []string {
	var keys []string
	for _, part := range []struct {
		key     string
		was, is any
	}{
		{"namespace", was.Namespace, is.Namespace},
		{"state_dir", was.StateDir, is.StateDir},
		{"host", settledHost(was.Host), settledHost(is.Host)},
		{"redis", settled(was.Redis), settled(is.Redis)},
		{"lease", was.Lease, is.Lease},
		{"http", was.HTTP, is.HTTP},
		{"log", was.Log, is.Log},
		{"history", was.History, is.History},
		{"shutdown", was.Shutdown, is.Shutdown},
	} {
		if !reflect.DeepEqual(part.was, part.is) {
			keys = append(keys, part.key)
		}
	}
	return keys
}

// settledHost is the part of what is said of the host that a running daemon keeps: all but what the jobs
// see, which is part of their table.
func settledHost(h config.Host) config.Host {
	h.EnvPass = nil
	return h
}

// settled is the part of the Redis settings that a running client keeps: all but who it is, and whom it
// trusts.
func settled(r config.Redis) config.Redis {
	r.Username, r.Password = "", config.Secret{}
	if r.TLS != nil {
		r.TLS = &config.TLS{ServerName: r.TLS.ServerName}
	}
	return r
}

// server is the part of the Redis settings that says who is talked to.
func server(r config.Redis) config.Redis {
	r = settled(r)
	r.OpTimeout, r.WaitReplicas = 0, 0
	return r
}

func compare(was, is []config.Job) (added, removed, changed int) {
	old := map[string]string{}
	for i := range was {
		old[was[i].Name] = was[i].Definition()
	}
	for i := range is {
		def, ok := old[is[i].Name]
		switch {
		case !ok:
			added++
		case def != is[i].Definition():
			changed++
		}
		delete(old, is[i].Name)
	}
	return added, len(old), changed
}

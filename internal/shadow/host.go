package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"rota/internal/connect"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// host is one shadow host: the production scheduler with clients of its own.
type host struct {
	scheduler *scheduler.Scheduler
	clients   []redisClient
}

func (h *host) close() {
	for _, c := range h.clients {
		_ = c.Close()
	}
}

// newHost makes a host by the config, as the daemon does.
func (r *race) newHost(ctx context.Context, name string, logger *slog.Logger) (*host, error) {
	c := r.opt.Config
	h := &host{}
	opt := scheduler.Options{
		Jobs: r.table(ctx, name), Table: c.TableHash(),
		Namespace: c.Namespace, Host: name, Labels: c.Host.Labels, Version: r.opt.Version, Config: c.Path,
		TTL: c.Lease.TTL, RenewEvery: c.Lease.RenewEvery, LossGrace: c.Lease.LossGrace,
		FailFast: c.Lease.OnRenewError == "cancel", OpTimeout: c.Redis.OpTimeout,
		MaxRuns: c.Host.MaxRuns, MaxAge: c.History.MaxAge, OutputBytes: c.History.OutputBytes,
		Logger:  logger,
		Observe: func(s scheduler.Sight) { r.collector.saw(name, s, r.holds) },
	}
	if name != c.Host.Name {
		// Jobs that are for the host by its name are for each that stands for it.
		opt.Labels = append(slices.Clone(opt.Labels), c.Host.Name)
	}
	for _, led := range []**ledger.Ledger{&opt.Ledger, &opt.Urgent} {
		client, err := connect.OpenAs(c, r.login)
		if err != nil {
			h.close()
			return nil, fmt.Errorf("shadow: %w", err)
		}
		client.AddHook(counting{r.collector})
		h.clients = append(h.clients, client)
		if *led, err = r.openLedger(client); err != nil {
			h.close()
			return nil, err
		}
	}
	var err error
	if h.scheduler, err = scheduler.New(opt); err != nil {
		h.close()
		return nil, fmt.Errorf("shadow: %w", err)
	}
	return h, nil
}

// table is the config's, with waits for handlers.
func (r *race) table(ctx context.Context, host string) []scheduler.Job {
	table := r.opt.Config.Table(ctx, nil)
	for i := range table {
		table[i].Handler = wait{host: host, lasts: r.holds[table[i].Name].Length, collector: r.collector}
	}
	return table
}

// wait stands for what a job runs: it takes as long, and does nothing.
type wait struct {
	host      string
	lasts     time.Duration
	collector *collector
}

// Run waits until the job would have ended. Its end is brought forward when the dry run ends: a lease
// that nobody needs any more is given back, and no other host runs the tick again.
func (w wait) Run(ctx context.Context, run jobs.Run) jobs.Result {
	started := time.Now()
	timer := time.NewTimer(w.lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		return jobs.Result{Outcome: jobs.Succeeded, Started: started}
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), jobs.ErrInterrupted) {
		return jobs.Result{Outcome: jobs.Succeeded, Started: started}
	}
	end, reason, _ := jobs.EndOf(ctx)
	w.collector.ended(w.host, run, string(end))
	return jobs.Result{Outcome: end, Reason: reason, Started: started}
}

// tableName is the name in the table of a job as the ledger has it: of scope "host" without the host.
func tableName(job string) string {
	name, _, _ := strings.Cut(job, "@")
	return name
}

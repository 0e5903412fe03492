package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/internal/outcomes"
	"rota/internal/socket"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// Options of [Run].
type Options struct {
	Config  *config.Config
	Version string
	Logger  *slog.Logger     // required
	Stop    <-chan os.Signal // the first drains, the second kills; needs room for both
	Reload  <-chan os.Signal // asks for the config to be read again; one that waits is enough
}

// Run runs the daemon until a signal or the end of ctx drains it. The error is about what it
// needs of this machine before it starts: the state folder, its lock, the warden. Redis is not among
// that.
//
// The program asks [jobs.IsWarden] before it comes here.
func Run(ctx context.Context, opt Options) error {
	c, log := opt.Config, opt.Logger
	state, err := openState(c.StateDir)
	if err != nil {
		return err
	}
	defer state.close()
	if c.Redis.Embedded() {
		e, err := connect.StartEmbedded(ctx, c.StateDir)
		if err != nil {
			return err
		}
		defer e.Close()
		log.Warn("embedded redis is for trying: this host is alone, and all history is lost when it stops")
	}
	redis.SetLogger(clientLog{log})
	login := connect.NewLogin(c.Redis)
	led, closeLedger, err := openLedger(c, login)
	if err != nil {
		return err
	}
	defer closeLedger()
	// A client of its own for what must not wait behind a thousand claims: renewals, heartbeats.
	urgent, closeUrgent, err := openLedger(c, login)
	if err != nil {
		return err
	}
	defer closeUrgent()
	warden, err := jobs.StartWarden(jobs.WardenOptions{Logger: log, Cgroups: true}) //nolint:contextcheck // it waits as long as it says itself
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // likewise: nothing lives on because ctx has ended
		if err := warden.Close(); err != nil {
			log.Error("warden not closed", "err", err)
		}
	}()
	values, closeValues, err := guarded(c, login)
	if err != nil {
		return err
	}
	defer closeValues()
	sock := listen(c, log)
	defer func() { _ = sock.Close() }() // after the last run
	s, err := scheduler.New(scheduler.Options{
		Ledger: led, Urgent: urgent, Jobs: c.Table(ctx, warden), Table: c.TableHash(),
		Namespace: c.Namespace, Host: c.Host.Name, Labels: c.Host.Labels, Version: opt.Version, Config: c.Path, Socket: sock.Path(),
		TTL: c.Lease.TTL, RenewEvery: c.Lease.RenewEvery, LossGrace: c.Lease.LossGrace,
		FailFast: c.Lease.OnRenewError == "cancel", OpTimeout: c.Redis.OpTimeout,
		MaxRuns: c.Host.MaxRuns, MaxAge: c.History.MaxAge, OutputBytes: c.History.OutputBytes,
		Outcomes: outcomes.Open(outcomes.Options{Dir: filepath.Join(c.StateDir, "outcomes"), Namespace: c.Namespace, Logger: log}),
		Drain:    c.Shutdown.Drain, Logger: log,
	})
	if err != nil {
		return err
	}

	sock.Serve(socket.Options{RunOf: warden.RunOf, TokenOf: s.TokenOf, Fence: values, Logger: log})

	for _, w := range c.Warnings {
		log.Warn("config warning", "warning", w)
	}
	warnOfLimits(log, c, warden)
	log.Info("daemon started", "host", c.Host.Name, "version", opt.Version, "jobs", len(c.Jobs),
		"namespace", c.Namespace, "url", c.Redis.Where(), "config", c.Path, "table", c.TableHash())
	running, drain := context.WithCancel(ctx)
	defer drain()
	n := &notifier{log: log}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	re := &reloader{log: log, notify: n, scheduler: s, warden: warden, login: login, started: c, current: c}
	wg.Go(func() { watchStop(opt.Stop, ended, log, n, drain, s.Kill) })
	// Not the same goroutine: a file that somebody writes to is waited for, and that must not
	// delay a stop. A reload under way is, at the end: see [config.Load] for how long.
	wg.Go(func() {
		for running.Err() == nil {
			select {
			case <-opt.Reload:
				re.reload(running)
			case <-running.Done():
			}
		}
	})
	wg.Go(func() {
		n.watchdog(ended, func() time.Time {
			if running.Err() != nil {
				return time.Now() // draining: the loop has ended as it should
			}
			return s.Progress()
		})
	})
	// READY means that the table is in force. Redis may come later: a daemon that waited for it
	// here would be started again and again at boot.
	n.ready(fmt.Sprintf("%d jobs", len(c.Jobs)))
	err = s.Run(running)
	close(ended)
	drain() // also when the scheduler ended by itself
	wg.Wait()
	log.Info("daemon stopped", "host", c.Host.Name)
	return err
}

func watchStop(stop <-chan os.Signal, ended <-chan struct{}, log *slog.Logger, n *notifier, drain, kill func()) {
	draining := false
	for {
		select {
		case sig := <-stop:
			if draining {
				log.Warn("signal received", "signal", sig.String(), "effect", "every run is killed")
				kill()
				continue
			}
			draining = true
			log.Info("signal received", "signal", sig.String(), "effect", "drain; another one kills")
			n.stopping()
			drain()
		case <-ended:
			return
		}
	}
}

func openLedger(c *config.Config, login *connect.Login) (led *ledger.Ledger, closeIt func(), err error) {
	client, err := connect.OpenAs(c, login)
	if err != nil {
		return nil, nil, err
	}
	led, err = ledger.New(client, ledger.Options{Namespace: c.Namespace, Keep: c.History.Keep, WaitReplicas: c.Redis.WaitReplicas})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return led, func() { _ = client.Close() }, nil
}

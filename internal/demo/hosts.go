package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A host is one daemon: a process of its own, as it would be on a machine of its own.
type host struct {
	name   string
	config string
	cmd    *exec.Cmd

	tail   []string // the last lines of its log
	killed bool     // by the demo, to show what happens
	ended  bool
	code   int // if it has ended; -1: by a signal
}

// tailLines is how much of a log is shown when its host failed.
const tailLines = 12

// startHost starts a daemon. Its log and its end come by the queue; wg counts who brings them. The
// end of ctx kills it.
//
// The caller must stay on its operating system thread for as long as the daemon runs: the kernel
// sends the parent-death signal when the thread that forked ends (PR_SET_PDEATHSIG in prctl(2)).
func startHost(ctx context.Context, opt *Options, name, config string, q *queue, wg *sync.WaitGroup) (*host, error) {
	h := &host{name: name, config: config}
	args := append(append([]string{}, opt.Args...), "-c", config)
	h.cmd = exec.CommandContext(ctx, opt.Exe, args...)
	h.cmd.Env = daemonEnv()
	log := &lines{host: h, to: q}
	h.cmd.Stdout, h.cmd.Stderr = log, log
	// Were the log held open by something that outlives the daemon, its end would go unnoticed.
	h.cmd.WaitDelay = time.Second
	h.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // Ctrl-C is for the demo; it tells the daemons itself
		Pdeathsig: syscall.SIGKILL,
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	wg.Go(func() {
		_ = h.cmd.Wait() // the state says more
		q.put(message{host: h, ended: true, code: h.cmd.ProcessState.ExitCode()})
	})
	return h, nil
}

// daemonEnv is our own environment, without the way to tell our service manager that we are
// ready: that is not theirs to say.
func daemonEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NOTIFY_SOCKET=") {
			env = append(env, e)
		}
	}
	return env
}

// remember keeps a line of the log.
func (h *host) remember(line string) {
	if h.tail = append(h.tail, line); len(h.tail) > tailLines {
		h.tail = h.tail[1:]
	}
}

// signal sends a signal to the daemon, unless it has ended.
func (h *host) signal(sig os.Signal) {
	if !h.ended {
		_ = h.cmd.Process.Signal(sig) // os: process already finished
	}
}

// failed describes a host that is not as it should be, with the end of its log.
func (h *host) failed(what string) string {
	text := h.name + " " + what
	if len(h.tail) == 0 {
		return text + "; it logged nothing"
	}
	return text + "; the end of its log:\n" + strings.Join(h.tail, "\n")
}

// end says how it ended.
func (h *host) end() string {
	if h.code < 0 {
		return "was ended by a signal"
	}
	return fmt.Sprintf("exited with %d", h.code)
}

//go:build linux

package jobs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// freezePatience is how long a signal waits for a cgroup to stand still, and freezePoll how often
	// it looks for processes meanwhile. What hangs in the kernel never stands still, and on a busy
	// machine each process has to get its turn first.
	freezePatience = 250 * time.Millisecond
	freezePoll     = 10 * time.Millisecond

	// pidfdBatch is how many processes are held at a time, out of the usual 1024 descriptors.
	pidfdBatch = 64
)

// signal sends sigs to every process there is in the cgroup and below, and to none that is born
// later: a job that cleans up on SIGTERM starts programs for it. So that none is missed that is just
// being born, the cgroup is frozen meanwhile. It handles the signals when it is thawed, unless it
// dies of them at once.
//
// It takes milliseconds, but freezePatience when a process hangs in the kernel. The error says that
// some may not have got the signals: another user's, unless ours is root.
func (d cgroupDir) signal(sigs ...syscall.Signal) error {
	sent := map[int]bool{}
	pass := func() error {
		return d.walk(func(d cgroupDir) error { return d.signalOwn(sent, sigs) })
	}
	if err := d.write("cgroup.freeze", "1"); err != nil {
		return pass()
	}
	defer func() { _ = d.write("cgroup.freeze", "0") }()
	for end := time.Now().Add(freezePatience); ; {
		frozen := d.standsStill()
		if err := pass(); frozen || time.Now().After(end) {
			return err
		}
	}
}

// standsStill waits a moment for all to be frozen.
func (d cgroupDir) standsStill() bool {
	ctx, cancel := context.WithTimeout(context.Background(), freezePoll)
	defer cancel()
	return d.await(ctx, "frozen", 1) == nil
}

// kill ends every process in the cgroup and below, whosever it is and however fast it forks, frozen
// ones too. It does not wait: their end takes a moment, or is for ever away while one hangs in the
// kernel.
//
// Before Linux 5.14 there is no cgroup.kill. Then it is a signal, and to be repeated while the cgroup
// is populated.
func (d cgroupDir) kill() error {
	err := d.write("cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) && d.populated() {
		return d.signal(unix.SIGKILL)
	}
	if gone(err) {
		return nil
	}
	return err
}

// signalOwn signals the processes of the cgroup itself, but neither those in sent, to which it adds
// them, nor this one.
//
// A number read from a list may be a stranger's by the time it is used. So a process is held by a
// pidfd first, and then the list is asked again.
func (d cgroupDir) signalOwn(sent map[int]bool, sigs []syscall.Signal) error {
	pids, err := d.pids()
	if gone(err) {
		return nil
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return sent[pid] || pid == os.Getpid() })
	for batch := range slices.Chunk(pids, pidfdBatch) {
		err = errors.Join(err, d.signalBatch(batch, sent, sigs))
	}
	return err
}

func (d cgroupDir) signalBatch(pids []int, sent map[int]bool, sigs []syscall.Signal) error {
	var failed error
	held := map[int]int{}
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			held[pid] = fd
		} else if !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, os.NewSyscallError("pidfd_open", err))
		}
	}
	still, err := d.pids()
	if gone(err) {
		return nil
	}
	failed = errors.Join(failed, err)
	for _, pid := range still {
		fd, ok := held[pid]
		if !ok {
			continue
		}
		sent[pid] = true
		for _, sig := range sigs {
			if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = errors.Join(failed, os.NewSyscallError("pidfd_send_signal", err))
			}
		}
	}
	return failed
}

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
	// freezePatience is how long a cgroup is waited for to stand still. What hangs in the kernel never
	// does, and on a busy machine each process has to get its turn first.
	freezePatience = 250 * time.Millisecond

	// killAgain is how often what still lives is killed again, on a kernel that cannot do it at once.
	killAgain = 20 * time.Millisecond

	// pidfdBatch is how many processes are held at a time, out of the usual 1024 descriptors.
	pidfdBatch = 64
)

// A sending is signals on their way to every process there is in a cgroup and below, once each, and to
// none that is born later: a job that cleans up on SIGTERM starts programs for it. So that none is
// missed that is just being born, the cgroup is frozen meanwhile (cgroup.freeze). What is in it handles
// the signals when it is thawed, unless it dies of them at once.
//
// That takes milliseconds, but freezePatience when a process hangs in the kernel. Nobody is made to wait:
// whoever sends asks again until it is done, and thaws.
type sending struct {
	dir   cgroupDir
	sigs  []syscall.Signal
	sent  map[int]bool  // who has got them
	until time.Duration // of CLOCK_BOOTTIME: done by then, whoever still moves
}

// send begins a sending. [sending.again] must follow, and in the end [sending.thaw].
func (d cgroupDir) send(now time.Duration, sigs ...syscall.Signal) *sending {
	s := &sending{dir: d, sigs: sigs, sent: map[int]bool{}, until: later(now, freezePatience)}
	if d.write("cgroup.freeze", "1") != nil {
		s.until = now // it is gone, or may not be frozen
	}
	return s
}

// again sends to those that have not got the signals. done tells that there is nobody else: all stand
// still, or have had the time for it. The error says that some may not have got them: another user's,
// unless ours is root.
func (s *sending) again(now time.Duration) (done bool, err error) {
	// Asked before the look: who stands still now is seen by it.
	frozen, _ := s.dir.value("cgroup.events", "frozen")
	err = s.dir.walk(func(d cgroupDir) error { return d.signalOwn(s.sent, s.sigs) })
	return frozen == 1 || now >= s.until, err
}

// thaw lets the processes act on what they got.
func (s *sending) thaw() { _ = s.dir.write("cgroup.freeze", "0") }

// kill ends every process in the cgroup and below, whosever it is and however fast it forks, frozen
// ones too. It does not wait: their end takes a moment, or is for ever away while one hangs in the
// kernel.
//
// Before Linux 5.14 there is no cgroup.kill. Then it is to be repeated while the cgroup is populated.
func (d cgroupDir) kill() error {
	err := d.write("cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) && d.populated() {
		return d.killEach()
	}
	if gone(err) {
		return nil
	}
	return err
}

// killEach kills the processes that it sees, and has the others stand still, so that they do not fork
// away: what comes to a stand dies by the next one.
func (d cgroupDir) killEach() error {
	_ = d.write("cgroup.freeze", "1")
	sent := map[int]bool{}
	return d.walk(func(d cgroupDir) error { return d.signalOwn(sent, killSignals) })
}

// end kills every process in the cgroup and below, and waits for that, as [cgroupDir.wait] does.
func (d cgroupDir) end(ctx context.Context) error {
	for {
		if err := d.kill(); err != nil {
			return err
		}
		again, cancel := context.WithTimeout(ctx, killAgain)
		err := d.wait(again)
		cancel()
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
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

//go:build linux

package jobs

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confined are the processes of a run that has a cgroup: all that are in it, and besides them what
// is left of its family outside. There is a rest because a process can be moved out by whoever may do
// so: by itself, if the job runs as root or as the daemon's user, or by systemd, which gives what su(1)
// starts a scope of its own (pam_systemd(8)). It descends from the run all the same.
type confined struct {
	*family
	cgroup  *runCgroup
	sending *sending // of the signals that come before SIGKILL, while that is under way
}

// confine takes a run's cgroup in.
func confine(f *family, r *runCgroup) *confined {
	f.reached = func(p process, _ procStat) bool { return r.holds(p.pid, &f.tree.buf) }
	return &confined{family: f, cgroup: r}
}

func (c *confined) alive() bool { return c.cgroup.populated() || c.family.alive() }

// signal has SIGKILL sent at once. Anything else is sent while all stand still: the first look is taken
// here, and [confined.goOn] takes the others.
func (c *confined) signal(sigs ...syscall.Signal) {
	now := boottime()
	c.note()
	if sigs[0] == unix.SIGKILL {
		c.sending = nil // a cgroup that is frozen dies of it too
		_ = c.cgroup.kill()
		c.outside(sigs)
		return
	}
	c.sending = c.cgroup.send(now, sigs...)
	c.goOn(now)
}

// goOn goes on with what signal began; it may be called on nil.
func (c *confined) goOn(now time.Duration) {
	if !c.sends() {
		return
	}
	done, _ := c.sending.again(now)
	if !done {
		return
	}
	// Those outside last, as long as the others still stand: who is inside cannot leave meanwhile.
	c.outside(c.sending.sigs)
	c.sending.thaw()
	c.sending = nil
}

// outside signals the family's processes that are not in the cgroup, each by itself.
func (c *confined) outside(sigs []syscall.Signal) {
	main := process{pid: c.main}
	if !c.reached(main, procStat{}) {
		for _, sig := range sigs {
			_ = syscall.Kill(c.main, sig) // not reaped: the number is its own
		}
	}
	c.family.sendEach(sigs)
}

// sends tells whether signals are under way; it may be asked of nil.
func (c *confined) sends() bool { return c != nil && c.sending != nil }

// confine gives a job that is about to start its cgroup. One that cannot have any starts without: it
// then has a flaw, and is known by its family alone.
func (j *job) confine(c *cgroups) {
	if c == nil {
		return
	}
	cgroup, unset, err := c.add(j.spec.run, j.limits)
	switch {
	case err != nil:
		j.flaws = append(j.flaws, flawMessage{j.run.id, flawNone, oneLine(err)})
	case unset != nil:
		j.flaws = append(j.flaws, flawMessage{j.run.id, flawUnset, oneLine(unset)})
	}
	j.cgroup = cgroup
}

// unconfine takes the cgroup of a job back that did not start.
func (j *job) unconfine() {
	if j.cgroup == nil {
		return
	}
	if err := j.cgroup.remove(); err != nil {
		j.flaws = append(j.flaws, flawMessage{j.run.id, flawLeft, oneLine(err)})
	}
	j.cgroup = nil
}

// leave gives the cgroup of a run up in which nothing lives any more. used is what getrusage(2) knows of
// the run, and what the cgroup knows better comes in its place. want is what the run's limits had to do
// with its end.
func (s *server) leave(r *served, used usage) (_ usage, want string) {
	if r.confined == nil {
		return used, ""
	}
	cgroup := r.confined.cgroup
	u, err := cgroup.usage()
	if u.cpu > 0 {
		used.cpu = u.cpu
	}
	if u.peakBytes > 0 {
		used.peakBytes = u.peakBytes
	}
	if err = errors.Join(err, cgroup.remove()); err != nil {
		s.post(flawMessage{r.id, flawLeft, oneLine(err)})
	}
	return used, u.said(r.job.limits)
}

// oneLine is an error of several lines for the wire and the log.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

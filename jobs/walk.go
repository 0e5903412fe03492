//go:build linux

package jobs

import (
	"time"
)

const (
	// passTime is how long the warden's loop looks at processes in one round, at those of all runs
	// together. A look at thousands takes longer: it goes on in the next round, so that what the daemon
	// says and the deadlines of others have their turn between. The least margin of a deadline is 50 ms.
	passTime = 20 * time.Millisecond

	// noteTime is how much of that goes to looks before a signal is sent, which waits for them.
	noteTime = 5 * time.Millisecond

	// walkBound is how many processes a walk visits. One that forks while it is read may be read again
	// under another number; whoever must find all walks again.
	walkBound = 1 << 16
)

// A ration is the time that the loop has for looking at processes in a round. Whoever looks takes one
// step in any case, so that each gets on.
type ration struct {
	pass, note time.Duration // of a round

	until, sweepUntil, noteUntil time.Duration // of this one, on CLOCK_BOOTTIME
}

func (r *ration) begin() {
	now := boottime()
	r.until, r.sweepUntil, r.noteUntil = now+r.pass, now+r.pass/2, now+r.note
}

func (r *ration) spent() bool { return boottime() >= r.until }

// sweepSpent is spent for sweeps, which leave half of the time to the walks.
func (r *ration) sweepSpent() bool { return boottime() >= r.sweepUntil }

// noteSpent is spent for looks before a signal, which take no step then.
func (r *ration) noteSpent() bool { return boottime() >= r.noteUntil }

// A walk visits processes and all that is below them, parents first, one with each step.
type walk struct {
	tree    *tree
	next    []int
	visited int

	below map[int][]int // where the kernel lists no children: who is whose, read at the first step
}

func (t *tree) walk(from ...int) *walk { return &walk{tree: t, next: from} }

// step visits the next process, if it lives, with what was known of it then. It tells whether there is
// another one.
func (w *walk) step(do func(process, procStat)) (more bool) {
	if len(w.next) == 0 || w.visited == walkBound {
		return false
	}
	w.visited++
	pid := w.next[0]
	w.next = w.next[1:]
	if stat, err := readStat(pid, &w.tree.buf); err == nil && !stat.dead() {
		do(process{pid, stat.start}, stat)
		w.expand(pid, stat)
	}
	return len(w.next) > 0
}

// expand adds the children of a process.
func (w *walk) expand(pid int, stat procStat) {
	if w.tree.threads {
		w.next, _ = w.tree.childrenOf(pid, stat.threads, w.next)
		return
	}
	if w.below == nil {
		w.below = map[int][]int{}
		all, _ := w.tree.all()
		for child, stat := range all {
			w.below[stat.parent] = append(w.below[stat.parent], child)
		}
	}
	w.next = append(w.next, w.below[pid]...)
}

// below calls do for every live process below pid, however long that takes.
func (t *tree) below(pid int, do func(process, procStat)) {
	w := t.walk()
	if stat, err := readStat(pid, &t.buf); err == nil {
		w.expand(pid, stat)
	}
	for w.step(do) {
	}
}

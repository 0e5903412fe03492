//go:build linux

package jobs

import (
	"testing"
	"time"
)

// Each row is what happens to one run, in order, and what is known of it then. Instants are seconds.
func TestLife_Steps(t *testing.T) {
	const s = time.Second
	lease := leaseTimes{term: 20 * s, kill: 25 * s}
	type event func(*life)
	exit := func(at time.Duration) event { return func(l *life) { l.exit(at) } }
	ask := func(at, grace time.Duration) event { return func(l *life) { l.ask(at, grace) } }
	move := func(term, kill time.Duration) event { return func(l *life) { l.move(term, kill) } }
	at := func(now time.Duration) event { return func(l *life) { l.step(now) } }

	for _, c := range []struct {
		name  string
		lease leaseTimes
		grace time.Duration
		what  []event
		stage stage
		by    endedBy
		wake  time.Duration
	}{
		{"nothing has happened", lease, 10 * s, []event{at(1 * s)}, running, byItself, 20 * s},
		{"no lease, no deadline", leaseTimes{}, 10 * s, []event{at(1000 * s)}, running, byItself, 0},
		{"just before term", lease, 0, []event{at(20*s - 1)}, running, byItself, 20 * s},
		{"at term", lease, 0, []event{at(20 * s)}, ending, byDeadline, 25 * s},
		{"between term and kill", lease, 0, []event{at(20 * s), at(25*s - 1)}, ending, byDeadline, 25 * s},
		{"at kill", lease, 0, []event{at(20 * s), at(25 * s)}, killing, byDeadline, 0},
		{"woken after kill", lease, 0, []event{at(26 * s)}, killing, byDeadline, 0},
		{"term alone", leaseTimes{term: 20 * s}, 0, []event{at(1000 * s)}, ending, byDeadline, never},
		{"kill alone", leaseTimes{kill: 25 * s}, 0, []event{at(25 * s)}, killing, byDeadline, 0},

		{"moved on", lease, 0, []event{move(30*s, 35*s), at(29 * s)}, running, byItself, 30 * s},
		{"moved on, and past that", lease, 0, []event{move(30*s, 35*s), at(30 * s)}, ending, byDeadline, 35 * s},
		{"moved on too late to be saved", lease, 0, []event{at(20 * s), move(30*s, 35*s), at(25 * s)}, killing, byDeadline, 0},
		{"moved back", lease, 0, []event{move(5*s, 6*s), at(5 * s)}, ending, byDeadline, 6 * s},
		{"moved back while ending", lease, 0, []event{at(20 * s), move(21*s, 22*s), at(22 * s)}, killing, byDeadline, 0},
		{"moved away", lease, 0, []event{move(0, 0), at(1000 * s)}, running, byItself, 0},
		{"not moved away once it ends", lease, 0, []event{at(20 * s), move(0, 0), at(25 * s)}, killing, byDeadline, 0},

		{"asked, and the lease goes on under it", lease, 0, []event{ask(1*s, 60*s), move(30*s, 35*s), at(26 * s)}, ending, byDaemon, 35 * s},
		{"asked, and the grace is over under a lease that went on", lease, 0, []event{ask(1*s, 60*s), move(80*s, 85*s), at(61 * s)}, killing, byDaemon, 0},
		{"asked, and the lease does not go on", lease, 0, []event{ask(1*s, 60*s), move(30*s, 35*s), at(35 * s)}, killing, byDaemon, 0},
		{"asked, then moved back", lease, 0, []event{ask(1*s, 60*s), move(2*s, 3*s), at(3 * s)}, killing, byDaemon, 0},
		{"main ended, and the lease goes on under the rest", lease, 60 * s, []event{exit(1 * s), move(30*s, 35*s), at(26 * s)}, ending, byItself, 35 * s},

		{"main ended", lease, 10 * s, []event{exit(1 * s)}, ending, byItself, 11 * s},
		{"main ended, the rest did not", lease, 10 * s, []event{exit(1 * s), at(11 * s)}, killing, byItself, 0},
		{"main ended, no grace", lease, 0, []event{exit(1 * s), at(1 * s)}, killing, byItself, 0},
		{"main ended, the lease is over before the grace", lease, 10 * s, []event{exit(19 * s), at(20 * s)}, ending, byItself, 25 * s},
		{"main ended, endless grace", leaseTimes{}, never, []event{exit(1 * s), at(1000 * s)}, ending, byItself, never},
		{"main ended after it was asked to", lease, 10 * s, []event{ask(1*s, 5*s), exit(2 * s)}, ending, byDaemon, 6 * s},
		{"main ended after term", lease, 1 * s, []event{at(20 * s), exit(21 * s)}, ending, byDeadline, 25 * s},

		{"asked", lease, 0, []event{ask(1*s, 5*s)}, ending, byDaemon, 6 * s},
		{"asked, the grace is over", lease, 0, []event{ask(1*s, 5*s), at(6 * s)}, killing, byDaemon, 0},
		{"asked with a grace beyond the lease", lease, 0, []event{ask(1*s, never)}, ending, byDaemon, 25 * s},
		{"asked, then term comes", lease, 0, []event{ask(1*s, never), at(20 * s)}, ending, byDaemon, 25 * s},
		{"asked twice, shorter", lease, 0, []event{ask(1*s, 15*s), ask(2*s, 5*s)}, ending, byDaemon, 7 * s},
		{"asked twice, longer", lease, 0, []event{ask(1*s, 5*s), ask(2*s, 15*s)}, ending, byDaemon, 6 * s},
		{"asked without a grace", lease, 0, []event{ask(1*s, 0), at(1 * s)}, killing, byDaemon, 0},
		{"asked for SIGKILL", lease, 0, []event{ask(1*s, -1)}, killing, byDaemon, 0},
		{"asked for SIGKILL after SIGTERM", lease, 0, []event{ask(1*s, never), ask(2*s, -1)}, killing, byDaemon, 0},
		{"asked after main ended", lease, 10 * s, []event{exit(1 * s), ask(2*s, 1*s)}, ending, byItself, 3 * s},
		{"asked after term", lease, 0, []event{at(20 * s), ask(20*s, never)}, ending, byDeadline, 25 * s},
		{"nothing brings it back", lease, 10 * s, []event{ask(1*s, -1), exit(2 * s), ask(3*s, never), move(90*s, 99*s), at(4 * s)}, killing, byDaemon, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := life{grace: c.grace, term: c.lease.term, kill: c.lease.kill}
			for _, happens := range c.what {
				happens(&l)
			}
			if l.stage != c.stage || l.by != c.by || l.wake() != c.wake {
				t.Errorf("stage %d by %d, wakes at %v; want %d by %d, %v", l.stage, l.by, l.wake(), c.stage, c.by, c.wake)
			}
		})
	}
}

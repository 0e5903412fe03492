package scheduler

import (
	"container/heap"
	"iter"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Due is one tick of one job, with all that claiming it needs.
type Due struct {
	Job   *Job
	Index int // the job's place in the table

	Tick time.Time // nominal
	Prev time.Time // the tick before; zero: there is none
	Next time.Time // the tick after; zero: there is none

	At       time.Time // when it starts: Tick plus the job's splay
	Deadline time.Time // how late it may start
}

// Plan yields the ticks of jobs that start after `after`, in the order of their start; of
// those of one instant, in the order of the table. It is pure and ends only if every schedule
// does. Jobs that are disabled, have no schedule or are another host's have no ticks.
func Plan(jobs []Job, after time.Time) iter.Seq[Due] {
	return func(yield func(Due) bool) {
		q := make(planQueue, 0, len(jobs))
		for i := range jobs {
			j := &jobs[i]
			if !j.due() {
				continue
			}
			from := after.Add(-j.Delay())
			if tick, ok := j.Schedule.Next(from); ok {
				prev, _ := j.Schedule.Prev(tick)
				q = append(q, newDue(j, i, prev, tick))
			}
		}
		heap.Init(&q)
		for len(q) > 0 {
			d := q[0]
			if !yield(d) {
				return
			}
			if d.Next.IsZero() {
				heap.Pop(&q)
				continue
			}
			q[0] = newDue(d.Job, d.Index, d.Tick, d.Next)
			heap.Fix(&q, 0)
		}
	}
}

// newest returns the last tick of a job that starts at or before now. ok is false if there was
// none. Its start deadline may have passed.
func newest(j *Job, index int, now time.Time) (d Due, ok bool) {
	if !j.due() {
		return Due{}, false
	}
	return last(j, index, now)
}

// last is newest also for a job that has no ticks on this host. It has a schedule.
func last(j *Job, index int, now time.Time) (d Due, ok bool) {
	tick, ok := j.Schedule.Prev(now.Add(-j.Delay() + 1))
	if !ok {
		return Due{}, false
	}
	return dueAt(j, index, tick), true
}

// dueAt makes the Due of a tick that is known to be one.
func dueAt(j *Job, index int, tick time.Time) Due {
	prev, _ := j.Schedule.Prev(tick)
	return newDue(j, index, prev, tick)
}

func newDue(j *Job, index int, prev, tick time.Time) Due {
	d := Due{Job: j, Index: index, Tick: tick, Prev: prev, At: tick.Add(j.Delay())}
	if next, ok := j.Schedule.Next(tick); ok {
		d.Next = next
	}
	d.Deadline = d.At.Add(startDeadline(j.StartDeadline, tick, d.Next))
	if at := d.Next.Add(j.Delay()); !d.Next.IsZero() && d.Deadline.After(at) {
		d.Deadline = at
	}
	return d
}

// startDeadline is how late a tick may start, if nothing else is said: half the gap to the
// next tick, but at least 5 s and at most an hour.
func startDeadline(set time.Duration, tick, next time.Time) time.Duration {
	const least, most = 5 * time.Second, time.Hour
	switch {
	case set > 0:
		return set
	case next.IsZero():
		return most
	}
	return min(max(next.Sub(tick)/2, least), most)
}

// Delay is how long after its ticks the job starts: its own share of its Splay, by a hash of the
// name, so that it is the same on every host, for every tick and after every restart.
func (j *Job) Delay() time.Duration {
	if j.Splay <= 0 {
		return 0
	}
	ms := uint64(j.Splay.Milliseconds())
	if ms == 0 {
		return 0
	}
	return time.Duration(xxhash.Sum64String(j.Name)%ms) * time.Millisecond
}

// planQueue is a heap of each job's next tick.
type planQueue []Due

func (q planQueue) Len() int { return len(q) }
func (q planQueue) Less(a, b int) bool {
	if c := q[a].At.Compare(q[b].At); c != 0 {
		return c < 0
	}
	return q[a].Index < q[b].Index
}
func (q planQueue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *planQueue) Push(x any)   { *q = append(*q, x.(Due)) }
func (q *planQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

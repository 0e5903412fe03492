package preview

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"rota/scheduler"
)

const (
	planners   = 2 // goroutines that plan and rank
	batchTicks = 2048
	// mostStretches and mostRestarts bound how often the planner starts anew, which costs a few searches
	// a job.
	mostStretches, fewStretches = 256, 8
	mostRestarts                = 256_000 // of one job
)

// stream yields the ticks of a fleet that start within [from, until), in their order, with the hosts
// that come first for each. Planning and ranking are most of the work of a replay and know nothing of
// what is decided, so that stretches of the window are done ahead, side by side. At most a few thousand
// ticks are held. The goroutines are the stream's, and have ended when it has.
func (f *fleet) stream(ctx context.Context, from, until time.Time) iter.Seq[[]tick] {
	return func(yield func([]tick) bool) {
		ctx, cancel := context.WithCancel(ctx)
		most := min(max(mostRestarts/max(len(f.entries), 1), fewStretches), mostStretches)
		length := max(time.Hour, until.Sub(from)/time.Duration(most)+1)
		n := int((until.Sub(from) + length - 1) / length)
		stretches := make([]chan []tick, n)
		for i := range stretches {
			stretches[i] = make(chan []tick, 4)
		}
		todo := make(chan int, n)
		for i := range n {
			todo <- i
		}
		close(todo)
		used := make(chan []tick, 4*planners) // batches to be filled again
		var wg sync.WaitGroup
		for range planners {
			wg.Go(func() {
				for i := range todo {
					begin := from.Add(time.Duration(i) * length)
					end := begin.Add(length)
					if end.After(until) {
						end = until
					}
					f.stretch(ctx, begin, end, stretches[i], used)
					close(stretches[i])
				}
			})
		}
		defer wg.Wait()
		defer cancel()
		for _, c := range stretches {
			for batch := range c {
				if !yield(batch) {
					return
				}
				select {
				case used <- batch[:0]:
				default: // there are enough
				}
			}
		}
	}
}

// stretch plans and ranks what starts in [begin, end).
func (f *fleet) stretch(ctx context.Context, begin, end time.Time, out chan<- []tick, used <-chan []tick) {
	if ctx.Err() != nil {
		return
	}
	var weights []uint64
	var batch []tick
	send := func() bool {
		if len(batch) == 0 {
			return ctx.Err() == nil
		}
		select {
		case out <- batch:
			batch = nil
			return true
		case <-ctx.Done():
			return false
		}
	}
	for d := range scheduler.Plan(f.jobs, begin.Add(-1)) {
		if !d.At.Before(end) {
			break
		}
		if batch == nil {
			select {
			case batch = <-used:
			default:
				batch = make([]tick, 0, batchTicks)
			}
		}
		t := tick{entry: int32(d.Index), tick: d.Tick.Unix(), at: d.At.UnixNano(), deadline: d.Deadline.UnixNano()}
		if !d.Next.IsZero() {
			t.next = d.Next.Unix()
		}
		weights = f.rank(&t, d.Tick, weights)
		if batch = append(batch, t); len(batch) == cap(batch) && !send() {
			return
		}
	}
	send()
}

// rank notes the host that comes first for a tick. weights is scratch, and returned.
func (f *fleet) rank(t *tick, at time.Time, weights []uint64) []uint64 {
	e := &f.entries[t.entry]
	switch len(e.may) {
	case 0:
		t.first = -1
		return weights
	case 1:
		t.first = int32(e.may[0])
		return weights
	}
	weights = scheduler.Weights(weights[:0], e.plan.Name, at, e.name)
	first := 0
	for i, w := range weights {
		if w < weights[first] || w == weights[first] && e.name[i] < e.name[first] {
			first = i
		}
	}
	t.first = int32(e.may[first])
	return weights
}

// ranked are the hosts that may run a job in the order in which they claim one tick.
func (e *entry) ranked(at time.Time) []int {
	weights := scheduler.Weights(nil, e.plan.Name, at, e.name)
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(weights[a], weights[b]), cmp.Compare(e.name[a], e.name[b]))
	})
	for i := range order {
		order[i] = e.may[order[i]]
	}
	return order
}

package locking

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// hints listens, while somebody waits in Acquire, for the word of Redis that a lock was released. It
// has one connection of its own for all names, none while nobody waits. What is missed, because the
// connection broke or the right to subscribe is missing, is made up for by asking: nothing depends
// on a hint.
//
// A release tells only if it finds the note on the lock that somebody waits, and a waiter subscribes
// after it has left that note. So it asks once more when the subscription stands: the lock may have
// been released in between.
type hints struct {
	locker  *Locker
	changed chan struct{}

	mu        sync.Mutex
	wanted    map[string]*queue // by channel
	listening bool
}

// want begins to listen for those in q. It does not wait for the subscription.
func (h *hints) want(channel string, q *queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.wanted[channel]
	if before == q || h.locker.enter() != nil {
		return
	}
	defer h.locker.wg.Done()
	h.wanted[channel] = q
	if before != nil {
		signal(q.told) // the subscription may stand, and what it told a moment ago went to the others
	}
	if !h.listening {
		h.listening = true
		h.locker.wg.Go(h.listen)
	}
	signal(h.changed)
}

// unwant ends what q wanted, but not what others want by now.
func (h *hints) unwant(channel string, q *queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted[channel] == q {
		delete(h.wanted, channel)
		signal(h.changed)
	}
}

// listen subscribes to what is wanted until nothing is.
func (h *hints) listen() {
	ctx := h.locker.closing
	sub := h.locker.client.Subscribe(ctx) // to nothing yet: it opens no connection
	defer func() { _ = sub.Close() }()
	var heard <-chan any // of a subscription to something: before, there is nothing to receive
	have := map[string]bool{}
	for {
		more, less, done := h.difference(have)
		if done {
			return
		}
		// A subscription that fails is made again by go-redis, as after a connection that broke.
		h.call(ctx, more, sub.Subscribe)
		h.call(ctx, less, sub.Unsubscribe)
		if heard == nil && len(have) > 0 {
			heard = sub.ChannelWithSubscriptions(redis.WithChannelSize(1000))
		}
		for wait := true; wait; {
			select {
			case m, ok := <-heard:
				if !ok {
					heard = nil
				}
				h.tell(m)
			case <-h.changed:
				wait = false
			case <-ctx.Done():
				wait = false
			}
		}
	}
}

// difference tells what has to be subscribed to and what no longer, and notes it as done. When
// nothing is wanted, listen is over.
func (h *hints) difference(have map[string]bool) (more, less []string, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wanted) == 0 || h.locker.closing.Err() != nil {
		h.listening = false
		return nil, nil, true
	}
	for channel := range h.wanted {
		if !have[channel] {
			have[channel] = true
			more = append(more, channel)
		}
	}
	for channel := range have {
		if h.wanted[channel] == nil {
			delete(have, channel)
			less = append(less, channel)
		}
	}
	return more, less, false
}

func (h *hints) call(ctx context.Context, channels []string, do func(context.Context, ...string) error) {
	if len(channels) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.locker.opt.CallTimeout)
	defer cancel()
	_ = do(ctx, channels...)
}

// tell wakes who waits for what a message is about: that a lock was released, or that a subscription
// stands, for the first time or again.
func (h *hints) tell(m any) {
	channel := ""
	switch m := m.(type) {
	case *redis.Message:
		channel = m.Channel
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			channel = m.Channel
		}
	}
	h.mu.Lock()
	q := h.wanted[channel]
	h.mu.Unlock()
	if q != nil {
		signal(q.told)
	}
}

package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
	"rota/locking/fence"
)

// orders are what a worker is told, as one object on its standard input. Where Redis is it knows from
// its own config.
type orders struct {
	Scenario   string `json:"scenario"`
	Worker     int    `json:"worker"`
	Iterations int    `json:"iterations"`
	Prefix     string `json:"prefix"` // of the lock's keys
	Guards     string `json:"guards"` // of the guarded value's
	Name       string `json:"name"`   // of both
	Floor      string `json:"floor"`
}

// word is what a worker says of one thing that happened, as one object a line.
type word struct {
	What   string `json:"what"` // one of the constants below
	Token  int64  `json:"token,omitempty"`
	Others bool   `json:"others,omitempty"` // entered: somebody else was inside
	Stale  bool   `json:"stale,omitempty"`  // left: the guard refused the write
	Text   string `json:"text,omitempty"`   // failed: why
}

const (
	entered = "entered" // it holds the lock and is inside
	left    = "left"    // it was inside for its whole time, and has written
	lost    = "lost"    // its lease was lost under it, and it went out at once
	freeze  = "freeze"  // it waits to be stopped
	failed  = "failed"  // something does not work
	away    = "away"    // Redis does not answer, and it gives up
)

// patience is how long a worker goes on to ask a Redis that does not answer: longer than one that is
// started anew is away.
const patience = 5 * time.Second

// errAway says that Redis has not answered for that long.
var errAway = errors.New("redis is away")

// worker is one process of a drill.
type worker struct {
	orders

	scenario Scenario
	locker   *locking.Locker
	guard    *fence.Redis
	floor    *floor
	say      *json.Encoder
}

// Work is what a worker process does. It reads its orders from in, and says to out what happens. The
// error says that it could not begin.
func Work(ctx context.Context, client redis.UniversalClient, in io.Reader, out io.Writer) error {
	w := &worker{say: json.NewEncoder(out)}
	if err := json.NewDecoder(in).Decode(&w.orders); err != nil {
		return fmt.Errorf("drill: orders: %w", err)
	}
	var ok bool
	if w.scenario, ok = Find(w.Scenario); !ok {
		return fmt.Errorf("drill: no scenario %q", w.Scenario)
	}
	var err error
	w.locker, err = locking.New(client, locking.Options{ //nolint:contextcheck // it ends with Close
		Prefix: w.Prefix, TTL: ttl, RenewEvery: renewEvery, MaxBackoff: ttl,
		Holder: "rota drill, worker " + strconv.Itoa(w.Worker) + ", pid " + strconv.Itoa(os.Getpid()),
	})
	if err != nil {
		return err
	}
	defer func() { _ = w.locker.Close() }()
	if w.guard, err = fence.NewRedis(client, fence.RedisOptions{Prefix: w.Guards}); err != nil {
		return err
	}
	if w.floor, err = openFloor(w.Floor); err != nil {
		return err
	}
	for n := 0; n < w.Iterations && ctx.Err() == nil; {
		done, err := w.iterate(ctx, n)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errAway):
			w.tell(word{What: away, Text: strings.TrimPrefix(inOneLine(err), errAway.Error()+": ")})
			return nil
		case err != nil:
			w.tell(word{What: failed, Text: inOneLine(err)})
			n++ // a fault must not be tried for ever
		case done:
			n++
		}
	}
	return nil
}

// acquire waits for the lock, for as long as it takes while another holds it. A Redis that does not answer
// is not waited for as long: the error is errAway then.
func (w *worker) acquire(ctx context.Context) (*locking.Lease, error) {
	for {
		asking, stop := context.WithTimeout(ctx, patience)
		lease, err := w.locker.Acquire(asking, w.Name)
		stop()
		switch {
		case err == nil, ctx.Err() != nil, !errors.Is(err, context.DeadlineExceeded):
			return lease, err
		case errors.Is(err, locking.ErrUnavailable):
			text := err.Error()
			if _, reason, ok := strings.Cut(text, locking.ErrUnavailable.Error()+": "); ok {
				text = reason
			}
			return nil, fmt.Errorf("%w: %s", errAway, text)
		}
	}
}

// inOneLine is the text of an error that may be several, joined.
func inOneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// iterate is one time inside. A lease that is lost under the worker is taken again.
func (w *worker) iterate(ctx context.Context, n int) (done bool, err error) {
	lease, err := w.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if e := lease.Release(ctx); e != nil && !errors.Is(e, locking.ErrLost) {
			err = errors.Join(err, e)
		}
	}()
	token := lease.FencingToken()
	others, err := w.floor.enter()
	if err != nil {
		return false, err
	}
	w.tell(word{What: entered, Token: token, Others: others})
	defer func() { err = errors.Join(err, w.floor.leave()) }()

	// What a careful holder does: nothing older gets in from here on. Who was overtaken already is
	// told so.
	if _, err := w.guard.Raise(ctx, w.Name, token); errors.Is(err, fence.ErrStale) {
		w.tell(word{What: left, Token: token, Stale: true})
		return true, nil
	} else if err != nil {
		return false, err
	}
	stays, long := w.scenario.stays(w.Worker, n, w.Iterations)
	switch {
	case long && w.scenario.overstays:
		lease.Stop() // no renewal from here on, and no ear for what becomes of the lease
		time.Sleep(stays)
	case long && w.scenario.flushes:
		time.Sleep(stays) // as one that does not look after its lease, which is lost in that time
	case long && w.scenario.freezes:
		w.tell(word{What: freeze, Token: token})
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // until somebody lets it go on
	default:
		select {
		case <-time.After(stays):
		case <-lease.Context().Done():
			w.tell(word{What: lost, Token: token})
			return false, nil
		}
	}
	err = w.guard.Write(ctx, w.Name, token, []byte(strconv.Itoa(w.Worker)))
	stale := errors.Is(err, fence.ErrStale)
	if err != nil && !stale {
		return false, err
	}
	w.tell(word{What: left, Token: token, Stale: stale})
	return true, nil
}

// tell says a word. A worker that nobody hears has nothing more to do: its next write ends it.
func (w *worker) tell(what word) { _ = w.say.Encode(what) }

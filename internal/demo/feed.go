package demo

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"
)

// An event is one line of a daemon's log that tells something about a race.
type event struct {
	host   string
	kind   kind
	job    string
	tick   time.Time
	token  int64
	lag    time.Duration
	holder string // skipped: the host that held the lock
}

// kind is the message of an event, as package scheduler logs it. A message that is reworded there
// would no longer be understood here; a test looks for each of them in the scheduler's sources.
type kind string

const (
	runStarted  kind = "run started"
	runEnded    kind = "run ended"
	claimLost   kind = "claim lost"                // it asked, and another had the tick already
	tickLeft    kind = "left tick to another host" // it looked before its turn, and did not ask
	tickSkipped kind = "tick skipped"
	tickMissed  kind = "tick missed"
)

// parseLine reads a line of a daemon's log. Most lines are not about a race: ok is false.
func parseLine(host, line string) (e event, ok bool) {
	var v struct {
		Msg    kind      `json:"msg"`
		Job    string    `json:"job"`
		Tick   time.Time `json:"tick"`
		Token  int64     `json:"token"`
		Lag    string    `json:"lag"`
		Holder string    `json:"holder"`
	}
	if json.Unmarshal([]byte(line), &v) != nil || v.Job == "" || v.Tick.IsZero() {
		return event{}, false
	}
	switch v.Msg {
	case runStarted, runEnded, claimLost, tickLeft, tickSkipped, tickMissed:
	default:
		return event{}, false
	}
	lag, _ := time.ParseDuration(v.Lag)
	return event{
		host: host, kind: v.Msg, job: v.Job, tick: v.Tick.UTC(), token: v.Token, lag: lag, holder: v.Holder,
	}, true
}

// A message is what the other goroutines hand to the one that runs the demo.
type message struct {
	host    *host
	line    string   // of its log
	ended   bool     // it has ended, with code
	code    int      // -1: by a signal
	remains *remains // what the kill left of it
	asked   bool     // no host: somebody asked for the end
}

// queue hands messages over, in order, without ever making the sender wait.
type queue struct {
	ready chan struct{} // holds a token when there may be messages

	mu       sync.Mutex
	messages []message
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(m message) {
	q.mu.Lock()
	q.messages = append(q.messages, m)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all there are.
func (q *queue) take() []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.messages
	q.messages = nil
	return all
}

// lines is the writer that a daemon's log goes to. It belongs to the goroutine that copies it.
type lines struct {
	host *host
	to   *queue
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.to.put(message{host: l.host, line: string(line)})
		l.rest = rest
	}
}

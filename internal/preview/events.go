package preview

// event is something that happens at an instant of the replay.
type event struct {
	at     int64
	seq    uint64 // those of one instant happen in the order in which they were planned
	kind   eventKind
	placed bool  // of a look: there is a place for what it finds
	host   int32 // of a look and a reply
	entry  int32 // of a look
	try    *try  // of the kinds up to atDeadline but atReply
	run    *run  // of atEnd
}

type eventKind uint8

const (
	atTurn     eventKind = iota // a host may claim
	atClaim                     // Redis decides
	atDeadline                  // a tick in line may not start any more
	atReply                     // a claim that was not won gives its place back
	atEnd                       // a run ends, and its lock is free
	atLook                      // a host looks what a job owes
)

// agenda is a heap of what is to come.
type agenda struct {
	events []event
	seq    uint64
	claims int // of the kinds up to atClaim: outstanding decisions
}

func (a *agenda) add(e event) {
	a.seq++
	e.seq = a.seq
	if e.kind <= atClaim {
		a.claims++
	}
	q := append(a.events, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
	a.events = q
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// next takes out the first. There is one.
func (a *agenda) next() event {
	q := a.events
	first, n := q[0], len(q)-1
	last := q[n]
	q[n] = event{}
	q = q[:n]
	for i := 0; n > 0; {
		least, from := -1, 4*i+1
		for c := from; c < min(from+4, n); c++ {
			if least < 0 || q[c].before(&q[least]) {
				least = c
			}
		}
		if least < 0 || !q[least].before(&last) {
			q[i] = last
			break
		}
		q[i] = q[least]
		i = least
	}
	a.events = q
	if first.kind <= atClaim {
		a.claims--
	}
	return first
}

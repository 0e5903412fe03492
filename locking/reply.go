package locking

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// The scripts answer with strings, and arrays of strings. An answer of another shape is never
// acted on: it is an error that says what came, and what the script did is then unknown.

// maxFence is the bound of fencing tokens: from 2^53 on, Lua and JSON lose digits.
const maxFence = 1 << 53

// lockReply is what acquire and query answer: a yes or no, a fencing token, and where there
// is a lease to tell of, what is left of it and who holds it.
type lockReply struct {
	yes    bool
	own    bool // of query: the token that was named holds it
	fence  int64
	leased bool
	left   time.Duration
	holder string
}

func readLock(r Reply) (lockReply, error) {
	if r.Err != nil {
		return lockReply{}, r.Err
	}
	fields, ok := r.Value.([]any)
	if !ok || len(fields) != 2 && len(fields) != 4 {
		return lockReply{}, unexpected(r.Value)
	}
	var room [4]string
	text := room[:len(fields)]
	for i, f := range fields {
		if text[i], ok = f.(string); !ok {
			return lockReply{}, unexpected(r.Value)
		}
	}
	a := lockReply{yes: text[0] == "1" || text[0] == "2", own: text[0] == "2", leased: len(text) == 4}
	fence, err := strconv.ParseInt(text[1], 10, 64)
	if err != nil || fence < 0 || !a.yes && text[0] != "0" {
		return lockReply{}, unexpected(r.Value)
	}
	a.fence = fence
	if a.leased {
		left, err := strconv.ParseInt(text[2], 10, 64)
		if err != nil || left < 0 || left > math.MaxInt64/int64(time.Millisecond) {
			return lockReply{}, unexpected(r.Value)
		}
		a.left, a.holder = time.Duration(left)*time.Millisecond, text[3]
	}
	return a, nil
}

// readAcquired reads acquire.lua's answer: yes without a lease is granted, no with one held.
func readAcquired(r Reply) (lockReply, error) {
	a, err := readLock(r)
	if err == nil && (a.yes == a.leased || a.own || a.fence <= 0 || a.fence >= maxFence) {
		return lockReply{}, unexpected(r.Value)
	}
	return a, err
}

// readState reads query.lua's answer. Own tells that the token which was named holds the lock.
func readState(r Reply) (s State, own bool, err error) {
	a, err := readLock(r)
	if err == nil && (a.yes != a.leased || a.fence >= maxFence) {
		return State{}, false, unexpected(r.Value)
	}
	return State{Held: a.yes, FencingToken: a.fence, Remaining: a.left, Holder: a.holder}, a.own, err
}

// readYes reads the answer of renew.lua and release.lua.
func readYes(r Reply) (bool, error) {
	if r.Err != nil {
		return false, r.Err
	}
	switch r.Value {
	case "1":
		return true, nil
	case "0":
		return false, nil
	}
	return false, unexpected(r.Value)
}

func unexpected(v any) error {
	return fmt.Errorf("%w: unexpected answer %.100q", ErrUnavailable, fmt.Sprint(v))
}

package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

// exec sends a pipeline of plain commands and returns the first error of any. Exec's own is
// the first command's that has one, and a key that does not exist counts as that too: it would
// hide a connection that broke behind it.
func exec(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	for _, c := range cmds {
		if err := commandError(c); err != nil {
			return err
		}
	}
	if err = locking.Classify(err); errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// execEach is exec for a pipeline about several jobs: a key of another type is no error of it, but
// of the command alone, for whoever reads that one's answer.
func execEach(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	for _, c := range cmds {
		if err := commandError(c); err != nil && !errors.Is(err, locking.ErrConflict) {
			return err
		}
	}
	// Of a connection that was never made the commands may know nothing.
	err = locking.Classify(err)
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return err
	}
	return nil
}

// commandError returns the error of one plain command; a key that does not exist is none. It
// is classified as those of scripts are ([locking.Classify]), and a key of another type
// matches [locking.ErrConflict] and is named, as by them.
func commandError(c redis.Cmder) error {
	err := locking.Classify(c.Err()) // first: a Sentinel's "no such master" is a missing key to the client
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return nil
	case redis.HasErrorPrefix(err, "WRONGTYPE") && len(c.Args()) > 1:
		return fmt.Errorf("%w: %v holds another type", locking.ErrConflict, c.Args()[1])
	}
	return err
}

// Scripts answer with arrays of strings. A reply of another shape is never acted on: it is an
// error that matches [locking.ErrUnavailable], and what was asked for stays unknown.
type reply struct {
	verb, name string
	fields     []string
	err        error
}

// readReply reads what a script answered; verb and name say of what, in errors.
func readReply(verb, name string, v any, atLeast int) reply {
	list, ok := v.([]any)
	r := reply{verb: verb, name: name}
	if !ok {
		r.fail("reply is a %T, not an array", v)
		return r
	}
	r.fields = make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			r.fail("element %d of the reply is a %T, not a string", i, e)
			return r
		}
		r.fields = append(r.fields, s)
	}
	if len(r.fields) < atLeast {
		r.fail("reply has %d elements, want at least %d", len(r.fields), atLeast)
	}
	return r
}

// fail notes what is wrong with the reply; the first fault stays.
func (r *reply) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("ledger: %s: %w: %s", r.what(), locking.ErrUnavailable, fmt.Sprintf(format, args...))
	}
}

func (r *reply) what() string {
	if r.name == "" {
		return r.verb
	}
	return fmt.Sprintf("%s %q", r.verb, r.name)
}

func (r *reply) text(i int) string {
	if r.err != nil {
		return ""
	}
	if i >= len(r.fields) {
		r.fail("reply has %d elements, want one more", len(r.fields))
		return ""
	}
	return r.fields[i]
}

func (r *reply) number(i int) int64 {
	s := r.text(i)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.fail("element %d of the reply is %q, not a number", i, s)
	}
	return n
}

func (r *reply) instant(i int) time.Time { return instant(r.number(i)) }

func (r *reply) span(i int) time.Duration { return time.Duration(r.number(i)) * time.Millisecond }

// instant makes a time of milliseconds since the epoch; 0 is no time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// millis is the inverse of instant.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

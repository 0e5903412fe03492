package locking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

//go:embed renew.lua
var renewBody string

// renewedAtOnce bounds the leases that one script renews, and so how long the server is busy with it:
// about 0.1 ms. A script for each costs two to three times as much.
const renewedAtOnce = 64

// renewAll is the Renew of the Locker's Keeper. What one script cannot answer for all of its locks is
// asked for each: where the server forbids one of the names, for a name that holds another type, and on
// a Cluster, whose scripts stay within one slot.
func (l *Locker) renewAll(ctx context.Context, grants []Grant) []error {
	errs := make([]error, len(grants))
	calls := make([]Call, len(grants))
	for i, g := range grants {
		keys, err := l.names.keys(g.Name)
		errs[i] = err // never: the name was good for the grant
		calls[i] = Call{Keys: []string{keys.lock}, Args: []any{g.Token.Reveal()}}
	}
	alone := make([]int, len(calls)) // those that want a script of their own
	for i := range calls {
		alone[i] = i
	}
	if _, ok := l.client.(*redis.Client); ok && len(calls) > 1 {
		alone = l.renewTogether(ctx, calls, errs)
	}
	single := make([]Call, len(alone))
	for n, i := range alone {
		single[n] = calls[i]
	}
	for n, r := range l.renew.RunAll(ctx, l.client, single) {
		yes, err := readYes(r)
		errs[alone[n]] = renewError(yes, err)
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, ErrLost) {
			errs[i] = fmt.Errorf("renew %q: %w", grants[i].Name, err)
		}
	}
	return errs
}

// renewTogether renews many leases with one script, and sets the errors of those that it has an answer
// for. It returns the places of the others.
func (l *Locker) renewTogether(ctx context.Context, calls []Call, errs []error) (unknown []int) {
	together := make([]Call, 0, len(calls)/renewedAtOnce+1)
	for some := range slices.Chunk(calls, renewedAtOnce) {
		c := Call{Keys: make([]string, len(some)), Args: make([]any, len(some))}
		for i, one := range some {
			c.Keys[i], c.Args[i] = one.Keys[0], one.Args[0]
		}
		together = append(together, c)
	}
	for n, r := range l.renew.RunAll(ctx, l.client, together) {
		answers, _ := r.Value.(string)
		for k := range together[n].Keys {
			i := n*renewedAtOnce + k
			switch {
			case errors.Is(r.Err, ErrUnavailable):
				errs[i] = r.Err
			case len(answers) == len(together[n].Keys) && answers[k] != '?':
				errs[i] = renewError(answers[k] == '1', nil)
			default:
				unknown = append(unknown, i)
			}
		}
	}
	return unknown
}

func renewError(yes bool, err error) error {
	if err == nil && !yes {
		return ErrLost
	}
	return err
}

package ledger

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed leases.lua
var leasesBody string

//go:embed unlock.lua
var unlockBody string

// Lease is a lease as Redis has it at one moment: of a job, or of a command under `rota lock`.
type Lease struct {
	Lock  string // its name; of a job whose runs may overlap LOCK:TICK
	Token int64  // the fencing token; 0: the key holds no lease, and Holder says what is wrong

	Holder string // who, as the lease has it
	Host   string // the first part of that
	Job    string // "" of a command under `rota lock`
	Run    string // of a job

	Left time.Duration // until it ends by itself if it is not renewed
	TTL  time.Duration // its length
}

// Leases lists the leases there are, by their locks' names. It looks through the keyspace page by page:
// one that comes or goes meanwhile may be missing, and nothing waits for it. A key that holds something
// else is in the list too.
func (l *Ledger) Leases(ctx context.Context) ([]Lease, error) {
	found := map[string]Lease{}
	for page := "0"; ; {
		v, err := l.leases.Run(ctx, l.client, []string{l.keys.hosts()}, l.keys.prefix, "-", page)
		if err != nil {
			return nil, fmt.Errorf("leases: %w", err)
		}
		fields, ok := v.([]any)
		if !ok || len(fields) != 2 {
			return nil, fmt.Errorf("leases: unexpected answer %.100q", fmt.Sprint(v))
		}
		next, _ := fields[0].(string)
		list, _ := fields[1].([]any)
		for ; len(list) >= 5; list = list[5:] {
			name, _ := list[0].(string)
			lease, err := readLease(name, list[1:5])
			if err != nil {
				return nil, fmt.Errorf("leases: %w", err)
			}
			found[name] = lease // a page may name a key that another named
		}
		if page = next; page == "0" || page == "" {
			break
		}
	}
	out := make([]Lease, 0, len(found))
	for _, lease := range found {
		out = append(out, lease)
	}
	slices.SortFunc(out, func(a, b Lease) int { return cmp.Compare(a.Lock, b.Lock) })
	return out, nil
}

// AskToEnd asks whoever holds a lock to end and release it, and returns the lease; nil if the lock is
// free. A run of a job is cancelled, as by [Ledger.Cancel]. It does not wait for the end, and asking
// again is the same. The error is a [*ByError] when by cannot be kept.
func (l *Ledger) AskToEnd(ctx context.Context, lock string, by By) (*Lease, error) {
	if err := by.Check(); err != nil {
		return nil, err
	}
	_, lease, err := l.unlockCall(ctx, lock, by.String(), "")
	if err == nil && lease != nil && lease.Run != "" {
		// A run that has ended meanwhile, or that Redis has forgotten, has nobody to tell.
		if err = l.Cancel(ctx, lease.Run, by); errors.Is(err, ErrEnded) || errors.Is(err, ErrNoRun) {
			err = nil
		}
	}
	return lease, err
}

// LeaseOf returns the lease on a lock, nil if there is none.
func (l *Ledger) LeaseOf(ctx context.Context, lock string) (*Lease, error) {
	_, lease, err := l.unlockCall(ctx, lock, "-", "-") // no lease has this token
	return lease, err
}

// TakeAway deletes the lease with this fencing token from a lock, and tells whether it was there. Its
// holder learns of it with its next renewal; until then it may go on, and so may the next one. That is
// for leases of which nobody answers.
func (l *Ledger) TakeAway(ctx context.Context, lock string, token int64) (bool, error) {
	answer, _, err := l.unlockCall(ctx, lock, "-", strconv.FormatInt(token, 10))
	return answer == "deleted", err
}

func (l *Ledger) unlockCall(ctx context.Context, lock, by, token string) (answer string, lease *Lease, err error) {
	v, err := l.unlock.Run(ctx, l.client, []string{l.keys.lease(lock)}, l.keys.prefix, lock, by, token)
	if err != nil {
		return "", nil, fmt.Errorf("unlock %q: %w", lock, err)
	}
	fields, ok := v.([]any)
	if !ok || len(fields) != 1 && len(fields) != 5 {
		return "", nil, fmt.Errorf("unlock %q: unexpected answer %.100q", lock, fmt.Sprint(v))
	}
	if answer, _ = fields[0].(string); len(fields) == 1 {
		return answer, nil, nil
	}
	read, err := readLease(lock, fields[1:])
	if err != nil {
		return "", nil, fmt.Errorf("unlock %q: %w", lock, err)
	}
	return answer, &read, nil
}

// readLease reads fencing token, time left, length and holder.
func readLease(lock string, fields []any) (Lease, error) {
	var text [4]string
	var number [3]int64
	for i, f := range fields {
		var ok bool
		var err error
		if text[i], ok = f.(string); ok && i < len(number) {
			number[i], err = strconv.ParseInt(text[i], 10, 64)
		}
		if !ok || err != nil {
			return Lease{}, fmt.Errorf("lock %q: unexpected answer %.100q", lock, fmt.Sprint(fields))
		}
	}
	lease := Lease{
		Lock: lock, Token: number[0], Holder: text[3],
		Left: time.Duration(number[1]) * time.Millisecond, TTL: time.Duration(number[2]) * time.Millisecond,
	}
	if parts := strings.SplitN(lease.Holder, "/", 3); lease.Token > 0 && len(parts) == 3 {
		lease.Host, lease.Job = parts[0], parts[1]
		if lease.Job != "" {
			lease.Run = parts[2]
		}
	}
	return lease, nil
}

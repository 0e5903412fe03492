package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// What a script wrote is on its server first, and on the replicas a moment later: a server that dies
// in between takes it along (Redis documentation, "Replication"). WAIT blocks until replicas have what
// was written over the same connection before, so it goes into one pipeline with the script: sent by
// itself it may take another connection, and would then say nothing of this write.

// maxRedirects is how often a Cluster may send a pipeline to another node.
const maxRedirects = 3

// RunConfirmed is [Script.RunAll], and asks in the same pipeline how many replicas have what the calls
// wrote. Short is nil if that many have all of it. Else it matches [ErrNotReplicated] and
// [ErrUnavailable], and what the replies grant must be given back: it may be gone with the server.
//
// Redis waits for half of the time that ctx has left (without a deadline, for 750 ms), and every call
// of the pipeline with it. A replica that is there answers in about one round trip from the server. On a
// Cluster the keys of all calls are of one slot.
//
// With replicas 0 it is RunAll.
func (s *Script) RunConfirmed(ctx context.Context, c redis.UniversalClient, replicas int, calls []Call) (replies []Reply, short error) {
	if replicas <= 0 || len(calls) == 0 {
		return s.RunAll(ctx, c, calls), nil
	}
	p := &confirmedPipeline{script: s, replicas: replicas, calls: calls, replies: make([]Reply, len(calls)), node: c}
	cluster, onCluster := c.(*redis.ClusterClient)
	if onCluster {
		node, err := cluster.MasterForKey(ctx, calls[0].Keys[0])
		if err != nil {
			for i := range p.replies {
				p.replies[i].Err = Classify(err)
			}
			return p.replies, nil
		}
		p.node = node
	}
	pending := make([]int, len(calls))
	for i := range pending {
		pending[i] = i
	}
	// It is sent again where a server does not know the script, or says that another one has the slot.
	for redirects := 0; len(pending) > 0; {
		again, addr := p.send(ctx, pending)
		pending = again
		if addr != "" {
			if redirects++; !onCluster || redirects > maxRedirects || !p.redirect(ctx, cluster, addr) {
				break // their replies say where to, which means: not now
			}
		}
	}
	return p.replies, p.short
}

// confirmedPipeline sends calls to one server, and asks what its replicas have of them.
type confirmedPipeline struct {
	script   *Script
	replicas int
	calls    []Call
	replies  []Reply
	short    error

	node   redis.UniversalClient
	asking bool // the node is taking the slot over, and serves who asks for that
	whole  bool // the script is not known there
}

// send sends some of the calls. Again lists those that were not carried out and may be elsewhere, or
// whole; addr is where, "" for here.
func (p *confirmedPipeline) send(ctx context.Context, which []int) (again []int, addr string) {
	pipe := p.node.Pipeline()
	cmds := make([]once, len(which))
	for n, i := range which {
		if p.asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		cmds[n] = p.script.command(ctx, p.whole, p.calls[i])
		_ = pipe.Process(ctx, cmds[n])
	}
	confirmed := redis.NewIntCmd(ctx, "wait", p.replicas, confirmWithin(ctx).Milliseconds())
	_ = pipe.Process(ctx, confirmed)
	_, err := pipe.Exec(ctx)

	carriedOut := false
	var unknown, redirected []int
	for n, i := range which {
		p.replies[i] = readCmd(cmds[n].Cmd, err)
		switch to, asking := redirection(cmds[n].Err()); {
		case to != "":
			redirected, addr, p.asking = append(redirected, i), to, asking
		case isNoScript(cmds[n].Err()):
			unknown = append(unknown, i)
		default:
			carriedOut = carriedOut || p.replies[i].Err == nil
		}
	}
	if carriedOut {
		p.short = errors.Join(p.short, p.shortage(confirmed))
	}
	p.whole = p.whole || len(unknown) > 0
	return slices.Concat(unknown, redirected), addr
}

func (p *confirmedPipeline) shortage(confirmed *redis.IntCmd) error {
	have, err := confirmed.Result()
	if err == nil && have >= int64(p.replicas) {
		return nil
	}
	return &replicaError{want: p.replicas, have: have, err: err}
}

// redirect turns to the node at an address. False: the cluster's own list of masters has none there, as
// of one that has no slot yet.
func (p *confirmedPipeline) redirect(ctx context.Context, cluster *redis.ClusterClient, addr string) bool {
	var (
		mu    sync.Mutex
		found *redis.Client
	)
	// It reads the list anew, so that everybody else finds the slot as well.
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr == addr {
			mu.Lock()
			defer mu.Unlock()
			found = c
		}
		return nil
	})
	if found == nil {
		return false
	}
	p.node = found
	return true
}

// redirection tells where a server of a Cluster sends a command instead, and whether only this once
// (Redis documentation, "Cluster specification", MOVED and ASK).
func redirection(err error) (addr string, asking bool) {
	if addr, ok := redis.IsMovedError(err); ok {
		return addr, false
	}
	addr, _ = redis.IsAskError(err)
	return addr, addr != ""
}

// confirmWithin is how long Redis may wait for its replicas: "WAIT n 0" would be for ever.
func confirmWithin(ctx context.Context) time.Duration {
	left := defaultCallTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return max(left/2, time.Millisecond)
}

// replicaError says how many replicas have a write. It is [ErrNotReplicated].
type replicaError struct {
	want int
	have int64
	err  error // of WAIT; nil: it answered
}

func (e *replicaError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("locking: it is not known whether %d of its replicas have it: %v", e.want, e.err)
	}
	return fmt.Sprintf("locking: %d of its replicas have it in time, and %d must", e.have, e.want)
}

// Is tells that it is an [ErrNotReplicated], and that asking again may help.
func (e *replicaError) Is(target error) bool {
	return target == ErrNotReplicated || target == ErrUnavailable
}

package locking

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

//go:embed lease.lua
var prelude string

// Prelude returns the Lua text that reads, grants, renews and releases a lock. [NewScript]
// puts what a script uses of it in front, so that acquiring and releasing exist once: for this
// library, and for whoever decides on more than the lock in the same script.
func Prelude() string { return prelude }

// Script is a Lua script that may use the functions of the [Prelude]. It is sent as EVALSHA.
// A server that does not know it (after a restart, a failover or SCRIPT FLUSH; Redis' EVAL
// documentation calls the script cache "always volatile") answers NOSCRIPT, and then the
// same call sends it whole, as EVAL. A Script is immutable and safe for concurrent use.
type Script struct {
	text string
	sha  string // EVALSHA names a script by its SHA-1; nothing else rests on it
}

// NewScript makes a script of what body uses of the [Prelude], followed by body. The last of several
// parts is the body, those before it are preludes of the caller's own, lists of definitions that each
// begin with "local" at the start of a line; of these too only what is used is sent. Names and values
// belong into KEYS and ARGV alone: text spliced into a script would make another script of it each
// time, and the server keeps them all.
func NewScript(parts ...string) *Script {
	text := ""
	for _, part := range slices.Backward(append([]string{prelude}, parts...)) {
		if text == "" {
			text = part
		} else {
			text = needed(part, text) + text
		}
	}
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// SHA returns the digest by which EVALSHA names the script, 40 hexadecimal digits.
func (s *Script) SHA() string { return s.sha }

// Call is one use of a script in a pipeline.
type Call struct {
	Keys []string
	Args []any // strings and integers
}

// Reply is the answer to a [Call]: either a value, as go-redis reads it (string, int64,
// []any, or nil), or an error.
//
// The error matches [ErrConflict] if a lock's key holds something that is no lease, and
// [ErrUnavailable] if asking again may help; unless the server itself answered so, it is
// then unknown whether the script has run. Any other error of the server, such as a missing
// permission, is returned as it is and will not go away by itself.
type Reply struct {
	Value any
	Err   error
}

// Run sends the script once. The error is as in [Reply].
//
// Ctx should carry a deadline and c should have ContextTimeoutEnabled set: without both,
// go-redis waits for a server that hangs as long as its ReadTimeout says. Cancelling ctx
// does not interrupt a call that has been written.
func (s *Script) Run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) (any, error) {
	call := Call{Keys: keys, Args: args}
	cmd := s.command(ctx, false, call)
	_ = c.Process(ctx, cmd) // it is in the command
	if isNoScript(cmd.Err()) {
		cmd = s.command(ctx, true, call)
		_ = c.Process(ctx, cmd)
	}
	r := readCmd(cmd.Cmd, nil)
	return r.Value, r.Err
}

// once is a command that go-redis does not repeat by itself when no answer came, as it would
// otherwise, on a Cluster whatever its options say: a repeated release answers that there is nothing to
// release, and only who sent it knows whether that is the answer to the first. Redirections are followed
// all the same.
type once struct{ *redis.Cmd }

// NoRetry is what go-redis asks.
func (once) NoRetry() bool { return true }

// command is one use of the script, by its digest or whole.
func (s *Script) command(ctx context.Context, whole bool, call Call) once {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	if whole {
		args = append(args, "eval", s.text)
	} else {
		args = append(args, "evalsha", s.sha)
	}
	args = append(args, len(call.Keys))
	for _, k := range call.Keys {
		args = append(args, k)
	}
	cmd := redis.NewCmd(ctx, append(args, call.Args...)...)
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(3) // by which a Cluster's slot is found
	}
	return once{cmd}
}

// RunAll sends the script once for each call, all in one pipeline, and returns as many
// replies, in the same order. In a pipeline every call gets a NOSCRIPT of its own, so only
// those that got it are sent again.
func (s *Script) RunAll(ctx context.Context, c redis.UniversalClient, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	if len(calls) == 1 { // a pipeline of one costs more than its command
		replies[0].Value, replies[0].Err = s.Run(ctx, c, calls[0].Keys, calls[0].Args...)
		return replies
	}
	all := make([]int, len(calls))
	for i := range calls {
		all[i] = i
	}
	send := func(which []int, whole bool) (unknown []int) {
		if len(which) == 0 {
			return nil
		}
		pipe := c.Pipeline()
		cmds := make([]once, len(which))
		for n, i := range which {
			cmds[n] = s.command(ctx, whole, calls[i])
			_ = pipe.Process(ctx, cmds[n])
		}
		_, err := pipe.Exec(ctx)
		for n, i := range which {
			if isNoScript(cmds[n].Err()) {
				unknown = append(unknown, i)
			}
			replies[i] = readCmd(cmds[n].Cmd, err)
		}
		return unknown
	}
	send(send(all, false), true)
	return replies
}

// readCmd reads one answer. A command of a failed pipeline that shows neither a value nor an
// error has the pipeline's: no silence is ever taken for an answer.
func readCmd(cmd *redis.Cmd, pipeline error) Reply {
	v, err := cmd.Result()
	switch {
	case errors.Is(err, redis.Nil) && !unknownMaster(err):
		return Reply{}
	case err == nil && v == nil && pipeline != nil:
		err = pipeline
	}
	if err != nil {
		return Reply{Err: Classify(err)}
	}
	return Reply{Value: v}
}

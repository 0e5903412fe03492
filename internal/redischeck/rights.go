package redischeck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

// right is a command that Rota sends, or a script of it calls, and a form of it that changes nothing.
// KEY stands for a key that nobody has, CHANNEL for one on which nothing is listened to.
type right struct {
	name string // as in an ACL
	try  string // its words; the first ones are name's, if they are not said
}

// rights are what every fleet needs. docs/deployments.md has the same ones, which a test holds.
func rights() []right {
	return []right{
		{"ping", "PING"},
		{"client|setname", "CLIENT SETNAME rota"},
		{"eval", "EVAL return_1 1 KEY"}, // Lua that cannot be compiled
		{"evalsha", "EVALSHA 0000000000000000000000000000000000000000 1 KEY"},
		{"time", "TIME"},
		{"scan", "SCAN 0 COUNT 1"},
		{"get", "GET KEY"},
		{"set", "SET KEY v PX never"},
		{"del", "DEL KEY"},
		{"getdel", "GETDEL KEY"},
		{"mget", "MGET KEY"},
		{"exists", "EXISTS KEY"},
		{"strlen", "STRLEN KEY"},
		{"setbit", "SETBIT KEY nowhere 1"},
		{"pexpire", "PEXPIRE KEY never"},
		{"pttl", "PTTL KEY"},
		{"persist", "PERSIST KEY"},
		{"hget", "HGET KEY f"},
		{"hset", "HSET KEY f v odd"},
		{"hsetnx", "HSETNX KEY f v"}, // has no such form
		{"hdel", "HDEL KEY f"},
		{"hlen", "HLEN KEY"},
		{"hgetall", "HGETALL KEY"},
		{"hmget", "HMGET KEY f"},
		{"hexists", "HEXISTS KEY f"},
		{"hincrby", "HINCRBY KEY f nothing"},
		{"sadd", "SADD KEY m"}, // nor this
		{"srem", "SREM KEY m"},
		{"scard", "SCARD KEY"},
		{"smembers", "SMEMBERS KEY"},
		{"xadd", "XADD KEY nowhere f v"},
		{"xdel", "XDEL KEY 0-1"},
		{"xlen", "XLEN KEY"},
		{"xrange", "XRANGE KEY - + COUNT 1"},
		{"xrevrange", "XREVRANGE KEY + - COUNT 1"},
		{"xtrim", "XTRIM KEY MAXLEN nothing"},
		{"publish", "PUBLISH CHANNEL check"},
	}
}

// hintRights only bring hints: without them all goes on, a moment later.
func hintRights() []string { return []string{"publish", "subscribe", "unsubscribe"} }

// keyNames are a key of each kind, as docs/redis-keys.md lists them.
func keyNames() []string {
	return []string{
		"lock:rota-check", "lock:rota-check:fence", "lock:rota-check:end", "lock:rota-check:wait",
		"job:rota-check", "job:rota-check:runs", "job:rota-check:fails", "job:rota-check:skips",
		"run:rota-check", "out:rota-check", "taken:rota-check:0", "fence:rota-check",
		"hosts", "drain", "paused", "requests", "open", "epoch",
	}
}

// lack is what a refusal says is missing.
type lack int

const (
	lackNothing lack = iota
	lackCommand
	lackKey
	lackChannel
)

// lacking reads a refusal. Redis has said it in other words with every version; a DRYRUN in others still.
func lacking(err error) lack {
	text := fmt.Sprint(err)
	switch {
	case err == nil:
		return lackNothing
	case strings.Contains(text, "permissions to run"), strings.Contains(text, "can't run this command"):
		return lackCommand
	case strings.Contains(text, "permissions to access") && strings.Contains(text, "channel"):
		return lackChannel
	case strings.Contains(text, "permissions to access"):
		return lackKey
	}
	return lackNothing
}

// trial is one command, and what came of it.
type trial struct {
	args []any
	err  error
}

// rights tries every command, key and channel that a fleet needs. The error is of the connection.
func (c *checker) rights(ctx context.Context) error {
	needed := rights()
	if c.opt.WaitReplicas > 0 {
		needed = append(needed, right{"wait", "WAIT 0 1"})
	}
	if c.opt.Cluster {
		needed = append(needed, right{"asking", "ASKING"})
	}
	// New for each command, so that none finds what another left.
	name := "lock:rota-check-" + locking.NewToken().Reveal()[:12]
	var trials []*trial
	for i, r := range needed {
		t := &trial{}
		for w := range strings.FieldsSeq(r.try) {
			switch w {
			case "KEY":
				t.args = append(t.args, c.key(fmt.Sprint(name, "-", i)))
			case "CHANNEL":
				t.args = append(t.args, c.key("events"))
			default:
				t.args = append(t.args, w)
			}
		}
		trials = append(trials, t)
	}
	dry := c.mayDryRun(ctx)
	if err := c.attempt(ctx, dry, trials); err != nil {
		return err
	}
	lackCommands, lackHints, unknown := []string{}, []string{}, []string{}
	refused := func(name string, err error) {
		switch hint := slices.Contains(hintRights(), name); {
		case lacking(err) == lackCommand && hint:
			lackHints = append(lackHints, name)
		case lacking(err) == lackCommand:
			lackCommands = append(lackCommands, name)
		case isUnknown(err):
			unknown = append(unknown, name)
		}
	}
	for i, t := range trials {
		refused(needed[i].name, t.err)
	}
	listen, unlisten := c.listen(ctx)
	refused("subscribe", listen)
	refused("unsubscribe", unlisten)
	keys, err := c.lackingKeys(ctx, dry)
	if err != nil {
		return err
	}
	c.reportRights(lackCommands, lackHints, keys, lacking(trials[len(rights())-1].err) == lackChannel || lacking(listen) == lackChannel)
	if len(unknown) > 0 {
		c.found(Fault, "commands", "the server does not know "+strings.Join(unknown, ", "),
			"Rota needs Redis 6.2 or newer, or Valkey; where rename-command took a command away, give its name back")
	}
	return nil
}

func (c *checker) reportRights(commands, hints, keys []string, channels bool) {
	user := c.opt.User
	if user == "" {
		user = "default"
	}
	allow := func(commands []string) string { return "ACL SETUSER " + user + " +" + strings.Join(commands, " +") }
	if len(commands) > 0 {
		c.found(Fault, "acl", fmt.Sprintf("user %q may not run %s", user, strings.Join(commands, ", ")), allow(commands))
	}
	if len(keys) > 0 {
		c.found(Fault, "acl", fmt.Sprintf("user %q may not read and write %s", user, strings.Join(keys, ", ")),
			fmt.Sprintf("ACL SETUSER %s ~%s", user, c.key("*")))
	}
	if len(hints) > 0 {
		c.found(Warning, "acl", fmt.Sprintf("user %q may not run %s: hosts look every two seconds instead of when they are told", user, strings.Join(hints, ", ")), allow(hints))
	}
	if channels {
		c.found(Warning, "acl", fmt.Sprintf("user %q has no right to the channel %s: hosts look every two seconds instead of when they are told", user, c.key("events")),
			fmt.Sprintf("ACL SETUSER %s &%s", user, c.key("*")))
	}
	if c.info == nil {
		c.found(Warning, "acl", fmt.Sprintf("user %q may not run info: version, memory, persistence and replicas were not looked at", user), allow([]string{"info"}))
	}
}

// lackingKeys names the kinds of keys that the user may not read, or not write.
func (c *checker) lackingKeys(ctx context.Context, dry bool) (lack []string, err error) {
	var trials []*trial
	for _, name := range keyNames() {
		trials = append(trials,
			&trial{args: []any{"GET", c.key(name)}},
			&trial{args: []any{"PEXPIRE", c.key(name), "never"}}) // it reads its arguments after the rights
	}
	if err := c.attempt(ctx, dry, trials); err != nil {
		return nil, err
	}
	for i, t := range trials {
		name := c.key(strings.ReplaceAll(keyNames()[i/2], "rota-check", "NAME"))
		if lacking(t.err) == lackKey && !slices.Contains(lack, name) {
			lack = append(lack, name)
		}
	}
	return lack, nil
}

// mayDryRun tells whether the user may ask what a user may do (ACL DRYRUN, from Redis 7.0 on).
func (c *checker) mayDryRun(ctx context.Context) bool {
	t := &trial{args: []any{"PING"}}
	_, err := c.do(ctx, c.dry(t)...)
	return err == nil
}

func (c *checker) dry(t *trial) []any {
	user := c.opt.User
	if user == "" {
		user = "default"
	}
	return append([]any{"ACL", "DRYRUN", user}, t.args...)
}

// attempt sends the trials in one pipeline. With dry none is carried out.
func (c *checker) attempt(ctx context.Context, dry bool, trials []*trial) error {
	ctx, cancel := context.WithTimeout(ctx, c.opt.OpTimeout)
	defer cancel()
	pipe := c.node.Pipeline()
	cmds := make([]*redis.Cmd, len(trials))
	for i, t := range trials {
		args := t.args
		if dry {
			args = c.dry(t)
		}
		cmds[i] = pipe.Do(ctx, args...)
		if name := fmt.Sprint(t.args[0]); !dry && (name == "HSETNX" || name == "SADD") {
			pipe.PExpire(ctx, fmt.Sprint(t.args[1]), 1e9)
			pipe.Del(ctx, fmt.Sprint(t.args[1]))
		}
	}
	_, err := pipe.Exec(ctx)
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		return err
	}
	if v, first := cmds[0].Result(); err != nil && first == nil && v == nil {
		return err // no connection could be made: nothing has an answer of its own
	}
	for i, t := range trials {
		v, err := cmds[i].Result()
		if t.err = err; dry && err == nil && v != "OK" {
			t.err = errors.New(fmt.Sprint(v))
		}
	}
	return nil
}

// listen tries the right to be told, on a connection of its own.
func (c *checker) listen(ctx context.Context) (listen, unlisten error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.OpTimeout)
	defer cancel()
	sub := c.node.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if err := sub.Subscribe(ctx, c.key("events")); err != nil {
		return err, nil
	}
	if _, err := sub.Receive(ctx); err != nil {
		return err, nil
	}
	if err := sub.Unsubscribe(ctx, c.key("events")); err != nil {
		return nil, err
	}
	for { // what was told meanwhile comes first
		m, err := sub.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if s, ok := m.(*redis.Subscription); ok && s.Kind == "unsubscribe" {
			return nil, nil
		}
	}
}

// isUnknown tells that a server does not have a command, or not under its name.
func isUnknown(err error) bool {
	text := strings.ToLower(fmt.Sprint(err))
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown redis command") ||
		strings.HasPrefix(text, "err command ") && strings.HasSuffix(text, " not found") // of a DRYRUN
}

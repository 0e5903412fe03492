package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/locking"
	"rota/scheduler/ledger"
)

// session is a command's way to the ledger of the config's fleet.
type session struct {
	cfg    *config.Config
	led    *ledger.Ledger
	client redis.UniversalClient
}

// open loads the config and makes a session. It does not connect. The caller closes it.
func (a *app) open() (*session, error) {
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	// What go-redis would print is in the errors of the calls, which are printed once.
	redis.SetLogger(silent{})
	client, err := connect.Open(cfg)
	if err != nil {
		return nil, &exitError{code: exitUsage, text: err.Error()}
	}
	led, err := ledger.New(client, ledger.Options{Namespace: cfg.Namespace, Keep: cfg.History.Keep, WaitReplicas: cfg.Redis.WaitReplicas})
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &session{cfg: cfg, led: led, client: client}, nil
}

func (s *session) close() { _ = s.client.Close() }

// ask makes one call to the ledger, bounded by redis.op_timeout, and puts its error into words.
func ask[T any](ctx context.Context, s *session, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Redis.OpTimeout)
	defer cancel()
	v, err := call(ctx)
	return v, s.explain(err)
}

// now is Redis' clock.
func (s *session) now(ctx context.Context) (time.Time, error) {
	return ask(ctx, s, func(ctx context.Context) (time.Time, error) {
		_, now, err := s.led.Recent(ctx, nil, 1)
		return now, err
	})
}

// explain says what a failed call means to the person at the terminal, and gives it its exit
// code: a Redis that does not answer, or not now, is unreachable; one that refuses waits for
// somebody to act, so asking again is no use, and that is a failure. No password is in any of
// it: redis.url is shown as the config keeps it, without user and password.
func (s *session) explain(err error) error { return s.explainAfter(err, s.cfg.Redis.OpTimeout) }

// explainAfter is explain of a call that was waited for as long as that.
func (s *session) explainAfter(err error, waited time.Duration) error {
	where := "redis at " + s.cfg.Redis.Where()
	if s.cfg.Redis.Embedded() {
		where = "the embedded redis of " + s.cfg.StateDir
	}
	switch {
	case err == nil, errors.Is(err, ledger.ErrNoRun), errors.Is(err, ledger.ErrEnded), errors.Is(err, context.Canceled):
		return err
	}
	err = locking.Classify(err)
	answer, answered := errors.AsType[redis.Error](err)
	switch {
	case answered && strings.HasPrefix(answer.Error(), "MOVED"):
		return &exitError{
			code: exitFailed, text: where + " is one node of a Cluster, and the namespace is on another",
			hint: "write nodes of it in redis.addrs, and leave redis.url out",
		}
	case answered && strings.Contains(answer.Error(), "cluster support disabled"):
		return &exitError{
			code: exitFailed, text: where + " is no Cluster: " + plain(answer.Error()),
			hint: "redis.addrs are nodes of a Cluster, or with redis.master Sentinels; one server is named by redis.url",
		}
	case errors.Is(err, locking.ErrConflict):
		return conflict(where, err)
	case answered && errors.Is(err, locking.ErrTooOld):
		return &exitError{
			code: exitFailed, text: where + " does not know what it was asked: " + said(answer),
			hint: "Rota needs Redis 6.2 or newer",
		}
	case answered && errors.Is(err, locking.ErrUnavailable):
		return &exitError{code: exitUnreachable, text: where + " is not ready: " + said(answer)}
	case answered:
		return refusal(where, said(answer))
	}
	e := &exitError{code: exitUnreachable, text: where + " is unreachable: " + s.causeAfter(err, waited)}
	switch {
	case s.cfg.Redis.Embedded() && errors.Is(err, os.ErrPermission):
		e.hint = "only the user of its daemon can use it"
	case s.cfg.Redis.Embedded():
		e.hint = "it lives in the daemon: start one with 'rota run -c " + s.cfg.Path + "'"
	case strings.HasPrefix(s.cfg.Redis.URL, "rediss:") && (isTimeout(err) || errors.Is(err, io.EOF)):
		e.hint = "redis.url is for TLS (rediss); a server without it answers nothing"
	}
	return e
}

// inScript is what Redis adds to the answer of a command in a script: which script that was, and where in it.
var inScript = regexp.MustCompile(` ?script: [0-9a-f]{40}, on @user_script:\d+\.?|^ERR Error running script \(call to f_[0-9a-f]{40}\): |@user_script: ?\d+: -?`)

// said is an answer of Redis as people read it.
func said(answer redis.Error) string { return plain(inScript.ReplaceAllString(answer.Error(), "")) }

// conflict is what to say of a key that holds what Rota has not written. The error names the key first.
func conflict(where string, err error) error {
	text := err.Error()
	if _, about, ok := strings.Cut(text, locking.ErrConflict.Error()+": "); ok {
		text = about
	}
	key, _, _ := strings.Cut(text, " ")
	return &exitError{code: exitFailed, text: where + ": " + plain(text), hint: conflictHint(plain(key), text)}
}

// conflictHint is what can be done about it. Rota overwrites nothing that is another's.
func conflictHint(key, text string) string {
	if strings.Contains(text, "no fencing token left") {
		return "take another name for the lock: whoever checks its tokens has seen the highest there is"
	}
	return fmt.Sprintf("is another program using this namespace? Look with redis-cli TYPE '%s'; once nobody uses it, redis-cli DEL '%s'", key, key)
}

// refusal is what to say of a Redis that answered with an error which asking again will not
// change.
func refusal(where, answer string) error {
	code, _, _ := strings.Cut(answer, " ")
	// Of what a script may not do Redis 7.0 says so in a sentence.
	if strings.Contains(answer, "user executing the script can't") {
		code = "NOPERM"
	}
	switch code {
	case "NOAUTH", "WRONGPASS":
		return &exitError{
			code: exitFailed, text: where + " refused the login (auth): " + plain(answer),
			hint: "see redis.username and redis.password_file in the config",
		}
	case "NOPERM":
		return &exitError{
			code: exitFailed, text: where + " refused: " + plain(answer),
			hint: "the ACL user of redis.username lacks a right: 'rota check --redis' tells which",
		}
	}
	// A server that asks for a password of old, and one that has none, say it in a sentence.
	if strings.Contains(answer, "AUTH") {
		return &exitError{
			code: exitFailed, text: where + " refused the login (auth): " + plain(answer),
			hint: "see redis.password_file in the config",
		}
	}
	return &exitError{code: exitFailed, text: where + " refused: " + plain(answer)}
}

// cause is the innermost reason of a failed connection: the rest of the chain names the address
// once more, and the layers of the client.
func (s *session) cause(err error) string { return s.causeAfter(err, s.cfg.Redis.OpTimeout) }

func (s *session) causeAfter(err error, waited time.Duration) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if s.cfg.Redis.Embedded() && errno == syscall.ENOENT {
			return "no daemon runs there"
		}
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("%q: %s", dns.Name, dns.Err)
	}
	if isTimeout(err) {
		return fmt.Sprintf("no answer within %s", waited)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return plain(op.Err.Error())
	}
	text := err.Error()
	if _, reason, ok := strings.Cut(text, locking.ErrUnavailable.Error()+": "); ok {
		text = reason
	}
	return plain(text)
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

// configName is the config as messages about hosts name it.
func (s *session) configName() string { return filepath.Base(s.cfg.Path) }

// silent is a logger of the Redis client that says nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

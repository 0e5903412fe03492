package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/locking"
	"rota/scheduler/ledger"
)

// answer is an error as a Redis server answers it.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ redis.Error = answer("")

func TestSession_Explain(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tc := range []struct {
		name, url string
		err       error
		code      int
		text      string // a part of it
		hint      string // a part of it
	}{
		{"nobody listens", "redis://db:6379/0", dial(syscall.ECONNREFUSED), exitUnreachable, "redis at redis://db:6379/0 is unreachable: connection refused", ""},
		{"no answer", "redis://db:6379/0", context.DeadlineExceeded, exitUnreachable, "no answer within 1.5s", ""},
		{"no answer to TLS", "rediss://db:6379/0", context.DeadlineExceeded, exitUnreachable, "no answer within 1.5s", "is for TLS"},
		{"hung up on TLS", "rediss://db:6379/0", io.EOF, exitUnreachable, "is unreachable: EOF", "is for TLS"},
		{"no TLS there", "rediss://db:6379/0", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, exitUnreachable, "does not look like a TLS handshake", ""},
		{"no such name", "redis://db:6379/0", dial(&net.DNSError{Name: "db", Err: "no such host"}), exitUnreachable, `"db": no such host`, ""},
		{"still loading", "redis://db:6379/0", answer("LOADING Redis is loading the dataset in memory"), exitUnreachable, "is not ready: LOADING", ""},
		{"a replica now", "redis://db:6379/0", answer("READONLY You can't write against a read only replica."), exitUnreachable, "is not ready: READONLY", ""},
		{"full, in a script of Redis 6.2", "redis://db:6379/0", answer("ERR Error running script (call to f_8426): @user_script:6: @user_script: 6: -OOM command not allowed when used memory > 'maxmemory'.   "), exitUnreachable, "is not ready: ERR Error running script", ""},
		{"no room", "redis://db:6379/0", answer("ERR max number of clients reached"), exitUnreachable, "is not ready: ERR max", ""},
		{"hung up", "redis://db:6379/0", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, exitUnreachable, "connection reset", ""},
		{"too old", "redis://db:6379/0", answer("ERR Invalid stream ID specified as stream command argument"), exitFailed, "ERR Invalid stream ID", "Redis 6.2"},
		{"a wrong password", "redis://db:6379/0", answer("WRONGPASS invalid username-password pair or user is disabled."), exitFailed, "(auth): WRONGPASS", "redis.password_file"},
		{"no password", "redis://db:6379/0", answer("NOAUTH Authentication required."), exitFailed, "(auth): NOAUTH", "redis.password_file"},
		{"a password too many", "redis://db:6379/0", answer("ERR AUTH <password> called without any password configured"), exitFailed, "(auth): ERR", "redis.password_file"},
		{"no right", "redis://db:6379/0", answer("NOPERM this user has no permissions to run the 'xadd' command"), exitFailed, "refused: NOPERM", "ACL"},
		{"no right in a script", "redis://db:6379/0", answer("ERR The user executing the script can't run this command or subcommand script: 3e98, on @user_script:396."), exitFailed, "refused: ERR The user", "ACL"},
		{"an answer that would move the cursor", "redis://db:6379/0", answer("ERR \x1b[2J"), exitFailed, "refused: ERR \uFFFD[2J", ""},
		{"a foreign key", "redis://db:6379/0", fmt.Errorf("%w: {rota}:hosts holds another type", locking.ErrConflict), exitFailed, "{rota}:hosts", "namespace"},
		{"no daemon with its own redis", "embedded", dial(syscall.ENOENT), exitUnreachable, "embedded redis of /var/lib/rota is unreachable: no daemon runs there", "rota run -c /etc/rota/rota.toml"},
		{"somebody else's daemon", "embedded", dial(syscall.EACCES), exitUnreachable, "permission denied", "only the user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &session{cfg: &config.Config{
				Path: "/etc/rota/rota.toml", StateDir: "/var/lib/rota",
				Redis: config.Redis{URL: tc.url, OpTimeout: 1500 * time.Millisecond},
			}}
			err := s.explain(fmt.Errorf("status: %w", locking.Classify(tc.err)))
			e, ok := errors.AsType[*exitError](err)
			if !ok || e.code != tc.code || !strings.Contains(e.text, tc.text) || !strings.Contains(e.hint, tc.hint) {
				t.Errorf("explain(%v) = %+v, want code %d, text with %q, hint with %q", tc.err, err, tc.code, tc.text, tc.hint)
			}
			if tc.hint == "" && ok && e.hint != "" {
				t.Errorf("explain(%v) hints %q, want no hint", tc.err, e.hint)
			}
		})
	}
	t.Run("what is no failure of Redis stays as it is", func(t *testing.T) {
		s := &session{cfg: &config.Config{}}
		for _, err := range []error{nil, ledger.ErrNoRun, context.Canceled} {
			if got := s.explain(err); got != err { //nolint:errorlint // the very error
				t.Errorf("explain(%v) = %v", err, got)
			}
		}
	})
}

package locking

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// answer is an error as a Redis server answers it.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ redis.Error = answer("")

func TestClassify(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	// What Redis before 7.0 makes of a command that a script was refused: where it was called, for
	// pcall; for call that, where it was raised besides, and the digest of the script.
	pcall := func(text string) error { return answer("@user_script: 6: " + text) }
	call := func(text string) error {
		return answer("ERR Error running script (call to f_8426c8df41c64d8177dce3ecbbe9146ef3759cd2): @user_script:6: @user_script: 6: " + text)
	}
	for _, c := range []struct {
		err    error
		want   error // nil: none of the three
		mayRun bool  // the call may have been carried out
	}{
		{answer("READONLY You can't write against a read only replica."), ErrUnavailable, false},
		{answer("READONLY You can't write against a read only replica. script: 8426c8, on @user_script:6."), ErrUnavailable, false},
		{pcall("-READONLY You can't write against a read only replica.  "), ErrUnavailable, false},
		{call("-OOM command not allowed when used memory > 'maxmemory'.   "), ErrUnavailable, false},
		{call("-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."), ErrUnavailable, false},
		{answer("ERR max number of clients reached"), ErrUnavailable, false},
		{answer("CONFLICT rota:lock:{a} has no expiry"), ErrConflict, false},
		{answer("ERR Invalid stream ID specified as stream command argument"), ErrTooOld, false},
		{call("ERR Invalid stream ID specified as stream command argument"), ErrTooOld, false},
		{pcall("Unknown Redis command called from Lua script"), ErrTooOld, false},
		{answer("ERR Unknown Redis command called from script script: 8426c8, on @user_script:6."), ErrTooOld, false},
		{answer("ERR unknown command `XADD`, with args beginning with: `a`, `*`, "), ErrTooOld, false},
		{answer("ERR unknown command 'EVALSHA'"), ErrTooOld, false},
		{call("Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script in order to switch to single commands replication mode."), ErrTooOld, false},
		{answer("WRONGTYPE Operation against a key holding the wrong kind of value"), nil, false},
		{answer("NOPERM this user has no permissions to run the 'xadd' command"), nil, false},
		{answer("ERR syntax error"), nil, false},
		{call("attempt to index a nil value: OOM is no word of the server here"), nil, false},
		{answer("ERR Script attempted to access a non local key in a cluster node script: 8426c8, on @user_script:6."), ErrUnavailable, true},
		{answer("ERR Script attempted to execute a command while the cluster is down"), ErrUnavailable, true},
		{answer("TRYAGAIN Multiple keys request during rehashing of slot"), ErrUnavailable, false},
		{&replicaError{want: 1}, ErrUnavailable, true},
		{io.EOF, ErrUnavailable, true},
		{op("read", syscall.ECONNRESET), ErrUnavailable, true},
		{op("write", syscall.EPIPE), ErrUnavailable, true},
		{op("read", os.ErrDeadlineExceeded), ErrUnavailable, true},
		{net.ErrClosed, ErrUnavailable, true},
		{context.DeadlineExceeded, ErrUnavailable, true},
		{unexpected("x"), ErrUnavailable, true},
		{op("dial", syscall.ECONNREFUSED), ErrUnavailable, false},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, ErrUnavailable, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ErrUnavailable, false},
		{redis.ErrPoolTimeout, ErrUnavailable, false},
		{context.Canceled, nil, true},
		{nil, nil, false},
	} {
		for _, err := range []error{c.err, wrapped(c.err), Classify(c.err)} {
			got := Classify(err)
			for _, kind := range []error{ErrConflict, ErrUnavailable, ErrTooOld} {
				if want := errors.Is(c.want, kind); errors.Is(got, kind) != want {
					t.Errorf("Classify(%v) = %v; matches %q: %t, want %t", err, got, kind, !want, want)
				}
			}
			if !errors.Is(got, err) && !errors.Is(c.want, ErrConflict) {
				t.Errorf("Classify(%v) = %v, want what it was in it", err, got)
			}
			if may := MayHaveRun(got); may != c.mayRun {
				t.Errorf("MayHaveRun(%v) = %t, want %t", got, may, c.mayRun)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("status: %w", err)
}

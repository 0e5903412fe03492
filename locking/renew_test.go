package locking

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// grantsOf takes locks and lets nobody renew them but the test.
func grantsOf(t *testing.T, l *Locker, names ...string) []Grant {
	t.Helper()
	var all []Grant
	for _, name := range names {
		all = append(all, *mustAcquire(t, l, name).grant)
	}
	return all
}

// Many leases are renewed by one script; each has its own answer.
func TestRenewAll_EachHasItsOwnAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		l := newLocker(t, client, Options{Boottime: stopped})
		all := grantsOf(t, l, "mine", "gone", "theirs", "list", "more")
		do(t, client, "PEXPIRE", "rota:lock:{mine}", 500)
		do(t, client, "DEL", "rota:lock:{gone}")
		do(t, client, "SET", "rota:lock:{theirs}", "00ff|17|30000|host-2", "PX", "60000")
		do(t, client, "DEL", "rota:lock:{list}")
		do(t, client, "RPUSH", "rota:lock:{list}", "v")
		for i, err := range l.renewAll(t.Context(), all) {
			if want := i >= 1 && i <= 3; errors.Is(err, ErrLost) != want || !want && err != nil {
				t.Errorf("%s: %v, want it lost: %t", all[i].Name, err, want)
			}
		}
		if left, _ := do(t, client, "PTTL", "rota:lock:{mine}").(int64); left < 1000 {
			t.Errorf("%d ms are left of a renewed lease, want its whole length", left)
		}
	})
}

// A thousand leases cost 16 commands, not a thousand.
func TestRenewAll_TakesFewCommands(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{Boottime: stopped})
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("job-", i))
	}
	all := grantsOf(t, l, names...)
	m := s.Monitor()
	for i, err := range l.renewAll(t.Context(), all) {
		if err != nil {
			t.Errorf("%s: %v", all[i].Name, err)
		}
	}
	n := 0
	for _, c := range m.Commands() {
		if !c.Lua && (c.Is("evalsha") || c.Is("eval")) {
			n++
		}
	}
	if n < 16 || n > 32 { // twice if the server did not know the script
		t.Errorf("%d scripts renew 1,000 leases, want 16", n)
	}
}

// Where the server forbids one of the names, the others are renewed all the same, and the error is
// that one's.
func TestRenewAll_OneNameIsForbidden(t *testing.T) {
	s := redistest.Server(t)
	s.Do("ACL", "SETUSER", "app", "on", ">secret", "+@all", "allchannels", "~rota:*")
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "app", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	l := newLocker(t, client, Options{Boottime: stopped})
	all := grantsOf(t, l, "a", "b", "c")
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~rota:lock:{a}*", "~rota:lock:{c}*")
	errs := l.renewAll(t.Context(), all)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the others: %v, %v, want both renewed", errs[0], errs[2])
	}
	if err := errs[1]; err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnavailable) {
		t.Errorf("the forbidden one: %v, want that it is forbidden", err)
	}
}

// A server that gives no answer leaves all of them unknown.
func TestRenewAll_NoAnswer(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{Boottime: stopped})
	all := grantsOf(t, l, "a", "b")
	s.Kill()
	for i, err := range l.renewAll(t.Context(), all) {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", all[i].Name, err)
		}
	}
}

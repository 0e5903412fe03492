package locking

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestProperty4_TokensRiseAcrossProcesses(t *testing.T) {
	const processes, each = 4, 250
	s := redistest.Server(t)
	var grants []grantSpan
	for _, out := range runChildren(t, processes, "acquire", s.Addr(), fmt.Sprint(each)) {
		for line := range strings.Lines(out) {
			var g grantSpan
			if _, err := fmt.Sscan(line, &g.from, &g.to, &g.fence); err != nil {
				t.Fatalf("child said %q: %v", line, err)
			}
			grants = append(grants, g)
		}
	}
	if len(grants) != processes*each {
		t.Fatalf("got %d grants, want %d", len(grants), processes*each)
	}
	if err := checkOrder(grants); err != nil {
		t.Error(err)
	}
}

func TestCheckOrder_FindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		grants []grantSpan
		good   bool
	}{
		{"in order", []grantSpan{{1, 2, 10}, {3, 4, 11}}, true},
		{"at the same time, either order", []grantSpan{{1, 4, 11}, {2, 3, 10}}, true},
		{"smaller after a larger one", []grantSpan{{1, 2, 11}, {3, 4, 10}}, false},
		{"the same one twice", []grantSpan{{1, 4, 10}, {2, 3, 10}}, false},
	} {
		if err := checkOrder(c.grants); (err == nil) != c.good {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestProperty5_TokensRiseWhateverRedisForgets(t *testing.T) {
	const lock, fence = "rota:lock:{report}", "rota:lock:{report}:fence"
	for _, c := range []struct {
		name   string
		forget func(t *testing.T, s *redistest.ServerProc)
	}{
		{"DEL of the fence", func(t *testing.T, s *redistest.ServerProc) { s.Do("DEL", fence) }},
		{"FLUSHALL", func(t *testing.T, s *redistest.ServerProc) { s.Do("FLUSHALL") }},
		{"SCRIPT FLUSH", func(t *testing.T, s *redistest.ServerProc) { s.Do("SCRIPT", "FLUSH") }},
		{"eviction", func(t *testing.T, s *redistest.ServerProc) {
			s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1")
			_ = s.Client().Set(t.Context(), "k", "v", 0).Err()
			s.Do("CONFIG", "SET", "maxmemory", "0")
		}},
		{"restart without persistence", func(t *testing.T, s *redistest.ServerProc) {
			s.Kill()
			s.Start()
		}},
		{"an old backup", func(t *testing.T, s *redistest.ServerProc) { s.Do("SET", fence, "17", "PX", "60000") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Server(t)
			before := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report")
			mustRelease(t, before)
			c.forget(t, s)
			after := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report") // knows nothing
			if after.FencingToken() <= before.FencingToken() {
				t.Errorf("got token %d after %d, want a larger one", after.FencingToken(), before.FencingToken())
			}
			if got := s.Do("GET", lock); !strings.Contains(fmt.Sprint(got), fmt.Sprintf("|%d|", after.FencingToken())) {
				t.Errorf("GET lock: got %v, want token %d in it", got, after.FencingToken())
			}
		})
	}

	t.Run("a replica that lags is promoted", func(t *testing.T) {
		s := redistest.Server(t)
		replica := redistest.Server(t, "--replicaof", "127.0.0.1", s.Port())
		one := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report")
		mustRelease(t, one)
		eventually(t, 10*time.Second, "the replica has the first fence, and the release", func() bool {
			return replica.Do("GET", fence) == strconv.FormatInt(one.FencingToken(), 10) && replica.Do("EXISTS", lock) == int64(0)
		})
		replica.Do("REPLICAOF", "NO", "ONE") // from here on it misses the writes
		two := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report")
		s.Kill()
		three := mustAcquire(t, newLocker(t, replica.Client(), Options{}), "report")
		if three.FencingToken() <= two.FencingToken() {
			t.Errorf("got token %d after %d and %d, want a larger one", three.FencingToken(), one.FencingToken(), two.FencingToken())
		}
	})

	clock := func(t *testing.T, flush bool) (before, after int64, log string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			m, c := redistest.InBubble(t)
			l := bubbled(t, c, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
			lease := mustAcquire(t, l, "report")
			before = lease.FencingToken()
			mustRelease(t, lease)
			m.SetTime(time.Now().Add(-time.Hour))
			if flush {
				m.FlushAll()
			}
			after = mustAcquire(t, l, "report").FencingToken()
			log = out.String()
		})
		return before, after, log
	}
	t.Run("redis' clock is set back", func(t *testing.T) {
		if before, after, _ := clock(t, false); after != before+1 {
			t.Errorf("got token %d after %d, want the next", after, before)
		}
	})
	t.Run("redis' clock is set back and all is flushed", func(t *testing.T) {
		before, after, log := clock(t, true)
		if after != before+1 {
			t.Errorf("got token %d after %d, want the next: the Locker remembers", after, before)
		}
		if want := "redis clock is behind the last fencing token"; !strings.Contains(log, want) {
			t.Errorf("log: got %q, want %q in it", log, want)
		}
	})
}

// Only a real server: the in-process one keeps digits that Redis loses.
func TestProperty6_TokensAreExact(t *testing.T) {
	const fence = "rota:lock:{report}:fence"
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{})
	s.Do("SET", fence, strconv.Itoa(maxFence-2))
	lease := mustAcquire(t, l, "report")
	if lease.FencingToken() != maxFence-1 {
		t.Errorf("token: got %d, want 2^53 - 1", lease.FencingToken())
	}
	if got := s.Do("GET", fence); got != strconv.Itoa(maxFence-1) {
		t.Errorf("GET fence: got %v, want %d", got, maxFence-1)
	}
	state, err := l.Query(t.Context(), "report")
	if err != nil || state.FencingToken != maxFence-1 {
		t.Errorf("Query: got %+v, %v, want token %d", state, err, maxFence-1)
	}
	mustRelease(t, lease)
	if _, err := l.TryAcquire(t.Context(), "report"); !errors.Is(err, ErrConflict) {
		t.Errorf("TryAcquire after the last token: got %v, want ErrConflict", err)
	}
	if got := s.Do("EXISTS", "rota:lock:{report}"); got != int64(0) {
		t.Errorf("EXISTS lock: got %v, want 0", got)
	}

	t.Run("a time in microseconds crosses with all its digits", func(t *testing.T) {
		before := time.Now().UnixMicro()
		lease := mustAcquire(t, l, "clock")
		if got := lease.FencingToken(); got < before || got > time.Now().UnixMicro() {
			t.Errorf("token: got %d, want a time between %d and now", got, before)
		}
		if got := s.Do("GET", "rota:lock:{clock}:fence"); got != strconv.FormatInt(lease.FencingToken(), 10) {
			t.Errorf("GET fence: got %v, want %d", got, lease.FencingToken())
		}
	})
}

func TestFloors_BoundedAndNeverTooLow(t *testing.T) {
	var f floors
	const names = 5 * floorNames
	for i := range int64(names) {
		f.saw(fmt.Sprint(i), i+1)
		f.saw(fmt.Sprint(i), i) // a smaller one changes nothing
	}
	for i := range int64(names) {
		if got := f.of(fmt.Sprint(i)); got < i+1 {
			t.Fatalf("of(%d): got %d, want at least %d", i, got, i+1)
		}
	}
	if got := len(f.young) + len(f.old); got > 2*floorNames {
		t.Errorf("%d names: %d kept, want at most %d", names, got, 2*floorNames)
	}
	if got, last := f.of(fmt.Sprint(names-1)), int64(names); got != last {
		t.Errorf("of the newest name: got %d, want its own, %d", got, last)
	}
}

// A name that was forgotten is not a new one: its token may have been as high as any forgotten.
func TestFloors_AForgottenNameIsNotNew(t *testing.T) {
	var f floors
	f.saw("report", 100)
	for i := range 2 * floorNames {
		f.saw(fmt.Sprint(i), 1)
	}
	if _, young := f.young["report"]; young || f.old["report"] != 0 {
		t.Fatal("the name is still kept: the test shows nothing")
	}
	f.saw("report", 50) // as a Redis says that lost its data and whose clock is behind
	if got := f.of("report"); got < 100 {
		t.Errorf("of a name seen with 100, forgotten, and seen with 50: got %d, want at least 100", got)
	}
}

// A number at these keys that cannot be a fencing token is somebody else's. It is told, and not
// taken for the highest token seen: once it is gone, the lock works.
func TestQuery_ANumberThatIsNoTokenIsAConflict(t *testing.T) {
	const lock, fence = "rota:lock:{report}", "rota:lock:{report}:fence"
	onBoth(t, func(t *testing.T, client *redis.Client) {
		l := newLocker(t, client, Options{Boottime: stopped})
		for _, number := range []string{strconv.Itoa(maxFence), "9223372036854775807", "100000000000000000000"} {
			for _, set := range [][]any{
				{"SET", fence, number},
				{"SET", lock, "00ff|" + number + "|30000|host-2", "PX", "60000"},
			} {
				do(t, client, set...)
				s, err := l.Query(t.Context(), "report")
				if !errors.Is(err, ErrConflict) || errors.Is(err, ErrUnavailable) || !strings.Contains(fmt.Sprint(err), set[1].(string)) {
					t.Errorf("after %v Query: got %+v, %v, want ErrConflict that names the key", set, s, err)
				}
				if _, err := l.TryAcquire(t.Context(), "report"); !errors.Is(err, ErrConflict) || errors.Is(err, ErrUnavailable) {
					t.Errorf("after %v TryAcquire: got %v, want ErrConflict", set, err)
				}
				do(t, client, "DEL", lock, fence)
				if lease, err := l.TryAcquire(t.Context(), "report"); err != nil {
					t.Errorf("after %v and DEL TryAcquire: got %v, want a lease", set, err)
				} else {
					mustRelease(t, lease)
				}
			}
		}
	})
}

func TestQuery_TellsHolderButNoOwnershipToken(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{Holder: "host-1", Boottime: stopped})
		if s, err := l.Query(t.Context(), "report"); err != nil || s != (State{}) {
			t.Errorf("Query before any grant: got %+v, %v, want nothing", s, err)
		}
		lease := mustAcquire(t, l, "report")
		s, err := l.Query(t.Context(), "report")
		if err != nil || !s.Held || s.Holder != "host-1" || s.FencingToken != lease.FencingToken() || s.Remaining <= 29*time.Second {
			t.Errorf("Query: got %+v, %v, want held by host-1 with token %d for 30s", s, err, lease.FencingToken())
		}
		if strings.Contains(fmt.Sprintf("%+v", s), lease.grant.Token.Reveal()) {
			t.Errorf("Query shows the ownership token: %+v", s)
		}
		mustRelease(t, lease)
		s, err = l.Query(t.Context(), "report")
		if want := (State{FencingToken: lease.FencingToken()}); err != nil || s != want {
			t.Errorf("Query after the release: got %+v, %v, want %+v", s, err, want)
		}
	})
}

func TestQuery_WritesNothing(t *testing.T) {
	s := redistest.Server(t)
	replica := redistest.Server(t, "--replicaof", "127.0.0.1", s.Port())
	lease := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report")
	s.Do("PEXPIRE", "rota:lock:{report}", "3600000") // what a step of the clock looks like
	eventually(t, 10*time.Second, "the replica has the lock", func() bool {
		return replica.Do("PTTL", "rota:lock:{report}").(int64) > 60_000
	})
	state, err := newLocker(t, replica.Client(), Options{}).Query(t.Context(), "report")
	if err != nil || !state.Held || state.FencingToken != lease.FencingToken() {
		t.Fatalf("Query of a read-only replica: got %+v, %v, want held with token %d", state, err, lease.FencingToken())
	}
	if state.Remaining > 30*time.Second {
		t.Errorf("Query: got %s left, want at most the TTL", state.Remaining)
	}
	if left := s.Do("PTTL", "rota:lock:{report}").(int64); left < 60_000 {
		t.Errorf("PTTL: got %d ms, want it untouched", left)
	}
}

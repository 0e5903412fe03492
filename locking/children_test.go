package locking

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// childEnv makes the test binary act as one process of a test instead of running tests.
const childEnv = "ROTA_LOCKING_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := child(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(role string, args []string) error {
	client := redis.NewClient(&redis.Options{Addr: args[0]})
	defer func() { _ = client.Close() }()
	opt := Options{TTL: 10 * time.Second}
	if role == "history" {
		opt = Options{TTL: historyTTL, MaxBackoff: historyTTL}
	}
	l, err := New(client, opt)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	switch role {
	case "acquire": // a number of grants of one lock, each with when it was asked for and had
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		for n > 0 {
			from := boottime()
			lease, err := l.TryAcquire(context.Background(), "shared")
			to := boottime()
			if errors.Is(err, ErrHeld) {
				time.Sleep(100 * time.Microsecond)
				continue
			}
			if err != nil {
				return err
			}
			fmt.Println(int64(from), int64(to), lease.FencingToken())
			if err := lease.Release(context.Background()); err != nil {
				return err
			}
			n--
		}
		return nil
	case "history":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return historyChild(l, n)
	case "churn": // locks without end
		for i := 0; ; i++ {
			lease, err := l.TryAcquire(context.Background(), fmt.Sprint(os.Getpid(), i))
			if err == nil && i%2 == 0 {
				_ = lease.Release(context.Background())
			}
			if i == 10 {
				fmt.Println("at work")
			}
		}
	}
	return fmt.Errorf("unknown role %q", role)
}

func childCommand(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	return cmd
}

// runChildren runs n processes at once and returns what each printed.
func runChildren(t *testing.T, n int, role string, args ...string) []string {
	t.Helper()
	out := make([]string, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		cmd := childCommand(t, role, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				errs[i] = fmt.Errorf("child %d: %w: %s", i, err, &stderr)
			}
			out[i] = stdout.String()
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

// grantSpan is one grant: asked for at from, known at to, on one clock of the machine.
type grantSpan struct{ from, to, fence int64 }

// checkOrder finds two grants of which the first was over before the second was asked for,
// and that do not rise; or two that are the same.
func checkOrder(grants []grantSpan) error {
	byStart, byEnd := slices.Clone(grants), slices.Clone(grants)
	slices.SortFunc(byStart, func(a, b grantSpan) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(byEnd, func(a, b grantSpan) int { return cmp.Compare(a.to, b.to) })
	seen := map[int64]bool{}
	var highest int64 // of all that ended before the one looked at
	for _, g := range byStart {
		for len(byEnd) > 0 && byEnd[0].to < g.from {
			highest = max(highest, byEnd[0].fence)
			byEnd = byEnd[1:]
		}
		if g.fence <= highest {
			return fmt.Errorf("token %d was granted after %d", g.fence, highest)
		}
		if seen[g.fence] {
			return fmt.Errorf("token %d was granted twice", g.fence)
		}
		seen[g.fence] = true
	}
	return nil
}

func TestProperty1_AKilledClientLeavesNoLockWithoutExpiry(t *testing.T) {
	s := redistest.Server(t)
	c := s.Client()
	seen := 0
	for i := range 20 {
		cmd := childCommand(t, "churn", s.Addr())
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			t.Fatalf("the child said %q, %v", line, err)
		}
		time.Sleep(time.Duration(i) * 37 * time.Microsecond) // somewhere in the middle of its work
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for iter := c.Scan(t.Context(), 0, "*", 0).Iterator(); iter.Next(t.Context()); seen++ {
			if left := c.PTTL(t.Context(), iter.Val()).Val(); left == -1 {
				t.Errorf("kill %d: key %q has no expiry", i, iter.Val())
			}
		}
	}
	if seen == 0 {
		t.Error("no key was ever seen: the test shows nothing")
	}
}

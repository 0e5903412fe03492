package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// TestMain is a worker too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		c := redis.NewClient(&redis.Options{Addr: os.Args[2], MaxRetries: -1, ContextTimeoutEnabled: true})
		if err := Work(context.Background(), c, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func run(t *testing.T, s *redistest.ServerProc, opt Options) *Report {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if opt.Exe == "" {
		opt.Exe, opt.Args = exe, []string{"worker", s.Addr()}
	}
	opt.Namespace, opt.Client = "rota", s.Client()
	r, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if keys := s.Do("KEYS", "*drill*"); fmt.Sprint(keys) != "[]" {
		t.Errorf("keys are left: %v", keys)
	}
	return r
}

// Each scenario as it is, with few workers and iterations.
func TestRun(t *testing.T) {
	for _, scenario := range Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			s := redistest.Server(t)
			s.Do("SET", "{rota}:lock:another", "somebody's")
			shown := 0
			r := run(t, s, Options{Scenario: scenario, Workers: 4, Iterations: 12, Progress: func(_, all int) {
				shown++
				if all != 48 {
					t.Errorf("progress: got %d expected, want 48", all)
				}
			}})
			if r.Result != Pass || len(r.Faults) > 0 {
				t.Errorf("%+v", r)
			}
			if r.Expected != 48 || r.Completed != 48 || r.Entered < 48 || r.Failures != 0 || r.Repeated != 0 || shown == 0 {
				t.Errorf("got %+v, shown %d times; want 48 completed without a failure", r, shown)
			}
			if scenario.LetsTwoIn() != (r.Stale > 0 && r.Violations > 0) {
				t.Errorf("got %d violations and %d stale writes", r.Violations, r.Stale)
			}
			if v := s.Do("GET", "{rota}:lock:another"); v != "somebody's" {
				t.Errorf("a lock that is not the drill's: got %v", v)
			}
		})
	}
}

// A lock that does not exclude, and workers that do not work, must not pass.
func TestReport_Judge(t *testing.T) {
	good := Report{Workers: 2, Iterations: 10, Expected: 20, Entered: 20, Completed: 20}
	for _, c := range []struct {
		scenario string
		change   func(*Report)
		want     string
	}{
		{"mutex", func(*Report) {}, ""},
		{"mutex", func(r *Report) { r.Lost, r.Entered = 2, 22 }, ""},
		{"mutex", func(r *Report) { r.Violations = 1 }, "entered while another was inside"},
		{"renew", func(r *Report) { r.Violations = 1 }, "entered while another was inside"},
		{"mutex", func(r *Report) { r.Stale = 1 }, "refused"},
		{"mutex", func(r *Report) { r.Completed = 19 }, "19 of 20"},
		{"mutex", func(r *Report) { r.Failures, r.texts = 5, []string{"no memory"} }, "no memory"},
		{"mutex", func(r *Report) { r.Failures, r.texts = 5, []string{"no memory"} }, "4 more failures"},
		{"mutex", func(r *Report) { r.Ended = true }, "ended early"},
		{"flush", func(r *Report) { r.Repeated = 1 }, "granted twice"},
		{"mutex", func(r *Report) { r.Failures, r.Away, r.away = 2, 2, "refused" }, "2 of 2 workers gave up after 5s: refused"},
		{"mutex", func(r *Report) { r.Completed, r.Violations = 19, 1 }, "entered while another was inside"},
		{"flush", func(r *Report) { r.Violations, r.Stale = 3, 3 }, ""},
		{"flush", func(*Report) {}, "cannot see a fault"},
		{"flush", func(r *Report) { r.Violations = 3 }, "no late write was refused"},
		{"expiry", func(r *Report) { r.Violations, r.Stale = 3, 3 }, ""},
		{"expiry", func(r *Report) { r.Stale = 3 }, "cannot see a fault"},
		{"expiry", func(r *Report) { r.Violations = 3 }, "no late write was refused"},
		{"hang", func(r *Report) { r.Violations, r.Stale = 3, 3 }, ""},
		{"hang", func(r *Report) { r.Violations = 3 }, "no late write was refused"},
	} {
		r := good
		c.change(&r)
		s, _ := Find(c.scenario)
		r.judge(s)
		got := strings.Join(r.Faults, "; ")
		if !strings.Contains(got, c.want) || (c.want == "") != (r.Result == Pass) || (c.want == "") != (got == "") {
			t.Errorf("%s: got %s, %q, want %q", c.scenario, r.Result, got, c.want)
		}
	}
}

func TestRun_WorkersThatDoNotWork(t *testing.T) {
	s := redistest.Server(t)
	mutex, _ := Find("mutex")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"they end at once", []string{"-c", "echo went wrong >&2; exit 3"}, "went wrong"},
		{"they say something else", []string{"-c", "echo hello"}, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, Options{Scenario: mutex, Workers: 2, Iterations: 3, Exe: "/bin/sh", Args: c.args})
			if got := strings.Join(r.Faults, "; "); r.Result != Fail || !strings.Contains(got, c.want) {
				t.Errorf("got %s: %s, want a failure with %q", r.Result, got, c.want)
			}
		})
	}
}

// Ctrl-C, and Redis dies: there is a report, and nobody is left.
func TestRun_EndedEarly(t *testing.T) {
	s := redistest.Server(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	renew, _ := Find("renew")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := Run(ctx, Options{
		Scenario: renew, Workers: 3, Iterations: 1000, Namespace: "rota", Client: s.Client(),
		Exe: exe, Args: []string{"worker", s.Addr()},
	})
	if err != nil || r.Result != Fail || !r.Ended {
		t.Errorf("got %+v, %v, want a report that it was ended early", r, err)
	}
	if keys := s.Do("KEYS", "*drill*"); fmt.Sprint(keys) != "[]" {
		t.Errorf("keys are left: %v", keys)
	}
}

// A Redis that is gone for good is given up on: what was counted until then is there, and why it failed.
func TestRun_RedisIsGone(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mutex, _ := Find("mutex")
	for _, c := range []struct {
		name string
		end  func(*redistest.ServerProc)
	}{
		{"killed", func(s *redistest.ServerProc) { s.Kill() }},
		{"frozen", func(s *redistest.ServerProc) { s.Freeze() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			var once sync.Once
			r, err := Run(ctx, Options{
				Scenario: mutex, Workers: 3, Iterations: MostIterations, Namespace: "rota", Client: s.Client(),
				Exe: exe, Args: []string{"worker", s.Addr()},
				Progress: func(completed, _ int) {
					if completed > 0 {
						once.Do(func() { c.end(s) })
					}
				},
			})
			if err != nil || r.Ended || r.Result != Fail || r.Completed == 0 || r.Away != 3 {
				t.Fatalf("got %+v, %v, want a failure by 3 workers that gave up, and what they had done", r, err)
			}
			for _, f := range r.Faults {
				if strings.Contains(f, "\n") {
					t.Errorf("fault %q is more than one line", f)
				}
			}
		})
	}
}

func TestOptions(t *testing.T) {
	expiry, _ := Find("expiry")
	for _, opt := range []Options{
		{Workers: 2, Iterations: 1},
		{Scenario: expiry, Workers: 1, Iterations: 1},
		{Scenario: expiry, Workers: MostWorkers + 1, Iterations: 1},
		{Scenario: expiry, Workers: 2},
		{Scenario: expiry, Workers: 2, Iterations: MostIterations + 1},
	} {
		if _, err := Run(t.Context(), opt); err == nil {
			t.Errorf("Run(%+v): got no error", opt)
		}
	}
	if err := Work(t.Context(), nil, strings.NewReader(`{"scenario":"none"}`), &bytes.Buffer{}); err == nil {
		t.Error("Work without a scenario: got no error")
	}
}

// The names of contract: scripts read them.
func TestReport_JSON(t *testing.T) {
	b, err := json.Marshal(Report{Scenario: "mutex", Workers: 1, Iterations: 2, Expected: 3, Entered: 4, Completed: 5, Violations: 6, Stale: 7, Failures: 8, ElapsedMS: 9, Result: Pass})
	want := `{"scenario":"mutex","workers":1,"iterations":2,"expected":3,"entered":4,"completed":5,"violations":6,"stale":7,"failures":8,"elapsed_ms":9,"result":"PASS"}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
}

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"rota/internal/redistest"
	"rota/jobs"
)

// docsFile is what the docs command reads.
const docsFile = "../../docs/fencing.md"

// patience bounds every wait of a script.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if jobs.IsWarden() {
		os.Exit(jobs.ServeWarden())
	}
	testscript.Main(m, map[string]func(){"rota": func() { os.Exit(Main()) }})
}

// The scripts run the real command line, as processes, against a real redis-server. Besides
// the commands of testscript they have:
//
//	redis [ARG…]                  start a redis-server; $REDIS is its address
//	redis-do ARG…                 send it a command; what it answers is printed. @FILE is what a file holds
//	redis-freeze                  have it answer nothing
//	held LOCK                     wait until the lock of the fleet "locks" is held
//	raced NS                      wait until a dry run of the fleet NS goes on
//	ask-end LOCK REASON           ask its holder to end
//	expand FILE…                  put the values of $VARIABLES into files
//	docs NAME FILE                make a file of what docs/fencing.md shows under the name
//	exits CODE COMMAND ARG…       run a command that must end with the code
//	never TEXT COMMAND ARG…       run a command, whose code does not matter, that must not print the text
//	waitfor PATTERN COMMAND ARG…  run a command until what it prints matches
//	within D PATTERN COMMAND ARG… the same, which must take no longer than D
//	capture NAME PATTERN          set a variable to the first group of what was printed
//	printed TEXT                  what was printed is the text, in which \n and \t are escapes, to the byte
//	objects N|+ KEY…              what was printed is N, or some, lines: each an object that has the keys
//	accounted                     what was printed is the history of a job of every second, in JSON: each
//	                              tick from the oldest to the newest is in exactly one entry
func TestMain_Scripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			tb, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("the script's T is no testing.TB")
			}
			// Under the race detector every process would sleep a second when it exits.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[fixtureKey{}] = &fixture{t: tb}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"redis":        scriptRedis,
			"redis-do":     scriptRedisDo,
			"redis-freeze": func(ts *testscript.TestScript, _ bool, _ []string) { fixtureOf(ts).redis.Freeze() },
			"held":         scriptHeld,
			"awaited":      scriptAwaited,
			"raced":        scriptRaced,
			"ask-end":      scriptAskEnd,
			"expand":       scriptExpand,
			"docs":         scriptDocs,
			"exits":        scriptExits,
			"never":        scriptNever,
			"waitfor":      func(ts *testscript.TestScript, _ bool, args []string) { waitFor(ts, patience, args) },
			"within":       scriptWithin,
			"capture":      scriptCapture,
			"printed":      scriptPrinted,
			"objects":      scriptObjects,
			"accounted":    scriptAccounted,
		},
	})
}

// fixture is what a script has besides its files.
type fixture struct {
	t     testing.TB
	redis *redistest.ServerProc
}

type fixtureKey struct{}

func fixtureOf(ts *testscript.TestScript) *fixture { return ts.Value(fixtureKey{}).(*fixture) }

func scriptRedis(ts *testscript.TestScript, _ bool, args []string) {
	f := fixtureOf(ts)
	f.redis = redistest.Server(f.t, args...)
	ts.Setenv("REDIS", f.redis.Addr())
}

func scriptRedisDo(ts *testscript.TestScript, _ bool, args []string) {
	do := make([]any, len(args))
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			arg = ts.ReadFile(file)
		}
		do[i] = arg
	}
	fmt.Fprintln(ts.Stdout(), fixtureOf(ts).redis.Do(do...))
}

// lockKey is the key of a lock in the fleet of the scripts about locks.
func lockKey(name string) string { return "{locks}:lock:" + name }

func scriptHeld(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(patience); fixtureOf(ts).redis.Do("EXISTS", lockKey(args[0])) != int64(1); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("nobody holds %q within %s", args[0], patience)
		}
	}
}

// scriptAwaited waits until somebody waits for the lock: who does listens for its release.
func scriptAwaited(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		reply, _ := fixtureOf(ts).redis.Do("PUBSUB", "NUMSUB", lockKey(args[0])+":freed").([]any)
		if len(reply) == 2 && reply[1] != int64(0) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("nobody waits for %q within %s", args[0], patience)
		}
	}
}

func scriptRaced(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(patience); fixtureOf(ts).redis.Do("EXISTS", "{"+args[0]+"}~dry:session") != int64(1); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("no dry run of %q begins within %s", args[0], patience)
		}
	}
}

func scriptAskEnd(ts *testscript.TestScript, _ bool, args []string) {
	redis := fixtureOf(ts).redis
	token, _, _ := strings.Cut(fmt.Sprint(redis.Do("GET", lockKey(args[0]))), "|")
	redis.Do("SET", lockKey(args[0])+":end", token+" "+args[1], "PX", "60000")
}

func scriptExpand(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

func scriptDocs(ts *testscript.TestScript, _ bool, args []string) {
	page, err := os.ReadFile(docsFile)
	ts.Check(err)
	_, shown, found := strings.Cut(string(page), "<!-- test: "+args[0]+" -->\n```sh\n")
	shown, _, ended := strings.Cut(shown, "```\n")
	if !found || !ended {
		ts.Fatalf("%s shows no %q", docsFile, args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(shown), 0o600))
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("%q ended with code %d, want %d", args[1:], got, want)
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		ts.Fatalf("%v", err)
	}
	return e.ExitCode()
}

func scriptNever(ts *testscript.TestScript, _ bool, args []string) {
	exitCode(ts, ts.Exec(args[1], args[2:]...))
	for _, stream := range []string{"stdout", "stderr"} {
		if strings.Contains(ts.ReadFile(stream), args[0]) {
			ts.Fatalf("%q printed %q on %s", args[1:], args[0], stream)
		}
	}
}

func scriptWithin(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	waitFor(ts, d, args[1:])
}

func waitFor(ts *testscript.TestScript, d time.Duration, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(d); ; {
		_ = exitCode(ts, ts.Exec(args[1], args[2:]...))
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q printed nothing that matches %q within %s", args[1:], args[0], d)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func scriptCapture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("capture %s: nothing printed matches %q with one group", args[0], args[1])
	}
	ts.Setenv(args[0], found[1])
}

func scriptPrinted(ts *testscript.TestScript, _ bool, args []string) {
	want := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(args[0])
	if got := ts.ReadFile("stdout"); got != want {
		ts.Fatalf("printed %q, want %q", got, want)
	}
}

func scriptObjects(ts *testscript.TestScript, _ bool, args []string) {
	n := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			ts.Fatalf("line %q is no object: %v", line, err)
		}
		for _, key := range args[1:] {
			if _, ok := object[key]; !ok {
				ts.Fatalf("object %q has no key %q", line, key)
			}
		}
		n++
	}
	if want := args[0]; want == "+" && n == 0 || want != "+" && want != strconv.Itoa(n) {
		ts.Fatalf("%d lines were printed, want %s", n, want)
	}
}

func scriptAccounted(ts *testscript.TestScript, _ bool, _ []string) {
	entries := map[int64]int{} // by tick
	oldest, newest := int64(math.MaxInt64), int64(0)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var e struct {
			Kind        string
			Tick, Until time.Time
			Count       int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			ts.Fatalf("line %q is no entry: %v", line, err)
		}
		if e.Kind == "manual" {
			continue
		}
		first, last := e.Tick.Unix(), max(e.Tick.Unix(), e.Until.Unix())
		if n := last - first + 1; n != max(1, e.Count) {
			ts.Fatalf("entry %q counts %d ticks, and covers %d", line, e.Count, n)
		}
		for t := first; t <= last; t++ {
			entries[t]++
		}
		oldest, newest = min(oldest, first), max(newest, last)
	}
	if newest == 0 {
		ts.Fatalf("no entry was printed")
	}
	for t := oldest; t <= newest; t++ {
		if entries[t] != 1 {
			ts.Fatalf("tick %s is in %d entries, want 1", time.Unix(t, 0).UTC(), entries[t])
		}
	}
}

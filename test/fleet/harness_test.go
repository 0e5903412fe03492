package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/scheduler/ledger"
)

// rota is the binary under test, built once.
var rota = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rota-fleet-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "rota")
	out, err := exec.CommandContext(context.Background(), "go", "build", raceFlag, "-o", bin, "rota/cmd/rota").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build rota: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := rota(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// fleet is some daemons over one Redis, with one table.
type fleet struct {
	t       *testing.T
	dir     string
	host    string    // more keys of [host]
	witness string    // the file that jobs append to
	lease   string    // the table of that name
	cgroup  string    // that daemons start in; "": this process' own
	state   string    // the state folder of every daemon; "": each has its own
	sink    io.Writer // takes the logs of daemons instead of their own; nil: nothing does
	client  redis.UniversalClient
	led     *ledger.Ledger
}

func newFleet(t *testing.T, client redis.UniversalClient) *fleet {
	t.Helper()
	led, err := ledger.New(client, ledger.Options{Namespace: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &fleet{t: t, dir: dir, witness: filepath.Join(dir, "witness"), lease: lease, client: client, led: led}
}

// The shortest lease that these tests need, with the values that make it safe.
const (
	ttl   = 3 * time.Second
	lease = `[lease]
ttl = "3s"
renew_every = "400ms"
loss_grace = "500ms"
`
)

// daemon is one `rota run`.
type daemon struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{}
	log  *log
}

// start runs a daemon on the Redis at addr with the jobs given as TOML.
func (f *fleet) start(name, addr, jobs string) *daemon {
	f.t.Helper()
	bin, err := rota()
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.dir, name+".toml")
	text := fmt.Sprintf("namespace = \"fleet\"\nstate_dir = %q\n[host]\nname = %q\n%s[redis]\nurl = \"redis://%s\"\nop_timeout = \"500ms\"\n[http]\nlisten = \"\"\n[log]\nlevel = \"debug\"\nformat = \"json\"\n[shutdown]\ndrain = \"10s\"\n%s%s",
		cmp.Or(f.state, filepath.Join(f.dir, name)), name, f.host, addr, f.lease, jobs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	d := &daemon{t: f.t, name: name, cmd: exec.CommandContext(context.Background(), bin, "run", "-c", path), done: make(chan struct{}), log: &log{}}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if f.sink != nil {
		d.cmd.Stdout, d.cmd.Stderr = f.sink, f.sink
	}
	if f.cgroup != "" {
		dir, err := os.Open(f.cgroup)
		if err != nil {
			f.t.Fatal(err)
		}
		defer dir.Close()
		d.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	if err := d.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait()
	}()
	f.t.Cleanup(func() {
		d.signal(syscall.SIGKILL)
		<-d.done
		if strings.Contains(d.log.String(), "DATA RACE") {
			f.t.Errorf("%s has a data race", name)
		}
		if f.t.Failed() {
			f.t.Logf("log of %s:\n%s", name, tail(d.log.String(), 60))
		}
	})
	return d
}

func (d *daemon) signal(s syscall.Signal) { _ = d.cmd.Process.Signal(s) }

// stop drains the daemon and returns its exit code.
func (d *daemon) stop() int {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		d.t.Fatalf("%s did not stop within 30 s of SIGTERM", d.name)
	}
	return d.cmd.ProcessState.ExitCode()
}

// awaitHosts waits until the ledger shows n hosts.
func (f *fleet) awaitHosts(n int) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, func() error {
		hosts, err := f.led.Hosts(f.t.Context())
		if err == nil && len(hosts) != n {
			err = fmt.Errorf("%d hosts are up, want %d", len(hosts), n)
		}
		return err
	})
}

// history returns a job's entries, newest first.
func (f *fleet) history(job string) []ledger.Entry {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	e, err := f.led.History(ctx, ledger.Query{Jobs: []string{job}})
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// mark is one line that a job wrote about itself.
type mark struct {
	job, run, host string
	tick           time.Time
	token          int64
}

// markCommand is what a job's shell script begins with to be a witness.
func (f *fleet) markCommand() string {
	return `echo "$ROTA_JOB $ROTA_TICK $ROTA_FENCING_TOKEN $ROTA_RUN $ROTA_HOST" >> ` + f.witness
}

func (f *fleet) marks() []mark {
	f.t.Helper()
	b, err := os.ReadFile(f.witness)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	var out []mark
	for line := range strings.Lines(string(b)) {
		var m mark
		var tick string
		if _, err := fmt.Sscan(line, &m.job, &tick, &m.token, &m.run, &m.host); err != nil {
			f.t.Fatalf("witness line %q: %v", line, err)
		}
		if m.tick, err = time.Parse(time.RFC3339, tick); err != nil {
			f.t.Fatalf("witness line %q: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

// log collects what a daemon writes.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is how many lines have that message.
func (l *log) count(msg string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		var rec struct{ Msg string }
		if json.Unmarshal([]byte(line), &rec) == nil && rec.Msg == msg {
			n++
		}
	}
	return n
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// eventually asks until there is no error, or fails with the last one.
func eventually(t *testing.T, within time.Duration, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

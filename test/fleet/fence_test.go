package fleet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// A job that is another user's, and can read neither the config nor the state folder, writes through its
// daemon. The socket is there for it where systemd would have made a folder for sockets; what a killed daemon
// leaves is replaced by the next, and gone after that.
func TestFleet_FenceOfAnotherUser(t *testing.T) {
	bin, err := rota()
	if err != nil {
		t.Fatal(err)
	}
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	sockets := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", sockets+":/elsewhere")
	user := ""
	if os.Geteuid() == 0 { // who alone may be another user
		user = "user = \"nobody\"\n"
		for _, dir := range []string{filepath.Dir(bin), sockets, filepath.Dir(sockets)} {
			if err := os.Chmod(dir, 0o711); err != nil { // as /usr/bin and /run/rota are
				t.Fatal(err)
			}
		}
	}
	table := fmt.Sprintf("[jobs.write]\nschedule = \"@yearly\"\n%sshell = \"id -u; cat $ROTA_CONFIG || echo no config; %s fence written --value $ROTA_RUN\"\n", user, bin)
	socket := func() string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(sockets, "run-????????.sock"))
		if err != nil || len(found) > 1 {
			t.Fatalf("there are the sockets %q, %v; want one at most", found, err)
		}
		return strings.Join(found, "")
	}
	d := f.start("a", s.Addr(), table)
	for round := range 2 {
		e := f.trigger("write")
		output, err := f.led.Output(t.Context(), e.Run)
		if err != nil || e.Outcome != "succeeded" {
			t.Fatalf("the run: %s (%s), it printed %q, %v; want success", e.Outcome, e.Reason, output, err)
		}
		if user != "" && !strings.Contains(string(output), "65534\n") || user != "" && !strings.Contains(string(output), "no config\n") {
			t.Errorf("the run printed %q, want that of nobody, who cannot read the config", output)
		}
		got := f.client.HGetAll(t.Context(), "{fleet}:fence:written").Val()
		if got["value"] != e.Run || got["token"] != fmt.Sprint(e.Token) {
			t.Errorf("redis holds %v, want run %s and its token %d", got, e.Run, e.Token)
		}
		if round == 1 {
			break
		}
		path := socket()
		d.signal(syscall.SIGKILL)
		<-d.done
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
			t.Fatalf("a killed daemon leaves %v, %v; want the socket that the next one replaces", info, err)
		}
		d = f.start("a", s.Addr(), table)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("the daemon drained with exit %d, want 0", code)
	}
	if left := socket(); left != "" {
		t.Errorf("a stopped daemon leaves %q", left)
	}
}

// trigger runs a job and returns its entry once it has ended.
func (f *fleet) trigger(job string) (entry ledger.Entry) {
	f.t.Helper()
	f.awaitHosts(1)
	id, err := f.led.Ask(f.t.Context(), ledger.Request{Job: job, Who: "tests"})
	if err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, 20*time.Second, func() error {
		e, taken, err := f.led.Answered(f.t.Context(), ledger.Request{ID: id, Job: job})
		if err == nil && !taken {
			err = fmt.Errorf("no host took %s", job)
		}
		if err == nil {
			e, err = f.led.Run(f.t.Context(), e.Run)
		}
		if entry = e; err == nil && e.Outcome == ledger.OutcomeRunning {
			err = fmt.Errorf("%s still runs", job)
		}
		return err
	})
	return entry
}

// A run whose lease is lost is not written for, though its processes may still live for the loss grace.
func TestFleet_FenceWithoutALease(t *testing.T) {
	t.Parallel() // most of it is waiting
	bin, err := rota()
	if err != nil {
		t.Fatal(err)
	}
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	f.lease = "[lease]\nttl = \"8s\"\nrenew_every = \"400ms\"\nloss_grace = \"5s\"\n"
	table := fmt.Sprintf(`[jobs.late]
schedule = "@yearly"
shell = '''
trap '%[1]s fence k --value late; echo "ended with $?" >> %[2]s; exit' TERM
%[1]s fence k --value begun
echo begun >> %[2]s
sleep 60 & wait
'''
`, bin, f.witness)
	d := f.start("a", s.Addr(), table)
	f.awaitHosts(1)
	if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "late", Who: "tests"}); err != nil {
		t.Fatal(err)
	}
	witness := func(want string) {
		t.Helper()
		eventually(t, 20*time.Second, func() error {
			if text, err := os.ReadFile(f.witness); err != nil || !strings.Contains(string(text), want) {
				return fmt.Errorf("the run says %q, %w; want %q", text, err, want)
			}
			return nil
		})
	}
	witness("begun\n")
	if n := f.client.Del(t.Context(), "{fleet}:lock:late").Val(); n != 1 {
		t.Fatalf("%d leases were deleted, want that of the run", n)
	}
	witness("ended with 79\n")
	if got := f.client.HGet(t.Context(), "{fleet}:fence:k", "value").Val(); got != "begun" {
		t.Errorf("the value is %q, want that of the time under the lease", got)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("the daemon drained with exit %d, want 0", code)
	}
}

package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// awaited are three jobs whose first runs wait for a file before they end, each in its own way. Later
// runs of theirs are over at once.
func (f *fleet) awaited(end string) (table string, want map[string]ledger.Entry) {
	for name, script := range map[string]string{
		"good": `printf "all\000 \377\033[31m is well\n"`,
		"bad":  `echo "it is not" >&2; exit 3`,
		"dies": `printf "no end"; kill -9 $$`,
	} {
		table += fmt.Sprintf(`[jobs.%s]
schedule = "* * * * * *"
shell = '''%s
while [ ! -e %s ]; do sleep 0.02; done
%s'''
`, name, f.markCommand(), end, script)
	}
	return table, map[string]ledger.Entry{
		"good": {Outcome: "succeeded", ExitCode: new(0)},
		"bad":  {Outcome: "failed", ExitCode: new(3)},
		"dies": {Outcome: "failed", ExitCode: new(137)},
	}
}

// printed is what the runs of awaited print.
var printed = map[string]string{"good": "all\x00 \xff\x1b[31m is well\n", "bad": "it is not\n", "dies": "no end"}

// underRuns waits until the three runs go on, takes Redis away and lets them end.
func (f *fleet) underRuns(s *redistest.ServerProc, d *daemon, end string) (runs map[string]mark) {
	f.t.Helper()
	eventually(f.t, 30*time.Second, func() error {
		runs = map[string]mark{}
		for _, m := range f.marks() {
			runs[m.job] = m
		}
		if len(runs) != 3 {
			return fmt.Errorf("%d jobs run, want 3", len(runs))
		}
		return nil
	})
	s.Stop()
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, 15*time.Second, func() error {
		if n := d.log.count("run ended"); n != 3 {
			return fmt.Errorf("%d runs ended, want 3", n)
		}
		return nil
	})
	return runs
}

// checkEnds waits until the ledger has the end of each run, as its own host saw it, and holds that it
// has it once.
func (f *fleet) checkEnds(runs map[string]mark, want map[string]ledger.Entry) {
	f.t.Helper()
	eventually(f.t, 15*time.Second, func() error {
		for job, w := range want {
			n := 0
			for _, e := range f.history(job) {
				if e.Run != runs[job].run {
					continue
				}
				if n++; e.Outcome != w.Outcome || e.ExitCode == nil || *e.ExitCode != *w.ExitCode || e.Host != runs[job].host {
					return fmt.Errorf("%s: the ledger has %s (%s), code %v, of %s, want %s and %d of %s", job, e.Outcome, e.Reason, e.ExitCode, e.Host, w.Outcome, *w.ExitCode, runs[job].host)
				}
			}
			if n != 1 {
				return fmt.Errorf("%s: the run has %d entries, want 1", job, n)
			}
		}
		return nil
	})
	for job, m := range runs {
		if out, err := f.led.Output(f.t.Context(), m.run); string(out) != printed[job] || err != nil {
			f.t.Errorf("%s: Output() = %q, %v, want %q", job, out, err, printed[job])
		}
		ends := 0
		for _, e := range f.client.XRange(f.t.Context(), "{fleet}:job:"+job+":runs", "-", "+").Val() {
			if e.Values["run"] == m.run && e.Values["ev"] == "end" {
				ends++
			}
		}
		if ends != 1 {
			f.t.Errorf("%s: the stream has %d ends of the run, want 1", job, ends)
		}
	}
}

// outcomeFiles are the outcomes on disk.
func outcomeFiles(t *testing.T, state string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "outcomes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// longLease outlives what a test does to Redis before runs must end.
const longLease = "[lease]\nttl = \"30s\"\nrenew_every = \"1s\"\nloss_grace = \"500ms\"\n"

// Redis stops under three runs, they end, and so does their daemon. Another one on the same folder,
// under another name and without these jobs, delivers how they ended when Redis is back.
func TestFleet_OutcomesOverARestart(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			s := redistest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
			f := newFleet(t, s.Client())
			f.lease, f.state = longLease, filepath.Join(f.dir, "state")
			end := filepath.Join(f.dir, "end")
			table, want := f.awaited(end)
			a := f.start("a", s.Addr(), table)
			runs := f.underRuns(s, a, end)
			eventually(t, 10*time.Second, func() error {
				if n := len(outcomeFiles(t, f.state)); n != 3 || a.log.count("outcome kept") != 3 {
					return fmt.Errorf("%d outcomes are on disk, want 3", n)
				}
				return nil
			})
			told := time.Now()
			a.signal(sig)
			select {
			case <-a.done:
			case <-time.After(15 * time.Second):
				t.Fatal("the daemon does not end while redis is away")
			}
			if took := time.Since(told); sig == syscall.SIGTERM && (a.cmd.ProcessState.ExitCode() != 0 || took > 8*time.Second || a.log.count("outcomes left undelivered") != 1) {
				t.Errorf("the daemon ended after %s with %s, want exit 0 soon, and a line about what is left", took, a.cmd.ProcessState)
			}
			b := f.start("b", s.Addr(), "[jobs.other]\nschedule = \"0 0 1 1 *\"\ncommand = [\"/bin/true\"]\n")
			eventually(t, 15*time.Second, func() error {
				if b.log.count("outcomes of an earlier daemon found") != 1 {
					return errors.New("the new daemon does not say what it found")
				}
				return nil
			})
			s.Start()
			f.checkEnds(runs, want)
			eventually(t, 5*time.Second, func() error {
				if files := outcomeFiles(t, f.state); len(files) != 0 || b.log.count("outcome delivered") != 3 {
					return fmt.Errorf("%q are left, %d were delivered, want none and 3", files, b.log.count("outcome delivered"))
				}
				return nil
			})
			if code := b.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
		})
	}
}

// The disk of the state folder is full, or cannot be written any more, when outcomes should go there:
// the daemon says so in one line, goes on, and delivers them from memory.
func TestFleet_OutcomesWithoutADisk(t *testing.T) {
	t.Parallel() // most of it is waiting
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("needs root, to mount a small disk")
	}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"full": func(t *testing.T, dir string) {
			full, err := os.Create(filepath.Join(dir, "full"))
			for err == nil {
				_, err = full.Write(make([]byte, 4096))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			_ = full.Close()
		},
		"read-only": func(t *testing.T, dir string) {
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "size=256k,mode=0700"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
			f := newFleet(t, s.Client())
			f.lease, f.state = longLease, filepath.Join(f.dir, "state")
			// Not the state folder itself: the daemon has its lock open there, so nobody could make it
			// read-only (mount(2), EBUSY), but for a kernel that finds it broken.
			folder := filepath.Join(f.state, "outcomes")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("rota-test", folder, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // after the daemon has ended
				if err := unix.Unmount(folder, 0); err != nil {
					t.Error(err)
				}
			})
			end := filepath.Join(f.dir, "end")
			table, want := f.awaited(end)
			d := f.start("a", s.Addr(), table)
			eventually(t, 20*time.Second, func() error {
				if d.log.count("run started") == 0 {
					return errors.New("nothing runs")
				}
				return nil
			})
			spoil(t, folder)
			runs := f.underRuns(s, d, end)
			time.Sleep(3 * time.Second)
			if n := d.log.count("outcome not kept"); n != 1 || d.log.count("outcome kept") != 0 || !strings.Contains(d.log.String(), folder) {
				t.Errorf("%d lines say that outcomes are not kept, want 1, with the folder", n)
			}
			s.Start()
			f.checkEnds(runs, want)
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
		})
	}
}

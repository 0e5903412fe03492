//go:build linux

package jobs

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testCgroup makes a cgroup for one test, in a real mount of cgroup v2: one that is there and may be
// written, or one of its own. It is removed with all that is in it.
func testCgroup(t *testing.T) cgroupDir {
	t.Helper()
	parent := writableCgroup(t)
	d := cgroupDir(filepath.Join(parent, "rota-test-"+rand.Text()[:8]))
	if err := os.Mkdir(string(d), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := d.end(ctx); err != nil {
			t.Errorf("end %s: %v", d, err)
		}
		if err := d.remove(); err != nil {
			t.Errorf("remove %s: %v", d, err)
		}
	})
	return d
}

func writableCgroup(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range parseCgroupMounts(string(text)) {
		if !m.readOnly && m.root == "/" && unix.Access(m.dir, unix.W_OK) == nil {
			return m.dir
		}
	}
	if site, err := findCgroup(); err == nil {
		return site.dir
	}
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("needs root, or systemd-run --user -p Delegate=yes")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount -t cgroup2: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// testCgroups are the cgroups of a daemon that is not in the site itself.
func testCgroups(t *testing.T) *cgroups {
	t.Helper()
	c, err := cgroupSite{dir: string(testCgroup(t))}.open()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startIn starts a script in a run's cgroup, and waits until it says that it is ready.
func startIn(t *testing.T, r *runCgroup, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.into(cmd.SysProcAttr)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("%s printed %q, %v; want ready", script, line, err)
	}
	return cmd
}

// soon is a time that no test needs all of.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

const (
	cgroupSystemdVariable = "JOBS_TEST_SYSTEMD" // where a daemon looks whether systemd runs
	cgroupRunVariable     = "JOBS_TEST_RUN"     // the run that it starts

	noSystemd = "/no/systemd"
)

// keepCgroups is a daemon with a run that has escaped everything but its cgroup. It says what it
// found, a line each, and ends when its stdin does.
func keepCgroups() {
	site, err := cgroupFinder{proc: "/proc/self", systemd: os.Getenv(cgroupSystemdVariable)}.find()
	if err != nil {
		fmt.Println("none:", err)
		return
	}
	fmt.Println("site:", site.dir, site.inside)
	swept, err := site.sweep(context.Background())
	fmt.Println("swept:", swept, err)
	c, err := site.open()
	if err != nil {
		fmt.Println("closed:", err)
		return
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	name, _, _ := parseOwnCgroup(string(own))
	fmt.Println("now in:", name)
	run, unset, err := c.add(os.Getenv(cgroupRunVariable), Limits{})
	fmt.Println("run:", unset, err)
	if err != nil {
		return
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "(setsid env -i sleep 300 &) & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.into(cmd.SysProcAttr)
	fmt.Println("main:", cmd.Run())
	fmt.Println("lives:", run.populated())
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println("end:", c.end(context.Background()), run.remove(), c.close())
}

// A cgroupDaemon is keepCgroups in a process.
type cgroupDaemon struct {
	*exec.Cmd
	stdin io.Closer
	lines *bufio.Reader
}

// startDaemon starts one in a cgroup.
func startDaemon(t *testing.T, in cgroupDir, run, systemd string, change ...func(*exec.Cmd)) cgroupDaemon {
	t.Helper()
	d := cgroupDaemon{Cmd: play(t, "cgroup", "")}
	d.Env = append(d.Env, cgroupRunVariable+"="+run, cgroupSystemdVariable+"="+systemd)
	dir, err := os.Open(string(in))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	for _, c := range change {
		c(d.Cmd)
	}
	if d.stdin, err = d.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewReader(stdout)
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.Process.Kill()
		_ = d.Wait()
	})
	return d
}

// says compares the next lines.
func (d cgroupDaemon) says(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		line, err := d.lines.ReadString('\n')
		if got := strings.TrimSuffix(line, "\n"); got != w {
			t.Fatalf("the daemon said %q, %v; want %q", got, err, w)
		}
	}
}

// up is what a daemon says that has come up in a delegated cgroup, with its run.
func up(site cgroupDir, inside bool, swept string, at cgroupDir) []string {
	return []string{
		fmt.Sprintf("site: %s %v", site, inside),
		"swept: [" + swept + "] <nil>",
		"now in: " + pathInTree(at),
		"run: <nil> <nil>",
		"main: <nil>",
		"lives: true",
	}
}

// pathInTree is a cgroup as /proc/self/cgroup names it.
func pathInTree(d cgroupDir) string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for _, m := range parseCgroupMounts(string(text)) {
		if rest, ok := strings.CutPrefix(string(d), m.dir+"/"); ok {
			return filepath.Join("/", m.root, rest)
		}
	}
	return "?"
}

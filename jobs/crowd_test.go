//go:build linux

package jobs

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// crowd is more processes than the kernel tells of in one read of a list of children: 4096 bytes hold some
// 700 of them.
const crowd = 1200

// crowdScript has a shell start a crowd, each member by the words of how, and print their number.
func crowdScript(how string) string {
	return fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s & i=$((i+1)); done; echo $i\n", crowd, how)
}

// A list of children is read to its end, however long it is.
func TestTree_ReadsLongLists(t *testing.T) {
	// All in one group, which ends as one.
	parent := exec.CommandContext(t.Context(), "/bin/sh", "-c", crowdScript("sleep 300")+"wait")
	parent.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		signalGroup(parent.Process.Pid, killSignals)
		_ = parent.Wait()
	}()
	if _, err := fmt.Fscanln(out, new(int)); err != nil {
		t.Fatal(err)
	}
	tr := newTree()
	children, err := tr.children(parent.Process.Pid)
	if err != nil || len(children) != crowd {
		t.Errorf("children of a process that has %d: %d, %v", crowd, len(children), err)
	}
	below := 0
	tr.below(parent.Process.Pid, func(process, procStat) { below++ })
	if below != crowd {
		t.Errorf("below a process that has %d children: %d", crowd, below)
	}
}

// A run is over when its last process is, whatever other runs have: here one with a crowd of orphans, which
// stand before it in the list of the warden's children.
func TestWarden_ManyOrphans(t *testing.T) {
	w := startWarden(t)
	full, _ := testRun(t)
	told := ready(&full)
	many := command(Shell("(" + strings.TrimSpace(crowdScript("sleep 300")) + "); sleep 300")...)
	many.Warden = w
	go many.Run(t.Context(), full) // it ends with the warden
	<-told

	run, _ := testRun(t)
	pids := filepath.Join(t.TempDir(), "pids")
	script := "(setsid sh -c 'trap \"\" TERM; echo $$ >" + pids + "; exec sleep 300' &); until [ -s " + pids + " ]; do sleep 0.01; done; exit 3"
	cmd := command(Shell(script)...)
	cmd.Warden, cmd.KillGrace = w, 0
	check(t, "a run beside a crowd", cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
	wantNone(t, run.ID)
}

//go:build linux

package jobs

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An identity is what a process has of an account: the numbers.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// MayBecome says what keeps this process from running programs as the account, nil if nothing does. It
// takes root, or the capabilities that the error names: without CAP_KILL it could start them and not end
// them. A process that is nobody else needs nothing, and keeps the groups that it has.
func (a *Account) MayBecome() error {
	var need []capability
	if int(a.UID) != os.Geteuid() {
		need = append(need, capSetUID, capSetGID, capKill)
	} else if int(a.GID) != os.Getegid() {
		need = append(need, capSetGID)
	}
	missing := lacking(need...)
	if len(missing) == 0 {
		return nil
	}
	names := make([]string, len(missing))
	for i, c := range missing {
		names[i] = c.String()
	}
	if os.Geteuid() == 0 {
		return fmt.Errorf("this root may not run anything as another user or group: it has no %s", strings.Join(names, ", "))
	}
	return fmt.Errorf("only root may run anything as another user or group, and this is user %d, without %s",
		os.Geteuid(), strings.Join(names, ", "))
}

// identity is what a program gets to run as the account, nil if it is what it gets anyway. MayBecome
// was asked before.
func (a *Account) identity() *identity {
	if int(a.UID) == os.Geteuid() && int(a.GID) == os.Getegid() && len(lacking(capSetGID)) > 0 {
		return nil
	}
	return &identity{a.UID, a.GID, a.Groups}
}

// credential is the identity as package syscall takes it, nil for a nil one. It drops the groups first,
// then the group, then the user: after that one the others could not be dropped any more.
func (id *identity) credential() *syscall.Credential {
	if id == nil {
		return nil
	}
	return &syscall.Credential{Uid: id.uid, Gid: id.gid, Groups: id.groups}
}

// looking calls f on a thread that may reach, read and execute what the identity may, and nothing
// more: setfsuid(2) takes the other capabilities of root over files away. A nil one is this process. The
// thread stays this process' to signal, which one with another user's real number would not.
func (id *identity) looking(f func()) {
	if id == nil {
		f()
		return
	}
	onThread(func() {
		groups := make([]int, len(id.groups))
		for i, g := range id.groups {
			groups[i] = int(g)
		}
		// These change the calling thread alone; package syscall's would change all of them.
		_ = unix.Setgroups(groups)
		_ = unix.Setfsgid(int(id.gid))
		_ = unix.Setfsuid(int(id.uid))
		f()
	})
}

// onThread calls f on a thread of its own that ends with it, so that f may do to the thread what
// cannot be undone, and waits for it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it is never unlocked: the thread ends with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// The first thread cannot end, and shows in /proc/PID as the whole process.
		onThread(f)
		runtime.UnlockOSThread()
	}()
	<-done
}

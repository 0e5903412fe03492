package sqltest

import "syscall"

// childAttr lets the kernel end a server whose test process died without cleaning up, by a
// timeout or a kill (prctl(2), PR_SET_PDEATHSIG).
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

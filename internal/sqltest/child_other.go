//go:build !linux

package sqltest

import "syscall"

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

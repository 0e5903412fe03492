//go:build linux

package jobs

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// A procStat is what /proc/PID/stat tells of a process (proc_pid_stat(5)). Unlike the environment it
// can be had of a process that hangs.
type procStat struct {
	state   byte
	parent  int
	group   int
	threads int
	start   uint64 // in clock ticks since boot: with it a pid names one process for ever
	hasEnv  bool   // there is an environment, or no address space to have one in
}

// Where the fields are, counted from the one after the name, which may hold anything.
const (
	statState    = 0
	statParent   = 1
	statGroup    = 2
	statThreads  = 17
	statStart    = 19
	statEnvStart = 47
	statEnvEnd   = 48 // both 0 without an address space
)

// readStat reads a process' stat into buf, which grows if need be. The error matches unix.ENOENT or
// unix.ESRCH if there is no such process.
func readStat(pid int, buf *[]byte) (procStat, error) {
	text, err := readAll("/proc/"+strconv.Itoa(pid)+"/stat", buf)
	if err != nil {
		return procStat{}, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= statEnvEnd {
		return procStat{}, unix.ESRCH
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	start, _ := strconv.ParseUint(string(fields[statStart]), 10, 64)
	return procStat{
		state: fields[statState][0], parent: number(statParent), group: number(statGroup),
		threads: number(statThreads), start: start,
		hasEnv: string(fields[statEnvEnd]) == "0" || string(fields[statEnvStart]) != string(fields[statEnvEnd]),
	}, nil
}

// dead tells a zombie, but not a leader whose other threads go on, which looks like one.
func (s procStat) dead() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

// changing tells whether a process that showed no environment may show one in a moment. It may not
// if it is dead, or if its environment is empty and it sleeps: execve(2) begins with an empty one
// and fills it, and what is in the middle of that runs or waits for a page.
func (s procStat) changing() bool {
	return !s.dead() && (s.hasEnv || s.state != 'S' && s.state != 'T' && s.state != 't')
}

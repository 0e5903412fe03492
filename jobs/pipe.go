//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBytes is the default capacity of a pipe (pipe(7)): a program that prints in bursts is
// served in one read.
const pipeBytes = 64 << 10

// A pipe carries what a run's processes print to its Output. Both streams share it, so that
// their order is kept. Its goroutine runs from start to finish; the zero pipe carries nothing.
type pipe struct {
	read   *os.File
	write  *os.File // the program's end, until it was sent
	to     io.Writer
	copier sync.WaitGroup
}

// newPipe starts a pipe, for a nil to the zero one. The error is not the program's.
func newPipe(to io.Writer) (*pipe, error) {
	if to == nil {
		return &pipe{}, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("output: %s", err) //nolint:errorlint // its errno is not exec's
	}
	p := &pipe{read: read, write: write, to: to}
	p.copier.Go(p.copy)
	return p, nil
}

// sent closes the end that the program writes to, once it has it, or never will.
func (p *pipe) sent() error {
	write := p.write
	p.write = nil
	return closeFile(write)
}

// finish ends the copying once the run's processes are gone. The pipe may still be open in a
// process that does not belong to the run; what was in it by now is copied, and no more.
func (p *pipe) finish() {
	if p.read == nil {
		return
	}
	// Wakes a waiting read. It cannot fail on a pipe, which can always be polled.
	_ = p.read.SetReadDeadline(time.Now())
	p.copier.Wait()
	p.read.Close()
}

func (p *pipe) copy() {
	buf := make([]byte, pipeBytes)
	left := -1 // how much more to read; negative: no bound
	for left != 0 {
		limit := len(buf)
		if left > 0 {
			limit = min(limit, left)
			// The bytes are there; the bound is for another reader, who took them.
			_ = p.read.SetReadDeadline(time.Now().Add(time.Second))
		}
		n, err := p.read.Read(buf[:limit])
		if n > 0 && p.to != nil {
			// An output that failed once gets no more; the program is not made to suffer for it.
			if _, err := p.to.Write(buf[:n]); err != nil {
				p.to = nil
			}
		}
		switch {
		case left > 0 && err == nil:
			left -= n
		case left < 0 && errors.Is(err, os.ErrDeadlineExceeded):
			left = p.buffered()
		case err != nil:
			return
		}
	}
}

// buffered is how many bytes wait in the pipe.
func (p *pipe) buffered() (n int) {
	conn, err := p.read.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil {
			n = 0
		}
	})
	return n
}

package drill

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// said is a word and who said it.
type said struct {
	word

	worker int
}

// crew is the worker processes.
type crew struct {
	words   chan said // closed when the last worker is gone
	workers []*exec.Cmd
	wg      sync.WaitGroup
}

// hire starts the workers. They die with this process.
func hire(exe string, args []string, all []orders) (*crew, error) {
	c := &crew{words: make(chan said, 1024)}
	for i, o := range all {
		if err := c.start(exe, args, i, o); err != nil {
			c.dismiss()
			return nil, err
		}
	}
	go func() {
		c.wg.Wait()
		close(c.words)
	}()
	return c, nil
}

func (c *crew) start(exe string, args []string, i int, o orders) error {
	told, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, args...) //nolint:noctx // dismiss ends it
	cmd.Stdin = bytes.NewReader(told)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var complaint tail
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("drill: start a worker: %w", err)
	}
	c.workers = append(c.workers, cmd)
	c.wg.Go(func() {
		bad := c.listen(i, cmd.Process, out)
		err := cmd.Wait()
		if err != nil || bad != nil {
			text := strings.TrimSpace(string(complaint.text))
			c.words <- said{word{What: failed, Text: fmt.Sprintf("worker %d ended: %v; %s", i, errors.Join(err, bad), text)}, i}
		}
	})
	return nil
}

// listen hands on what a worker says, until it is gone.
func (c *crew) listen(i int, p *os.Process, out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var w word
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return fmt.Errorf("it said %.80q", lines.Text())
		}
		if w.What == freeze {
			go thaw(p)
		}
		c.words <- said{w, i}
	}
	return lines.Err()
}

// thaw lets a worker go on that has stopped itself, a while after it has.
func thaw(p *os.Process) {
	s, _ := Find("hang")
	time.Sleep(s.long)
	// It may have been about to stop when that was over: a signal too many does no harm.
	for range 3 {
		_ = p.Signal(syscall.SIGCONT)
		time.Sleep(ttl)
	}
}

// dismiss ends all workers, those that are stopped too, and waits for their ends.
func (c *crew) dismiss() {
	for _, w := range c.workers {
		_ = w.Process.Kill()
	}
	go func() {
		for range c.words { // nobody waits for their last words
		}
	}()
	c.wg.Wait()
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

const watchEvery = time.Second

// Control sequences (ECMA-48, and xterm's private modes): an alternate screen without cursor
// and without wrapped lines, so that a long line is cut by the terminal and not by us.
const (
	screenBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K" // from the cursor on
	clearBelow  = "\x1b[J"
)

// watch shows a view every second until ctx ends or a signal comes, which is no failure. The
// first look must succeed; when Redis goes away later it is waited for.
func (a *app) watch(ctx context.Context, asJSON bool,
	look func(context.Context) (*view, error), show func(*view, io.Writer) error,
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	v, err := look(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if screen, ok := a.terminal(); ok && !asJSON {
		return a.watchScreen(ctx, screen, v, look, show)
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for told := false; ; {
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			told = false
			if err := show(v, a.stdout); err != nil {
				return err
			}
		case !told: // a line when it goes away, not one a second
			told = true
			a.report(err)
		}
		if !nextSecond(ctx, tick) {
			return nil
		}
		if !asJSON && err == nil {
			fmt.Fprintln(a.stdout)
		}
		v, err = look(ctx)
	}
}

// watchScreen draws on a terminal. While Redis is away what was last known stays on it, under
// a line that says so.
func (a *app) watchScreen(ctx context.Context, screen *os.File, v *view,
	look func(context.Context) (*view, error), show func(*view, io.Writer) error,
) error {
	fmt.Fprint(screen, screenBegin)
	defer fmt.Fprint(screen, screenEnd)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	heading := ""
	for {
		if heading == "" {
			heading = fmt.Sprintf("fleet %s at %s", v.Namespace, stamp(v.Now))
		}
		var text bytes.Buffer
		if err := show(v, &text); err != nil {
			return err
		}
		_, height, err := term.GetSize(int(screen.Fd()))
		if err != nil {
			height = 0
		}
		if _, err := io.WriteString(screen, frame(heading+"\n\n"+text.String(), height)); err != nil {
			return err
		}
		if !nextSecond(ctx, tick) {
			return nil
		}
		fresh, err := look(ctx)
		heading = ""
		if err == nil {
			v = fresh
		} else {
			heading = fmt.Sprintf("as of %s: %s", stamp(v.Now), err)
		}
	}
}

// nextSecond waits for the next second and tells whether ctx still lasts.
func nextSecond(ctx context.Context, tick *time.Ticker) bool {
	select {
	case <-tick.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// frame is what draws text over the frame before it. Lines that have no room are counted on
// the last one; a height of 0 is not known and has room for all.
func frame(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if height > 1 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1:height-1], "... "+count(more, "more line", "more lines"))
	}
	return cursorHome + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
}

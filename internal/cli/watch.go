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
	clearToEnd  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watch shows a view every second until ctx ends or a signal comes, which is no failure. The
// first view must succeed; when Redis goes away later it is waited for, and what was last known
// stays.
func (a *app) watch(ctx context.Context, asJSON bool,
	look func(context.Context) (*view, error), show func(*view, io.Writer) error,
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	v, err := look(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	screen, onScreen := a.terminal()
	onScreen = onScreen && !asJSON
	if onScreen {
		fmt.Fprint(screen, screenBegin)
		defer fmt.Fprint(screen, screenEnd)
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if v, err = a.showAgain(v, err, screen, onScreen, asJSON, show); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var fresh *view
		if fresh, err = look(ctx); err == nil {
			v = fresh
		} else if ctx.Err() != nil {
			return nil
		}
	}
}

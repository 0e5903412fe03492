package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress is a bar on standard error, if that is a terminal, for what takes longer than a second.
type progress struct {
	a     *app
	what  string
	began time.Time
	on    bool
	shown bool
}

func (a *app) progress(what string) *progress {
	f, ok := a.stderr.(*os.File)
	on := ok && term.IsTerminal(int(f.Fd())) && a.env("TERM") != "dumb"
	return &progress{a: a, what: what, began: time.Now(), on: on}
}

// show tells how many of all are done.
func (p *progress) show(done, all int) {
	if all > 0 {
		p.draw(float64(done)/float64(all), fmt.Sprintf("%d of %d", done, all))
	}
}

// share tells which share is done, from 0 to 1.
func (p *progress) share(of float64) { p.draw(of, fmt.Sprintf("%.0f %%", 100*of)) }

func (p *progress) draw(share float64, text string) {
	if !p.on || !p.shown && time.Since(p.began) < time.Second {
		return
	}
	p.shown = true
	const width = 30
	full := max(0, min(width, int(share*width)))
	fmt.Fprintf(p.a.stderr, "\r%s [%s%s] %s\x1b[K", p.what, strings.Repeat("#", full), strings.Repeat(".", width-full), text)
}

// end takes the bar away.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.a.stderr, "\r\x1b[K")
	}
}

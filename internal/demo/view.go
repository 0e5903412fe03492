package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Style is how the demo looks. The zero value is plain ASCII text, one line after the other.
type Style struct {
	Color bool // ANSI colours (ECMA-48, SGR)
	Live  bool // a last line that is rewritten; needs a terminal
	Marks bool // marks outside of ASCII, for terminals that show UTF-8
	Width int  // of the terminal in columns; 0: 80
}

// The view turns what happens into lines of at most 80 columns, which a terminal of the smallest
// usual size shows whole. It is pure. Everything is said in words or marks as well as in colour:
// without colour, as in a log, nothing is lost.
type view struct {
	hosts []string
	style Style
}

// wideHosts is how many hosts have room for words; more get marks.
const wideHosts = 4

// The columns beside those of the hosts. A token has 16 digits until the year 2286, when the
// microseconds since 1970 need one more.
const (
	tickWidth  = 8
	jobWidth   = 6
	tokenWidth = 16
	lagWidth   = 7
	gap        = "  "
)

// paint is an SGR parameter. Only the eight colours that every terminal has are used, so that
// people's own colour schemes hold.
type paint string

const (
	bold   paint = "1"
	dim    paint = "2"
	good   paint = "1;32"
	bad    paint = "1;31"
	red    paint = "31"
	warned paint = "33"
	noted  paint = "1;36"
)

func (v *view) paint(p paint, text string) string {
	if !v.style.Color || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// mark is a mark, or what stands for it in ASCII.
func (v *view) mark(mark, ascii string) string {
	if v.style.Marks {
		return mark
	}
	return ascii
}

// pad fills a text with spaces up to a number of columns.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-utf8.RuneCountInString(text)))
}

// header says what is to be seen, in three lines, and names the columns.
func (v *view) header(lasts time.Duration) []string {
	lines := []string{
		v.paint(bold, "rota demo") + fmt.Sprintf(": %d daemons, one Redis, no leader. For every tick of a job they race:", len(v.hosts)),
		"one wins, and runs it under a higher token; the others lose it, or leave it.",
		fmt.Sprintf("%s takes a few ms, %s %d ms; both are due every second. Ends in %s.",
			quickJob, slowJob, slowTime.Milliseconds(), short(lasts)),
		"",
	}
	var names strings.Builder
	if v.wide() {
		for _, h := range v.hosts {
			names.WriteString(pad(h, v.cellWidth()))
		}
	} else {
		names.WriteString(hostStem)
		for _, h := range v.hosts {
			names.WriteString(pad(strings.TrimPrefix(h, hostStem), v.cellWidth()))
		}
	}
	head := pad("tick UTC", tickWidth) + gap + pad("job", jobWidth) + gap + names.String() +
		pad("fencing token", tokenWidth) + gap + fmt.Sprintf("%*s", lagWidth, "lag")
	if !v.wide() {
		lines = append(lines, v.paint(dim, v.legend()))
	}
	return append(lines, v.paint(dim, head))
}

// legend explains the marks where there is no room for words.
func (v *view) legend() string {
	var parts []string
	for _, c := range []cell{won, lost, left, skipped, killed} {
		m, word, _ := v.cell(c)
		parts = append(parts, m+" "+word)
	}
	return strings.Join(parts, gap)
}

func (v *view) wide() bool { return len(v.hosts) <= wideHosts }

func (v *view) cellWidth() int {
	if v.wide() {
		return 9
	}
	return 3
}

// cell is a cell's mark, word and colour. A host that looked, saw the tick taken and left it has
// lost the race as well; but it cost Redis no claim, and that is worth showing.
func (v *view) cell(c cell) (mark, word string, p paint) {
	switch c {
	case won:
		return v.mark("●", "*"), "won", good
	case lost:
		return v.mark("○", "o"), "lost", dim
	case left:
		return v.mark("·", "."), "left it", dim
	case skipped:
		return v.mark("–", "s"), "skipped", warned
	case missed:
		return v.mark("!", "!"), "missed", bad
	case killed:
		return v.mark("✕", "x"), "killed", red
	case silent:
	}
	return "", "", dim
}

// row is one tick's race. Its right side is for what came of it: the token if somebody won, else
// why nobody did.
func (v *view) row(r *row) string {
	var b strings.Builder
	b.WriteString(r.tick.Format("15:04:05") + gap + pad(r.job, jobWidth) + gap)
	if !v.wide() {
		b.WriteString(strings.Repeat(" ", len(hostStem)))
	}
	for _, c := range r.cells {
		mark, word, p := v.cell(c)
		text := mark
		if v.wide() {
			text = word
			if c == won {
				text = mark + " " + word
			}
		}
		b.WriteString(v.paint(p, text) + strings.Repeat(" ", v.cellWidth()-utf8.RuneCountInString(text)))
	}
	switch {
	case r.token != 0:
		b.WriteString(v.token(r.token) + gap + fmt.Sprintf("%*s", lagWidth, lag(r.lag)))
	case r.holder != "" && r.alive:
		b.WriteString(v.paint(warned, r.holder+" still runs it"))
	case r.holder != "":
		b.WriteString(v.paint(warned, "lease of "+r.holder+" still lives"))
	default:
		b.WriteString(v.paint(bad, "nobody claimed it in time"))
	}
	return strings.TrimRight(b.String(), " ")
}

// token writes a token so that the digits which change within a quarter of an hour, a token
// being microseconds or more, stand out.
func (v *view) token(n int64) string {
	text := pad(strconv.FormatInt(n, 10), tokenWidth)
	return v.paint(dim, text[:len(text)-9]) + text[len(text)-9:]
}

// lag is how late a claim was won, short.
func lag(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("+%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("+%.1f s", d.Seconds())
}

// rule is a line across the view, with a text in it.
func (v *view) rule(p paint, text string) string {
	dash := v.mark("─", "-")
	line := strings.Repeat(dash, 4) + " " + text + " "
	return v.paint(p, line+strings.Repeat(dash, max(4, 80-utf8.RuneCountInString(line))))
}

// under is a remark to the rule above it.
func (v *view) under(text string) string { return "     " + text }

// died says that a host was killed, and with it the runs of jobs. What follows looks like a fault
// to who does not know the reason, a job that stands still while two hosts are idle; so the reason
// is given here.
func (v *view) died(host string, jobs []string) []string {
	if len(jobs) == 0 {
		return []string{v.rule(bad, host+" killed with SIGKILL")}
	}
	job := strings.Join(jobs, " and ")
	return []string{
		v.rule(bad, fmt.Sprintf("%s killed with SIGKILL, in the middle of %s", host, job)),
		v.under(fmt.Sprintf("its run of %s is lost; its lease ends in at most %s, and nobody else", job, short(leaseTTL))),
		v.under("runs " + job + " until then: it might be slow, and not dead"),
	}
}

// takeover says that another host goes on with a job.
func (v *view) takeover(t *takeover) []string {
	old, token := strconv.FormatInt(t.old, 10), strconv.FormatInt(t.token, 10)
	cut := max(0, len(old)-9)
	return []string{
		v.rule(noted, fmt.Sprintf("takeover: %s runs %s, token %s%s > %s%s", t.to, t.job,
			v.mark("…", ".."), token[min(cut, len(token)):], v.mark("…", ".."), old[cut:])),
		v.under("a store that checks tokens would refuse what " + t.from + " might still write"),
	}
}

// remain says that a killed host left processes behind.
func (v *view) remain(host string, n int) string {
	return v.rule(bad, fmt.Sprintf("%s of %s outlived it by %s", plural(n, "process", "processes"), host, short(leaseTTL)))
}

// drained says how the hosts ended that were asked to.
func (v *view) drained(ends []ending) string {
	var well, badly []string
	for _, e := range ends {
		if e.well {
			well = append(well, e.host)
		} else {
			badly = append(badly, e.host)
		}
	}
	if len(badly) > 0 {
		return v.rule(bad, list(badly)+" did not end well")
	}
	return v.rule(noted, list(well)+" drained on SIGTERM")
}

// status is the line at the bottom: what goes on now.
func (v *view) status(b *board, rest time.Duration) string {
	var parts []string
	for _, job := range b.jobs {
		if o, ok := b.open[job]; ok && job == slowJob {
			parts = append(parts, job+" runs on "+o.host)
		}
	}
	// Rounded up: the last second before the end is one to go, not none.
	ends := fmt.Sprintf("%d s to go", int((rest+time.Second-1)/time.Second))
	if rest <= 0 {
		ends = "ending"
	}
	parts = append([]string{
		ends, plural(b.ticks, "tick", "ticks"), plural(b.runs, "run", "runs"),
		plural(b.doubles, "double", "doubles"),
	}, parts...)
	text := " " + strings.Join(parts, gap)
	width := v.style.Width
	if width == 0 {
		width = 80
	}
	// A line that wraps could not be erased any more, and some terminals wrap at the last column.
	// The text is ASCII, so its bytes are its columns.
	if n := width - 1; len(text) > n {
		text = text[:max(0, n)]
	}
	return v.paint(dim, text)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// list joins names as people do, as far as there is room.
func list(names []string) string {
	if len(names) > wideHosts {
		return plural(len(names), "host", "hosts")
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// short is a duration in seconds, as people say it.
func short(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

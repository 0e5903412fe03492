package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rota/internal/shadow"
)

// dryText prints a dry run for people: a line for what came of each tick, in columns, and a report of
// tables at the end.
type dryText struct {
	a     *app
	w     io.Writer
	width int         // of the terminal; 0: it is none, and nothing is cut
	names [2][]string // of jobs and hosts

	job, host int // widths of their columns; 0: nothing was printed yet
}

const (
	// On a terminal no column of names is wider, so that a line of 80 has room for the rest.
	widestJob, widestHost = 20, 12
	resultWidth           = len("skipped")
)

// begin prints the header, once.
func (d *dryText) begin() error {
	if d.job > 0 {
		return nil
	}
	longest := func(least string, names []string, most int) int {
		n := len(least)
		for _, name := range names {
			n = max(n, len(name))
		}
		if d.width > 0 {
			n = min(n, most)
		}
		return n
	}
	d.job = longest("JOB", d.names[0], widestJob)
	d.host = longest("HOST", d.names[1], widestHost)
	return d.line("TICK", "JOB", "RESULT", pad("HOST", d.host)+"  AHEAD OF THE NEXT")
}

// line prints one line, as wide as the terminal at most.
func (d *dryText) line(tick, job, result, rest string) error {
	text := strings.TrimRight(strings.Join([]string{
		pad(tick, len("15:04:05Z")), pad(cutName(job, d.job), d.job), pad(result, resultWidth), rest,
	}, "  "), " ")
	if d.width > 0 {
		text = cut(text, d.width)
	}
	_, err := fmt.Fprintln(d.w, text)
	return err
}

func (d *dryText) event(e shadow.Event) error {
	if err := d.begin(); err != nil {
		return err
	}
	return d.line(e.Tick.UTC().Format("15:04:05Z"), plain(everyHost(e.Job)), string(e.What), d.rest(&e))
}

// rest is what there is to say of an event after who and when.
func (d *dryText) rest(e *shadow.Event) string {
	host := pad(cutName(plain(e.Host), d.host), d.host)
	switch e.What {
	case shadow.EventWon:
		text := host + "  "
		if e.Next == "" {
			text += "no other host came"
		} else {
			text += fmt.Sprintf("%s before %s", took(e.Margin), cutName(plain(e.Next), d.host))
		}
		if e.Holds > 0 {
			text += ", holds " + took(e.Holds)
		}
		if e.Kind != "scheduled" {
			text += ", " + string(e.Kind)
		}
		return text
	case shadow.EventEnded:
		return host + "  " + e.Outcome
	case shadow.EventMissed:
		if e.Count > 1 {
			return count(e.Count, "tick", "ticks") + " that nobody claimed in time"
		}
		return "nobody claimed it in time"
	case shadow.EventSkipped, shadow.EventWaiting:
		switch {
		case e.Reason != "":
			return e.Reason
		case e.Holder == "":
			return "max_parallel runs are going"
		case e.HolderJob == e.Job:
			return "held by itself on " + d.name(plain(e.Holder), widestHost)
		}
	}
	return fmt.Sprintf("held by %s on %s", d.name(plain(e.HolderJob), widestHost+2), d.name(plain(e.Holder), widestHost))
}

func (d *dryText) report(r *shadow.Report) error {
	var b strings.Builder
	printed := d.job > 0
	if printed {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s in %s, won by %d of %s\n", count(r.Ticks, "tick", "ticks"),
		took(time.Duration(r.LastedMS)*time.Millisecond), winners(r), count(len(r.Hosts), "host", "hosts"))
	if r.Claims.Count > 0 {
		fmt.Fprintf(&b, "a claim took %s (p50), %s (p99)\n", ms(r.Claims.P50MS), ms(r.Claims.P99MS))
	}
	if r.Commands.PeakAt != nil {
		fmt.Fprintf(&b, "Redis got %.0f commands a second, at the peak %d (%s)\n",
			r.Commands.MeanPerS, r.Commands.PeakPerS, r.Commands.PeakAt.Format("15:04:05Z"))
	}

	for _, t := range []*table{d.jobs(r), d.locks(r), d.hosts(r)} {
		if t == nil {
			continue
		}
		b.WriteString("\n")
		if _, err := t.WriteTo(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(d.w, b.String())
	return err
}

func winners(r *shadow.Report) int {
	n := 0
	for i := range r.Hosts {
		if r.Hosts[i].Wins > 0 {
			n++
		}
	}
	return n
}

// jobs is the table of what came of the jobs' ticks.
func (d *dryText) jobs(r *shadow.Report) *table {
	if len(r.Jobs) == 0 {
		return nil
	}
	return fit(d.width, []shape{{}, {omit: []string{"FROM"}}}, func(brevity) *table { return d.jobTable(r) })
}

func (d *dryText) jobTable(r *shadow.Report) *table {
	t := newTable(false, "", "JOB", "TICKS", "WON", "HELD", "SKIPPED", "MISSED", "MARGIN", "HOLDS", "FROM")
	for _, j := range together(r.Jobs) {
		margin, of := "-", "-"
		if j.MarginP50MS != nil {
			margin = ms(*j.MarginP50MS)
		}
		switch {
		case !j.Enabled:
			of = "disabled"
		case j.HoldsFrom == shadow.FromLedger:
			of = count(j.Runs, "run", "runs")
		case j.HoldsFrom == shadow.Assumed:
			of = "assumed"
		}
		t.row(d.name(j.Name, widestJob), strconv.Itoa(j.Ticks), strconv.Itoa(j.Won), strconv.Itoa(j.Held), strconv.Itoa(j.Skipped),
			strconv.Itoa(j.Missed), margin, took(time.Duration(j.HoldsMS)*time.Millisecond), of)
	}
	return t
}

// together makes one of the jobs that one of the table is on each of its hosts.
func together(jobs []shadow.JobReport) []shadow.JobReport {
	var out []shadow.JobReport
	for _, j := range jobs {
		j.Name = everyHost(j.Name)
		last := len(out) - 1
		if last < 0 || out[last].Name != j.Name {
			out = append(out, j)
			continue
		}
		of := &out[last]
		of.Ticks, of.Won, of.Held, of.Skipped, of.Missed = of.Ticks+j.Ticks, of.Won+j.Won, of.Held+j.Held, of.Skipped+j.Skipped, of.Missed+j.Missed
	}
	return out
}

// everyHost is the name of a job or lock, JOB@* if it is one host's.
func everyHost(name string) string {
	if base, _, ok := strings.Cut(name, "@"); ok {
		return base + "@*"
	}
	return name
}

// locks is the table of which job waits for which, and where that held the lock.
func (d *dryText) locks(r *shadow.Report) *table {
	type row struct{ lock, job, holder string }
	var rows []row
	ticks, on := map[row]int{}, map[row][]string{}
	for i := range r.Locks {
		for _, c := range r.Locks[i].Contention {
			w := row{everyHost(r.Locks[i].Name), everyHost(c.Job), everyHost(c.Holder)}
			if ticks[w] == 0 {
				rows = append(rows, w)
			}
			ticks[w] += c.Ticks
			on[w] = append(on[w], holders(r, &c)...)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	t := newTable(false, "", "LOCK", "WANTED BY", "HELD BY", "TICKS", "ON")
	for _, w := range rows {
		hosts := "-"
		if n := len(on[w]); n > 0 {
			hosts = d.name(on[w][0], widestHost)
			if n > 1 {
				hosts += fmt.Sprintf(" +%d", n-1)
			}
		}
		t.row(d.name(w.lock, widestHost), d.name(w.job, widestHost+2), d.name(w.holder, widestHost+2), strconv.Itoa(ticks[w]), hosts)
	}
	return t
}

// holders are the hosts that held a lock for one job when another wanted it, the most often first.
func holders(r *shadow.Report, c *shadow.Contention) []string {
	i := slices.IndexFunc(r.Jobs, func(j shadow.JobReport) bool { return j.Name == c.Job })
	var hosts []string
	for _, h := range r.Jobs[i].HeldBy {
		if h.Job == c.Holder && h.Host != "" {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// hosts is the table of how the hosts fared.
func (d *dryText) hosts(r *shadow.Report) *table {
	t := newTable(false, "", "HOST", "WINS", "SHARE", "CLAIMS", "P50", "P99", "CLOCK")
	for i := range r.Hosts {
		h := &r.Hosts[i]
		offset := "-"
		if h.ClockOffsetMS != nil {
			offset = fmt.Sprintf("%+dms", *h.ClockOffsetMS)
		}
		p50, p99 := "-", "-"
		if h.Claims.Count > 0 {
			p50, p99 = ms(h.Claims.P50MS), ms(h.Claims.P99MS)
		}
		t.row(d.name(h.Name, widestJob), strconv.Itoa(h.Wins), fmt.Sprintf("%.0f%%", 100*h.Share), strconv.Itoa(h.Claims.Count), p50, p99, offset)
	}
	return t
}

// name is a name as there is room for it on a terminal.
func (d *dryText) name(s string, most int) string {
	if d.width == 0 {
		return s
	}
	return cutName(s, most)
}

// ms is a latency to two digits at least.
func ms(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 1, 64) + "ms"
	}
	return took(time.Duration(v * float64(time.Millisecond)))
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// cutName shortens a name in the middle: often its end tells it from others.
func cutName(s string, width int) string {
	const end = 4
	runes := []rune(s)
	if len(runes) <= width || width <= end+1 {
		return cut(s, width)
	}
	return string(runes[:width-end-1]) + "…" + string(runes[len(runes)-end:])
}

// cut shortens a text to so many characters; an ellipsis says so.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rota/internal/preview"
)

// What a terminal shows of each list; --json has all of it.
const (
	previewPeaks = 5
	previewLocks = 8
	previewJobsN = 15
	previewNotes = 10
)

// writePreview prints a report for people.
func (a *app) writePreview(r *preview.Report, opt preview.Options) error {
	w := &page{out: bufio.NewWriter(a.stdout)}
	w.line("%s", previewTitle(r))
	w.wrapped("", previewTotals(r.Ticks))
	if r.Ticks.Due > 0 {
		w.heat(&r.Heat, manyDays(r))
		w.peaks(r)
		w.locks(r)
		w.jobs(r)
		w.hosts(r)
		w.load(r)
	}
	w.clocks(r)
	w.advice(r)
	w.warnings(r)
	w.line("")
	w.line("seed %d; the same seed gives the same report", opt.Seed)
	return cmp.Or(w.err, w.out.Flush())
}

// page writes text section by section and keeps the first error.
type page struct {
	out *bufio.Writer
	err error
}

func (w *page) line(format string, args ...any) {
	if _, err := fmt.Fprintf(w.out, format+"\n", args...); w.err == nil {
		w.err = err
	}
}

func (w *page) section(name string) {
	w.line("")
	w.line("%s", name)
}

func (w *page) table(t *table) {
	if _, err := t.WriteTo(w.out); w.err == nil {
		w.err = err
	}
}

// more says how many lines of a list are left out.
func (w *page) more(shown, all int, what string) {
	if all > shown {
		w.line("… and %s more %s", grouped(int64(all-shown)), what)
	}
}

// stripWidth is how many characters the strip has: of a day, 20 minutes each.
const stripWidth = 72

// heat draws how the ticks spread over the window, or the hours of the day, as one line.
func (w *page) heat(h *preview.Heat, manyDays bool) {
	if len(h.Fine) == 0 {
		return
	}
	columns := min(stripWidth, len(h.Fine))
	cells := make([]int64, columns)
	for i := range cells {
		from, until := i*len(h.Fine)/columns, max((i+1)*len(h.Fine)/columns, i*len(h.Fine)/columns+1)
		cells[i] = slices.Max(h.Fine[from:until])
	}
	most := max(1, slices.Max(cells))
	blocks := []rune("▁▂▃▄▅▆▇█")
	var strip strings.Builder
	for _, n := range cells {
		if n == 0 {
			strip.WriteByte(' ')
			continue
		}
		strip.WriteRune(blocks[min(int64(len(blocks)-1), n*int64(len(blocks))/(most+1))])
	}
	fine, span := h.FineStep.Duration(), h.FineStep.Duration()*time.Duration(len(h.Fine))
	what := "the ticks of each " + unit(fine) + ", at most " + grouped(most)
	if manyDays {
		what += ", by the time of day"
	}
	w.section("HEAT  " + what)
	w.line("%s", strings.TrimRight(strip.String(), " "))
	w.line("%s", stripAxis(h.Start, span, columns))
}

// stripAxis has a label every twelve characters, where its time begins.
func stripAxis(start time.Time, span time.Duration, columns int) string {
	layout := "15:04"
	switch {
	case span > 48*time.Hour:
		layout = "01-02"
	case span < 10*time.Minute:
		layout = "15:04:05"
	}
	var axis strings.Builder
	for at := 0; at+len(layout) <= columns; at += 12 {
		label := start.Add(span * time.Duration(at) / time.Duration(columns)).UTC().Format(layout)
		axis.WriteString(label + strings.Repeat(" ", 12-len(label)))
	}
	return strings.TrimRight(axis.String(), " ") + "  UTC"
}

func (w *page) peaks(r *preview.Report) {
	if len(r.Peaks) == 0 {
		return
	}
	w.section("CROWDED MINUTES")
	t := newTable(false, "", "MINUTE", "TICKS", "IN ONE SECOND", "JOBS")
	day := r.Window.Until.Sub(r.Window.From) <= 24*time.Hour
	for _, p := range r.Peaks[:min(len(r.Peaks), previewPeaks)] {
		minute := p.Minute.UTC().Format("15:04Z")
		if !day {
			minute = p.Minute.UTC().Format("01-02 15:04Z")
		}
		t.row(minute, grouped(p.Ticks), grouped(p.Most), someJobs(p.Jobs, 34))
	}
	w.table(t)
}

// someJobs names as many jobs as fit into so many characters.
func someJobs(jobs []preview.JobCount, width int) string {
	var text string
	for i, j := range jobs {
		name := shortName(j.Job)
		if j.Ticks > 1 {
			name += " ×" + grouped(j.Ticks)
		}
		if i > 0 {
			name = ", " + name
		}
		if i > 0 && len([]rune(text+name)) > width {
			return fmt.Sprintf("%s … %d more", text, len(jobs)-i)
		}
		text += name
	}
	return text
}

func (w *page) locks(r *preview.Report) {
	locks := slices.DeleteFunc(slices.Clone(r.Locks), func(l preview.LockReport) bool { return l.Held == 0 })
	if len(locks) == 0 {
		return
	}
	w.section("CONTENDED LOCKS")
	t := newTable(false, "", "LOCK", "BUSY", "CLAIMS", "FOUND HELD", "BY WHOM")
	for _, l := range locks[:min(len(locks), previewLocks)] {
		var pairs []string
		for _, c := range l.ByPair[:min(2, len(l.ByPair))] {
			holder := "itself"
			if c.Job != c.Holder {
				holder = shortName(c.Holder)
			}
			pairs = append(pairs, fmt.Sprintf("%s by %s ×%s", shortName(c.Job), holder, grouped(c.Times)))
		}
		by := strings.Join(pairs, ", ")
		if n := len(l.ByPair) - 2; n > 0 {
			by += fmt.Sprintf(" … %d more", n)
		}
		t.row(shortName(l.Lock), share(l.Busy), grouped(l.Claims), grouped(l.Held)+" ("+percent(l.Held, l.Claims)+")", by)
	}
	w.table(t)
	w.more(previewLocks, len(locks), "locks")
}

// jobs lists those that lose ticks first, then those with the most.
func (w *page) jobs(r *preview.Report) {
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs), func(j preview.JobReport) bool { return j.Due == 0 })
	slices.SortStableFunc(jobs, func(a, b preview.JobReport) int {
		return cmp.Or(-cmp.Compare(a.Lost(), b.Lost()), -cmp.Compare(a.OverGap, b.OverGap), -cmp.Compare(a.Due, b.Due))
	})
	w.section("JOBS")
	t := newTable(false, "", "JOB", "TICKS", "RUN", "SKIPPED", "MISSED", "TAKES", "LATEST", "OVER GAP")
	for _, j := range jobs[:min(len(jobs), previewJobsN)] {
		t.row(shortName(j.Job), grouped(j.Due), grouped(j.Ran), lostOf(j.Skipped, j.Due), orDash(dashZero(j.Missed)),
			lasts(j.RunP50.Duration()), lasts(j.LagMax.Duration()), orDash(dashZero(j.OverGap)))
	}
	w.table(t)
	w.more(previewJobsN, len(jobs), "jobs")
	if len(jobs) > 0 {
		w.wrapped("", "TAKES: the median of its runs. LATEST: the longest wait for a start. OVER GAP: runs that went on when the next tick was due.")
	}
}

func lostOf(n, of int64) string {
	if n == 0 {
		return "-"
	}
	return grouped(n) + " (" + percent(n, of) + ")"
}

func dashZero(n int64) string {
	if n == 0 {
		return ""
	}
	return grouped(n)
}

func (w *page) hosts(r *preview.Report) {
	w.section("HOSTS")
	full := slices.ContainsFunc(r.Hosts, func(h preview.HostReport) bool { return h.Full > 0 })
	header := []string{"HOST", "WINS", "SHARE", "RUNS AT ONCE"}
	if full {
		header = append(header, "OF AT MOST", "HAD NO PLACE")
	}
	t := newTable(false, "", header...)
	hosts := slices.Clone(r.Hosts)
	slices.SortStableFunc(hosts, func(a, b preview.HostReport) int { return cmp.Compare(b.Full, a.Full) })
	for _, h := range hosts[:min(len(hosts), previewNotes)] {
		row := []string{shortName(h.Host), grouped(h.Wins), share(h.Share), strconv.Itoa(h.Most)}
		if full {
			row = append(row, strconv.Itoa(h.MaxRuns), grouped(h.Full))
		}
		t.row(row...)
	}
	w.table(t)
	w.more(previewNotes, len(hosts), "hosts")
}

func (w *page) load(r *preview.Report) {
	if r.Load.Second.IsZero() {
		return
	}
	w.section(fmt.Sprintf("REDIS  commands in the fullest second, %s, by size of the fleet", stampShort(r.Load.Second)))
	hosts, commands := []string{"HOSTS"}, []string{"COMMANDS"}
	for _, f := range r.Load.Fleets {
		hosts, commands = append(hosts, strconv.Itoa(f.Hosts)), append(commands, grouped(f.Commands))
	}
	t := newTable(false, "", hosts...)
	t.row(commands...)
	w.table(t)
}

func (w *page) clocks(r *preview.Report) {
	changes := slices.DeleteFunc(slices.Clone(r.Clocks), func(c preview.ClockChange) bool { return len(c.Jobs) == 0 })
	if len(changes) == 0 {
		return
	}
	w.section("CLOCK CHANGES")
	for _, c := range changes[:min(len(changes), previewNotes)] {
		way := "go forward"
		if c.Shift() < 0 {
			way = "go back"
		}
		w.line("%s  clocks of %s %s by %s", stampShort(c.At), plain(c.Zone), way, window(c.Shift().Abs()))
		for _, j := range c.Jobs[:min(len(c.Jobs), previewNotes)] {
			w.wrapped("  ", plain(j.Job+": "+j.Text))
		}
		w.more(previewNotes, len(c.Jobs), "jobs")
	}
	w.more(previewNotes, len(changes), "changes")
}

func (w *page) advice(r *preview.Report) {
	if len(r.Advice) == 0 {
		return
	}
	w.section("WHAT WOULD HELP  each was tried")
	for _, v := range r.Advice[:min(len(r.Advice), previewNotes)] {
		w.wrapped("- ", plain(v.Text))
	}
}

func (w *page) warnings(r *preview.Report) {
	if len(r.Warnings) == 0 {
		return
	}
	w.section("WARNINGS")
	for _, v := range r.Warnings[:min(len(r.Warnings), previewNotes)] {
		text := v.Text
		if v.Job != "" && !strings.HasPrefix(text, v.Job) {
			text = v.Job + ": " + text
		}
		w.wrapped("- ", plain(text))
	}
	w.more(previewNotes, len(r.Warnings), "warnings")
}

// wrapped writes a sentence in lines that are not too long, the first behind a mark.
func (w *page) wrapped(mark, text string) {
	for i, line := range wrap(text, proseWidth-len(mark)) {
		if i > 0 {
			mark = strings.Repeat(" ", len(mark))
		}
		w.line("%s%s", mark, line)
	}
}

// shortName is a name as a column takes it.
func shortName(name string) string {
	const most = 20
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}

// grouped is a number with a comma at each thousand.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// percent is a share that is never shown as none or all if it is neither.
func percent(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return share(float64(n) / float64(of))
}

func share(of float64) string {
	p := 100 * of
	switch {
	case p > 0 && p < 0.1:
		return "<0.1 %"
	case p < 100 && p > 99.9:
		return ">99.9 %"
	case p > 0 && p < 10 || p > 99 && p < 100:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// stampShort is an instant in UTC without seconds where it has none.
func stampShort(t time.Time) string {
	if t = t.UTC(); t.Second() == 0 {
		return t.Format("2006-01-02 15:04Z")
	}
	return t.Format("2006-01-02 15:04:05Z")
}

// window is a length of time as the config writes it.
func window(d time.Duration) string {
	const day = 24 * time.Hour
	if days := d / day; days > 1 && d%day == 0 {
		return strconv.Itoa(int(days)) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// lasts is a length of time to three digits, without units that are nought.
func lasts(d time.Duration) string {
	if d < time.Minute {
		return took(d)
	}
	return window(d.Round(time.Second))
}

// unit is a step of the strip in words.
func unit(d time.Duration) string {
	switch {
	case d == time.Second:
		return "second"
	case d == time.Minute:
		return "minute"
	case d == time.Hour:
		return "hour"
	}
	return window(d)
}

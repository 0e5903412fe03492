package picture

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// All lengths are in pixels.
const (
	margin   = 24
	header   = 76 // title and subtitle
	strip    = 84 // the ticks of each minute
	labels   = 26 // peaks above the strip
	axis     = 26 // hours under the strip
	rowHigh  = 22
	cellHigh = 16
	lostHigh = 5 // the least of a cell that lost anything
	plot     = 960
	perChar  = 7.2 // of the labels' font, at most
	legend   = 44
	letters  = 34 // of a name that are shown
)

// SVG writes the chart as one SVG picture that follows the reader's light or dark colours. It needs
// nothing else: no font, no script. The error is the writer's.
func SVG(w io.Writer, c Chart) error {
	d := &drawing{w: bufio.NewWriter(w), c: c}
	d.draw()
	return d.w.Flush()
}

type drawing struct {
	w           *bufio.Writer
	c           Chart
	left, right float64 // of the plot: the names' width before it, the notes' after it
}

// put ignores errors: a bufio.Writer keeps the first one.
func (d *drawing) put(format string, args ...any) { _, _ = fmt.Fprintf(d.w, format+"\n", args...) }

func (d *drawing) text(x, y float64, class, text string) {
	d.put(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(clean(text)))
}

func (d *drawing) draw() {
	names, notes := 0, 0
	for _, r := range d.c.Rows {
		names = max(names, length(short(r.Job))+2, length(lockLabel(r))) // two more in a group
		notes = max(notes, length(r.Note))
	}
	d.left = margin + max(110, float64(names)*perChar+16)
	d.right = d.left + plot
	rows := header + labels + strip + axis + 18
	if len(d.c.Ticks) == 0 {
		rows = header + axis
	}
	high := rows + rowHigh*d.lines() + legend + margin
	wide := d.right + max(60, float64(notes)*perChar+16) + margin
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`, wide, high, wide, high)
	d.put(`<title>%s</title>`, html.EscapeString(clean(d.c.Title)))
	d.put(`<desc>%s</desc>`, html.EscapeString(clean(d.c.Subtitle)))
	d.put("%s", style)
	d.put(`<rect class="paper" width="100%%" height="100%%"/>`)
	d.text(margin, 36, "title", d.c.Title)
	d.text(margin, 58, "quiet", d.c.Subtitle)
	top := float64(header)
	if len(d.c.Ticks) > 0 {
		d.strip(top + labels)
		top += labels + strip
	}
	d.hours(top+16, float64(rows+rowHigh*d.lines()))
	d.rows(float64(rows))
	d.legend(float64(rows + rowHigh*d.lines() + 30))
	d.put(`</svg>`)
}

// lines is how many rows there are, with those that tell a group's lock and how many jobs are left out.
func (d *drawing) lines() int {
	n := len(d.c.Rows)
	for i := range d.c.Rows {
		if d.opensGroup(i) {
			n++
		}
	}
	if d.c.More > 0 {
		n++
	}
	return n
}

// strip draws the ticks of each fine part as bars, and the labels of the most crowded ones.
func (d *drawing) strip(top float64) {
	most := max(1, slices.Max(d.c.Ticks))
	d.text(margin, top+12, "quiet", "ticks a "+cmp.Or(d.c.Part, "minute"))
	d.text(margin, top+28, "quiet", fmt.Sprintf("at most %d", most))
	base := top + strip
	d.put(`<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, d.left, base, d.right, base)
	step := plot / float64(len(d.c.Ticks))
	var path strings.Builder
	// One path of bars a pixel wide: a bar of each minute of a month would be 43,000 elements.
	for x := range plot {
		from := int(float64(x) / step)
		until := max(from+1, int(math.Ceil(float64(x+1)/step)))
		n := slices.Max(d.c.Ticks[min(from, len(d.c.Ticks)-1):min(until, len(d.c.Ticks))])
		if n > 0 {
			h := max(1.5, float64(n)/float64(most)*strip)
			fmt.Fprintf(&path, "M%.1f %.1fv-%.1fh1v%.1fz", d.left+float64(x), base, h, h)
		}
	}
	d.put(`<path class="bar" d="%s"/>`, path.String())
	taken := []float64{}
	for _, p := range d.c.Peaks {
		if p.At < 0 || p.At >= len(d.c.Ticks) {
			continue
		}
		x := d.left + (float64(p.At)+0.5)*step
		wide := float64(length(p.Label)) * perChar
		if slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-x) < wide+8 }) {
			continue // the more crowded one has the place
		}
		taken = append(taken, x)
		anchor := "middle"
		if x-wide/2 < d.left {
			anchor = "start"
		} else if x+wide/2 > d.right {
			anchor = "end"
		}
		d.put(`<text x="%.1f" y="%.1f" class="peak" text-anchor="%s">%s</text>`, x, top-8, anchor, html.EscapeString(clean(p.Label)))
		d.put(`<line class="pointer" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, top-4, x, top+2)
	}
}

// hours draws the axis, with a line down to the bottom at each label.
func (d *drawing) hours(y, bottom float64) {
	span := d.c.Until.Sub(d.c.From)
	if span <= 0 {
		return
	}
	step, layout := scale(span)
	for at := d.c.From.UTC().Truncate(step); !at.After(d.c.Until); at = at.Add(step) {
		if at.Before(d.c.From) {
			continue
		}
		x := d.left + float64(at.Sub(d.c.From))/float64(span)*plot
		d.put(`<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, y+6, x, bottom)
		d.put(`<text x="%.1f" y="%.1f" class="quiet" text-anchor="middle">%s</text>`, x, y, at.Format(layout))
	}
	d.text(margin, y, "quiet", "UTC")
}

// scale is how far labels are apart, and how they read.
func scale(span time.Duration) (step time.Duration, layout string) {
	const day = 24 * time.Hour
	for _, s := range []struct {
		up, step time.Duration
		layout   string
	}{
		{2 * time.Minute, 10 * time.Second, "15:04:05"},
		{15 * time.Minute, time.Minute, "15:04"},
		{2 * time.Hour, 10 * time.Minute, "15:04"},
		{8 * time.Hour, 30 * time.Minute, "15:04"},
		{30 * time.Hour, 2 * time.Hour, "15:04"},
		{3 * day, 6 * time.Hour, "2 15h"},
		{14 * day, day, "Jan 2"},
		{60 * day, 7 * day, "Jan 2"},
	} {
		if span <= s.up {
			return s.step, s.layout
		}
	}
	return max(30*day, (span / 12).Round(day)), "Jan 2006"
}

// opensGroup tells whether a row is the first of several jobs on one lock.
func (d *drawing) opensGroup(i int) bool {
	lock := d.c.Rows[i].Lock
	return lock != "" && (i == 0 || d.c.Rows[i-1].Lock != lock) && i+1 < len(d.c.Rows) && d.c.Rows[i+1].Lock == lock
}

func (d *drawing) rows(y float64) {
	most := 1
	for _, r := range d.c.Rows {
		for _, cell := range r.Cells {
			most = max(most, cell.Ticks)
		}
	}
	for i, r := range d.c.Rows {
		if d.opensGroup(i) {
			last := i
			for last+1 < len(d.c.Rows) && d.c.Rows[last+1].Lock == r.Lock {
				last++
			}
			d.text(margin, y+13, "lock", lockLabel(r))
			d.put(`<line class="group" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, margin+3, y+rowHigh-1, margin+3, y+float64(rowHigh*(last-i+2))-5)
			y += rowHigh
		}
		x := float64(margin)
		if d.inGroup(i) {
			x += 12
		}
		d.text(x, y+13, "name", short(r.Job))
		d.cells(r, y, most)
		if r.Note != "" {
			class := "quiet"
			if r.Alarm {
				class = "alarm"
			}
			d.text(d.right+14, y+13, class, r.Note)
		}
		y += rowHigh
	}
	if d.c.More > 0 {
		d.text(margin, y+13, "quiet", fmt.Sprintf("… and %d more", d.c.More))
	}
}

func (d *drawing) inGroup(i int) bool {
	lock := d.c.Rows[i].Lock
	return lock != "" && (i > 0 && d.c.Rows[i-1].Lock == lock || i+1 < len(d.c.Rows) && d.c.Rows[i+1].Lock == lock)
}

// cells draws a job's parts of the window: how many ticks by the colour, how long it is at work by a
// line at the bottom, how many are lost by what is red of it.
func (d *drawing) cells(r Row, y float64, most int) {
	if len(r.Cells) == 0 {
		return
	}
	step := plot / float64(len(r.Cells))
	gap := min(2, step/6)
	for i, c := range r.Cells {
		if c.Ticks == 0 && c.Busy == 0 {
			continue
		}
		x, wide := d.left+float64(i)*step+gap/2, step-gap
		d.put(`<g><title>%s</title>`, html.EscapeString(clean(d.cellWords(r, i))))
		if c.Ticks > 0 {
			// Of jobs that differ by a thousandfold the rare one must be seen too.
			strength := 0.22 + 0.78*math.Log1p(float64(c.Ticks))/math.Log1p(float64(most))
			d.put(`<rect class="ticks" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2" fill-opacity="%.2f"/>`, x, y+1, wide, cellHigh, strength)
		}
		if c.Lost > 0 {
			share := min(1, float64(c.Lost)/float64(max(1, c.Ticks)))
			h := max(lostHigh, share*cellHigh)
			d.put(`<rect class="lost" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, x, y+1+cellHigh-h, wide, h)
		}
		if c.Busy > 0 {
			d.put(`<rect class="busy" x="%.1f" y="%.1f" width="%.1f" height="2"/>`, x, y+cellHigh+2, max(1, min(1, c.Busy)*wide))
		}
		d.put(`</g>`)
	}
}

func (d *drawing) cellWords(r Row, i int) string {
	span := d.c.Until.Sub(d.c.From)
	at := d.c.From.Add(span * time.Duration(i) / time.Duration(len(r.Cells)))
	c := r.Cells[i]
	text := fmt.Sprintf("%s from %s: %d ticks", r.Job, at.UTC().Format("Jan 2 15:04"), c.Ticks)
	if c.Lost > 0 {
		text += fmt.Sprintf(", %d of them do not run in time", c.Lost)
	}
	if c.Busy > 0 {
		text += fmt.Sprintf(", at work %.0f %% of the time", 100*min(1, c.Busy))
	}
	return text
}

func (d *drawing) legend(y float64) {
	x := d.left
	for _, e := range []struct{ class, text string }{
		{"ticks", "ticks: the more, the stronger"}, {"lost", "skipped or missed, as a share of them"}, {"busy", "at work, as a share of the time"},
	} {
		high := 12
		if e.class == "busy" {
			high = 3
		}
		d.put(`<rect class="%s" x="%.1f" y="%.1f" width="16" height="%d" rx="2"/>`, e.class, x, y-float64(high), high)
		d.text(x+22, y, "quiet", e.text)
		x += 22 + float64(length(e.text))*perChar + 28
	}
}

func lockLabel(r Row) string { return short("lock " + cmp.Or(r.Lock, r.Job)) }

// short cuts a name that would push the picture aside; the tooltip has it whole.
func short(name string) string {
	runes := []rune(name)
	if len(runes) <= letters {
		return name
	}
	return string(runes[:letters-1]) + "…"
}

func length(s string) int { return len([]rune(s)) }

// clean drops what XML forbids even as an escape.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r >= 0x20 && r != 0xFFFE && r != 0xFFFF {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

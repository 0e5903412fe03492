package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rota/internal/preview"
	"rota/internal/preview/picture"
)

// pictureRows bounds the jobs that are drawn: more fit on no screen.
const pictureRows = 60

// chartOf makes a picture's data of a report: jobs that fight over a lock first, next to each other.
func chartOf(r *preview.Report) picture.Chart {
	h := &r.Heat
	c := picture.Chart{
		Title: previewTitle(r), Subtitle: previewTotals(r.Ticks),
		From: h.Start, Until: h.Start.Add(h.Step.Duration() * time.Duration(h.Cells)),
		Part: unit(h.FineStep.Duration()),
	}
	if manyDays(r) {
		c.Title += ", by the time of day"
	}
	for _, n := range h.Fine {
		c.Ticks = append(c.Ticks, int(n))
	}
	for _, p := range r.Peaks {
		if step := h.FineStep.Duration(); step > 0 && 2*p.Ticks > r.Peaks[0].Ticks { // the others stand out from nothing
			at := p.Minute.Sub(h.Start)
			if h.Folded {
				at %= 24 * time.Hour
			}
			c.Peaks = append(c.Peaks, picture.Peak{At: int(at / step), Label: fmt.Sprintf("%s %s ticks", p.Minute.UTC().Format("15:04"), grouped(p.Ticks))})
		}
	}
	rank := map[string]int{} // of its lock
	for i, l := range r.Locks {
		if l.Held > 0 || len(l.Jobs) > 1 {
			rank[l.Lock] = i
		}
	}
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs), func(j preview.JobReport) bool { return j.Due == 0 })
	place := func(j *preview.JobReport) int {
		if i, ok := rank[j.Lock]; ok {
			return i
		}
		return len(r.Locks)
	}
	slices.SortStableFunc(jobs, func(a, b preview.JobReport) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), -cmp.Compare(a.Lost(), b.Lost()), -cmp.Compare(a.Due, b.Due))
	})
	c.More = max(0, len(jobs)-pictureRows)
	for _, j := range jobs[:min(len(jobs), pictureRows)] {
		row := picture.Row{Job: j.Job, Lock: j.Lock, Note: grouped(j.Due) + " ticks"}
		switch {
		case j.Due == 1:
			row.Note = "1 tick"
		case j.Skipped > 0 && j.Missed > 0:
			row.Note = percent(j.Skipped, j.Due) + " skipped, " + percent(j.Missed, j.Due) + " missed"
		case j.Skipped > 0:
			row.Note = percent(j.Skipped, j.Due) + " skipped"
		case j.Missed > 0:
			row.Note = percent(j.Missed, j.Due) + " missed"
		}
		row.Alarm = j.Lost() > 0
		for _, cell := range j.Cells {
			row.Cells = append(row.Cells, picture.Cell{Ticks: int(cell.Ticks), Lost: int(cell.Lost), Busy: cell.Busy})
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// manyDays tells whether the time of day stands for several days.
func manyDays(r *preview.Report) bool {
	return r.Heat.Folded && r.Window.Until.Sub(r.Window.From) > 24*time.Hour
}

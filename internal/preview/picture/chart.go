package picture

import "time"

// Chart is what is drawn. The window is cut into equal parts twice: finely for the ticks of the whole
// table, coarsely for each job.
type Chart struct {
	Title    string
	Subtitle string
	From     time.Time // the window, drawn in UTC
	Until    time.Time // after From

	Ticks []int  // how many ticks each fine part has, in order; nil: no such strip
	Part  string // what a fine part is called; "": a minute
	Peaks []Peak // the parts of Ticks that are worth a label, the most crowded first

	Rows []Row // from above; jobs with the same Lock that follow each other are shown as one group
	More int   // jobs that are not among Rows
}

// Peak labels one part of Chart.Ticks.
type Peak struct {
	At    int // its index
	Label string
}

// Row is one job.
type Row struct {
	Job   string
	Lock  string // the lock's name
	Note  string // a few words on the right; "": nothing to say
	Alarm bool   // the note is of something that goes wrong
	Cells []Cell // the coarse parts of the window, as many in every row
}

// Cell is what a job does in one coarse part of the window.
type Cell struct {
	Ticks int
	Lost  int     // of those, the ones that did not run in time: skipped or missed
	Busy  float64 // the share of the time in which the job runs, 0 to 1
}

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"rota/internal/config"
	"rota/jobs"
)

// mostDurations bounds what is kept of a job: more says nothing new of how long its runs take.
const mostDurations = 10_000

// readDurations reads how long the runs of jobs take. A line is "JOB DURATION [DURATION…]", or an entry
// as `rota history --json` prints it. All that is wrong with the file is told at once.
func (a *app) readDurations(cfg *config.Config, path string) (map[string][]time.Duration, error) {
	var text io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, &exitError{code: exitUsage, text: "--durations: " + err.Error()}
		}
		defer file.Close()
		text = file
	} else {
		path = "standard input"
	}
	known := map[string]bool{}
	var names []string
	for i := range cfg.Jobs {
		known[cfg.Jobs[i].Name] = true
		names = append(names, cfg.Jobs[i].Name)
	}
	took := map[string][]time.Duration{}
	gone := map[string]bool{} // jobs of a history that are in the table no more
	var faults []string
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 4<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		var job string
		var lengths []time.Duration
		var err error
		entry := line[0] == '{'
		if entry {
			job, lengths, err = durationOfEntry(line)
		} else {
			job, lengths, err = durationsOfLine(string(line))
		}
		switch {
		case err == nil && !known[job] && entry:
			gone[job] = true
			continue
		case err == nil && !known[job]:
			err = fmt.Errorf("there is no job %q in %s", job, cfg.Path)
			if hint := didYouMean(nearest(job, names)); hint != "" {
				err = fmt.Errorf("%w; %s", err, hint)
			}
		}
		if err != nil {
			if faults = append(faults, fmt.Sprintf("%s:%d: %s", path, n, plain(err.Error()))); len(faults) == 20 {
				faults = append(faults, "and perhaps more")
				break
			}
			continue
		}
		if len(took[job]) < mostDurations {
			took[job] = append(took[job], lengths...)
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Sprintf("%s: %s", path, err))
	}
	if len(faults) > 0 {
		return nil, &exitError{code: exitUsage, text: "--durations: " + strings.Join(faults, "\n")}
	}
	if len(gone) > 0 {
		a.note("%s of the history in %s not in the table", count(len(gone), "job", "jobs"), path+verb(len(gone)))
	}
	return took, nil
}

func verb(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// durationsOfLine reads "JOB DURATION [DURATION…]".
func durationsOfLine(line string) (job string, lengths []time.Duration, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", nil, fmt.Errorf("want a job and how long its runs take, as in %q", "nightly-report 12m")
	}
	for _, field := range fields[1:] {
		d, err := config.ParseDuration(field)
		if err != nil {
			return "", nil, err
		}
		lengths = append(lengths, d)
	}
	return fields[0], lengths, nil
}

// durationOfEntry reads an entry of a history. It has no duration where nothing ended by itself.
func durationOfEntry(line []byte) (job string, lengths []time.Duration, err error) {
	var e struct {
		Job      string   `json:"job"`
		Outcome  string   `json:"outcome"`
		Duration *float64 `json:"duration_ms"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return "", nil, fmt.Errorf("no entry of a history: %w", err)
	}
	if e.Job == "" {
		return "", nil, errors.New("no entry of a history: it names no job")
	}
	job, _, _ = strings.Cut(e.Job, "@")
	switch jobs.Outcome(e.Outcome) {
	case jobs.Succeeded, jobs.Failed, jobs.TimedOut:
		if e.Duration != nil && *e.Duration >= 0 && *e.Duration < float64(365*24*time.Hour/time.Millisecond) {
			lengths = append(lengths, time.Duration(*e.Duration*float64(time.Millisecond)))
		}
	case jobs.Lost, jobs.Cancelled, jobs.Interrupted: // cut short
	}
	return job, lengths, nil
}

//go:build linux

package jobs

import (
	"fmt"
	"os"
)

// standardFiles is how many descriptors a program starts with: its input, its output, its errors.
const standardFiles = 3

// standard returns what a program is to have as its standard files: nothing, the pipe that both its
// streams go to, or the three that the Command names. The pipe is run.Output's, and the zero one if it
// gets nothing. The error is not the program's.
func (c Command) standard(run Run) (out *pipe, files []*os.File, err error) {
	switch len(c.Files) {
	case 0:
	case standardFiles:
		return &pipe{}, c.Files, nil
	default:
		return nil, nil, fmt.Errorf("%d files, want %d or none", len(c.Files), standardFiles)
	}
	if out, err = newPipe(run.Output); err != nil || out.write == nil {
		return out, nil, err
	}
	return out, []*os.File{out.write}, nil
}

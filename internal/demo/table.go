package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The two jobs. The quick one is over long before the last host has looked at the tick, which is
// where a lock that is held only while a job runs lets it run again. The slow one takes most of
// the second, so that there is always a run to kill a host in.
const (
	quickJob = "mail"
	slowJob  = "report"
	slowTime = 700 * time.Millisecond
)

// jobNames are the jobs in the order of the table, which is that of their names.
func jobNames() []string { return []string{quickJob, slowJob} }

// leaseTTL and its companions are far shorter than a fleet's, so that a takeover can be waited
// for. A lease won at one tick outlives the next two, and not the third: what the kill leaves
// behind is two skipped ticks, also when the machine is slow.
const (
	leaseTTL   = 2500 * time.Millisecond
	renewEvery = 400 * time.Millisecond
	lossGrace  = 300 * time.Millisecond
	opTimeout  = 500 * time.Millisecond
)

// The commands end with exec where they wait: a shell that is killed with its daemon does not
// take its own children along.
const tableText = `# The table of the demo; every host has the same.

[jobs.` + quickJob + `]
schedule = "@every 1s"
shell    = '''` + witnessLine + `
echo "sent under token $ROTA_FENCING_TOKEN"'''
env      = { WITNESS = %[1]s }

[jobs.` + slowJob + `]
schedule = "@every 1s"
shell    = '''` + witnessLine + `
echo "writing under token $ROTA_FENCING_TOKEN"
exec sleep %[2]g'''
env      = { WITNESS = %[1]s }
`

// witnessLine is one small write to a file that is open for appending: lines of two runs cannot
// mix (POSIX.1-2024, write).
const witnessLine = `printf '%%s %%s %%s %%s\n' "$ROTA_JOB" "$ROTA_TICK" "$ROTA_FENCING_TOKEN" "$ROTA_HOST" >>"$WITNESS"`

const hostText = `# One host of the demo.
namespace = "demo"
include   = ["table.toml"]
state_dir = %[1]s

[host]
name = %[2]s

[redis]
url        = %[3]s
op_timeout = %[4]s

[lease]
ttl         = %[5]s
renew_every = %[6]s
loss_grace  = %[7]s

[http]
listen = ""

[log]
level  = "debug" # who claimed and lost is said there
format = "json"

[history]
keep = %[8]d

[shutdown]
drain = "10s"
`

// writeConfigs writes the table and a config for each host into dir, and returns the paths of the
// configs. runs is how many runs the ledger must keep of a job: the verdict needs them all.
func writeConfigs(dir, addr string, hosts []string, witness string, runs int) ([]string, error) {
	table := fmt.Sprintf(tableText, quote(witness), slowTime.Seconds())
	if err := os.WriteFile(filepath.Join(dir, "table.toml"), []byte(table), 0o600); err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range hosts {
		text := fmt.Sprintf(hostText, quote(filepath.Join(dir, name)), quote(name), quote("redis://"+addr+"/0"),
			quote(opTimeout.String()), quote(leaseTTL.String()), quote(renewEvery.String()), quote(lossGrace.String()), runs)
		path := filepath.Join(dir, name+".toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// hostNames are web-1 and so on.
func hostNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", hostStem, i+1)
	}
	return names
}

const hostStem = "web-"

// quote makes a basic string of TOML. What needs escapes there has the same ones as in Go, but
// for control characters, and those it has as \u (TOML 1.0, String).
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

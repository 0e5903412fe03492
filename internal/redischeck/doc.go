// Package redischeck asks a Redis what would hurt a fleet later: rights that are missing, keys that
// somebody else wrote, a policy that drops locks, memory that is lost with the process, a clock that is
// off, an answer that is slow.
//
// It looks at what it is allowed to look at, as the user that the fleet will be, and says what it could
// not see. Rights are tried, by ACL DRYRUN where the user may ask so and else by commands that do nothing:
// their arguments are wrong, or their keys are new. Two have no such form; what they write under a name of
// its own is deleted at once, and would expire in a second.
//
// A fault is what keeps Rota from working, or breaks a promise of docs/guarantees.md. A warning is what
// will hurt when something else happens. A hint is what could be better. Each says what to do.
package redischeck

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Level is how bad something is.
type Level string

// The levels of a [Finding], the worst first.
const (
	Fault   Level = "fault"
	Warning Level = "warning"
	Hint    Level = "hint"
)

// Finding is one thing that was found.
type Finding struct {
	Check   string `json:"check"` // what was looked at, one word
	Level   Level  `json:"level"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"` // what to do
}

// Options say what the Redis is for.
type Options struct {
	Namespace    string
	User         string // of the ACL; "": the default user
	Cluster      bool   // the config has nodes of a Cluster
	Sentinels    bool   // the config has Sentinels
	WaitReplicas int
	OpTimeout    time.Duration // of any one call

	Jobs  []string // names of jobs whose keys are looked at, and of their locks
	Locks []string
}

// Report is what was found. Times are zero where they could not be measured.
type Report struct {
	Server  string `json:"server"`  // "redis", "valkey"; "": not told
	Version string `json:"version"` // "": not told

	Pings         int     `json:"pings"`
	P50MS         float64 `json:"p50_ms"` // of a round trip
	P99MS         float64 `json:"p99_ms"`
	ClockOffsetMS int64   `json:"clock_offset_ms"` // this host's clock minus the server's
	Replicas      int     `json:"replicas"`

	Findings []Finding `json:"findings"` // the worst first
}

// Count is how many findings of a level there are.
func (r *Report) Count(level Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// checker is one check under way, on the server that has the namespace.
type checker struct {
	opt    Options
	node   *redis.Client
	report *Report
	info   map[string]string // nil: the user may not ask
	now    func() time.Time
}

// Run checks. The error is of the connection: the server cannot be reached, or takes no login. Whatever
// else is refused is a finding. Each call takes Options.OpTimeout at most.
func Run(ctx context.Context, client redis.UniversalClient, opt Options) (*Report, error) {
	c := &checker{opt: opt, report: &Report{Findings: []Finding{}}, now: time.Now}
	if err := c.connect(ctx, client); err != nil {
		return nil, err
	}
	c.askInfo(ctx)
	if err := c.rights(ctx); err != nil {
		return nil, err
	}
	c.clock(ctx)
	c.latency(ctx)
	c.server()
	c.memory()
	c.persistence()
	c.replication()
	c.names(ctx)
	sortFindings(c.report.Findings)
	return c.report, nil
}

func (c *checker) found(level Level, check, problem, remedy string) {
	c.report.Findings = append(c.report.Findings, Finding{check, level, problem, remedy})
}

// key makes a key of the namespace.
func (c *checker) key(rest string) string { return "{" + c.opt.Namespace + "}:" + rest }

// do sends one command.
func (c *checker) do(ctx context.Context, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.OpTimeout)
	defer cancel()
	return c.node.Do(ctx, args...).Result()
}

// connect finds the one server that has all keys of the namespace.
func (c *checker) connect(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, c.opt.OpTimeout)
	defer cancel()
	switch client := client.(type) {
	case *redis.Client:
		c.node = client
	case *redis.ClusterClient:
		node, err := client.MasterForKey(ctx, c.key("hosts"))
		if err != nil {
			return err
		}
		c.node = node
	default:
		return fmt.Errorf("redischeck: a %T is no client of one server or a Cluster", client)
	}
	// Any answer will do, but for one about the login or the way here.
	err := c.node.Exists(ctx, c.key("hosts")).Err()
	if lacking(err) != lackNothing && !strings.Contains(err.Error(), "'client|setname'") && !strings.Contains(err.Error(), "'select'") {
		return nil // rights says the same, and what else is missing
	}
	return err // with those two a connection begins
}

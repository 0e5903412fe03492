package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"rota/jobs"
	"rota/scheduler"
)

// Table is what the scheduler runs: the jobs in the order of c.Jobs. Warden starts their
// commands; nil is allowed, see [jobs.Command].
//
// The variables named by host.env_pass are read here, so that a table made later sees later
// values. So is the account that this process runs as; ctx bounds how long that may take where a directory
// service knows it. The jobs share nothing with c.
func (c *Config) Table(ctx context.Context, warden *jobs.Warden) []scheduler.Job {
	var pass []string
	for _, name := range c.Host.EnvPass {
		if value, ok := os.LookupEnv(name); ok {
			pass = append(pass, name+"="+value)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, accountPatience)
	defer cancel()
	self, err := jobs.LookupAccount(ctx, "", "")
	if err != nil {
		self = nil // nobody has to have an account; the job goes without HOME and USER of one
	}

	table := make([]scheduler.Job, len(c.Jobs))
	for i, j := range c.Jobs {
		table[i] = scheduler.Job{
			Name:     j.Name,
			Schedule: j.Schedule,
			Handler: j.handler(jobs.Command{
				Args:         j.args(),
				Dir:          j.Dir,
				Base:         jobs.BaseEnv(self, j.Timezone, pass),
				EnvFile:      j.EnvFile,
				Env:          j.env(),
				User:         j.User,
				Group:        j.Group,
				Umask:        j.Umask,
				Nice:         j.Nice,
				KillGrace:    j.KillGrace,
				SuccessCodes: slices.Clone(j.SuccessCodes),
				Limits:       j.Limits,
				Warden:       warden,
			}),
			Counts:        true, // all that a config can name is a program or a request
			Disabled:      !j.Enabled,
			Definition:    j.Definition(),
			ScheduleHash:  j.ScheduleHash(),
			Scope:         j.Scope,
			Hosts:         slices.Clone(j.Hosts),
			Lock:          j.Lock,
			Timeout:       j.Timeout,
			StartDeadline: j.StartDeadline,
			Splay:         j.Splay,
			Overlap:       j.Overlap,
			MaxParallel:   j.MaxParallel,
			Misfire:       j.Misfire,
			OnCrash:       j.OnCrash,
		}
	}
	return table
}

// TableHash is a hash of all jobs, their names and definitions. Hosts with the same table have
// the same one, however the table is spread over files.
func (c *Config) TableHash() string {
	all := make([][2]string, len(c.Jobs))
	for i, j := range c.Jobs {
		all[i] = [2]string{j.Name, j.Definition()}
	}
	return hash(all)
}

// Definition is a hash of everything that decides what the job runs and when. What is the
// host's, as env_pass, is not in it: hosts may differ in that and have the same table.
//
// Values of the environment and of a request are in it and cannot be read from it.
func (j *Job) Definition() string {
	// A key that a later Rota adds must be left out while it has its default (omitzero), or
	// every definition changes with the upgrade, and hosts in a rolling one look different.
	return hash(struct {
		Specs    []string `json:"specs"`
		Zone     string   `json:"zone"`
		Disabled bool     `json:"disabled,omitzero"`

		Args []string          `json:"args"` // null for an http job
		HTTP *sent             `json:"http,omitzero"`
		Env  map[string]string `json:"env,omitempty"` // encoded by name
		Dir  string            `json:"dir"`

		Timeout       time.Duration `json:"timeout,omitzero"`
		KillGrace     time.Duration `json:"kill_grace"`
		SuccessCodes  []int         `json:"success_codes"`
		StartDeadline time.Duration `json:"start_deadline,omitzero"`
		Again         *again        `json:"again,omitzero"`

		// Of the file its name: what is in it may change from one run to the next, and differ between hosts.
		EnvFile string `json:"env_file,omitzero"`
		User    string `json:"user,omitzero"`
		Group   string `json:"group,omitzero"`
		Umask   *int   `json:"umask,omitzero"`
		Nice    *int   `json:"nice,omitzero"`

		LimitMemory int `json:"limit_memory,omitzero"`
		LimitCPU    int `json:"limit_cpu,omitzero"`
		LimitTasks  int `json:"limit_tasks,omitzero"`

		Scope   scheduler.Scope   `json:"scope"`
		Lock    string            `json:"lock,omitzero"`
		Overlap scheduler.Overlap `json:"overlap"`
		Misfire scheduler.Misfire `json:"misfire"`
		OnCrash scheduler.OnCrash `json:"on_crash"`

		Splay       time.Duration `json:"splay,omitzero"`
		MaxParallel int           `json:"max_parallel,omitzero"`
		Hosts       []string      `json:"hosts,omitempty"`
	}{
		j.Schedule.Specs(), j.Timezone, !j.Enabled,
		j.args(), j.sent(), j.Env, j.Dir,
		j.Timeout, j.KillGrace, j.SuccessCodes, j.StartDeadline, j.again(),
		j.EnvFile, j.User, j.Group, j.Umask, j.Nice,
		j.Limits.MemoryBytes, j.Limits.CPUPercent, j.Limits.Tasks,
		j.Scope, j.Lock, j.Overlap, j.Misfire, j.OnCrash,
		j.Splay, j.parallel(), j.Hosts,
	})
}

// sent is the part of a definition that is an http job's alone.
type sent struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitzero"`
	Expect  []int             `json:"expect,omitempty"`
}

func (j *Job) sent() *sent {
	r := j.Request
	if r == nil {
		return nil
	}
	return &sent{r.URL.Reveal(), r.Method, r.Headers, r.Body, r.Expect}
}

// again is the part of one that has retries: without them, the waits say nothing.
type again struct {
	Retries int           `json:"retries"`
	Backoff time.Duration `json:"retry_backoff"`
	Max     time.Duration `json:"retry_max"`
}

func (j *Job) again() *again {
	if j.Retries == 0 {
		return nil
	}
	return &again{j.Retries, j.RetryBackoff, j.RetryMax}
}

// parallel is MaxParallel where it says anything.
func (j *Job) parallel() int {
	if j.Overlap != scheduler.OverlapAllow {
		return 0
	}
	return j.MaxParallel
}

// ScheduleHash is a hash of what decides when the job is due: its specs, their zone, and
// whether it is enabled. The ledger holds no tick against a schedule that it was not of.
func (j *Job) ScheduleHash() string {
	return hash(struct {
		Specs    []string `json:"specs"`
		Zone     string   `json:"zone"`
		Disabled bool     `json:"disabled,omitzero"`
	}{j.Schedule.Specs(), j.Timezone, !j.Enabled})
}

// env is the job's own environment, by name.
func (j *Job) env() []string {
	env := make([]string, 0, len(j.Env))
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		env = append(env, name+"="+j.Env[name])
	}
	return env
}

// args is what is executed, so that a shell line and the same words as argv are one definition.
func (j *Job) args() []string {
	if j.Shell != "" {
		return jobs.Shell(j.Shell)
	}
	return slices.Clone(j.Command)
}

// hash is 64 bits of SHA-256 over v as JSON, whose encoding of structs, sorted maps and strings is
// the same on every host.
func hash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value here holds what JSON has no form for
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

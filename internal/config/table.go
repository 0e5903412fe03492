package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/user"
	"slices"
	"time"

	"rota/jobs"
	"rota/scheduler"
)

// Table is what the scheduler runs: the jobs in the order of c.Jobs. Warden starts their
// commands; nil is allowed, see [jobs.Command].
//
// The variables named by host.env_pass are read here, so that a table made later sees later
// values. The jobs share nothing with c.
func (c *Config) Table(warden *jobs.Warden) []scheduler.Job {
	var pass []string
	for _, name := range c.Host.EnvPass {
		if value, ok := os.LookupEnv(name); ok {
			pass = append(pass, name+"="+value)
		}
	}
	u, err := user.Current()
	if err != nil {
		u = nil // nobody has to have an account; the job goes without HOME and USER of one
	}

	table := make([]scheduler.Job, len(c.Jobs))
	for i, j := range c.Jobs {
		table[i] = scheduler.Job{
			Name:     j.Name,
			Schedule: j.Schedule,
			Handler: jobs.Command{
				Args:         j.args(),
				Dir:          j.Dir,
				Env:          jobs.BaseEnv(u, j.Timezone, pass, j.Env),
				KillGrace:    j.KillGrace,
				SuccessCodes: slices.Clone(j.SuccessCodes),
				Warden:       warden,
			},
			Disabled:      !j.Enabled,
			Definition:    j.Definition(),
			ScheduleHash:  j.ScheduleHash(),
			Lock:          j.Lock,
			Timeout:       j.Timeout,
			StartDeadline: j.StartDeadline,
			Overlap:       j.Overlap,
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
// Values of the environment are in it and cannot be read from it.
func (j *Job) Definition() string {
	// A key that a later Rota adds must be left out while it has its default (omitzero), or
	// every definition changes with the upgrade, and hosts in a rolling one look different.
	return hash(struct {
		Specs    []string `json:"specs"`
		Zone     string   `json:"zone"`
		Disabled bool     `json:"disabled,omitzero"`

		Args []string          `json:"args"`
		Env  map[string]string `json:"env,omitempty"` // encoded by name
		Dir  string            `json:"dir"`

		Timeout       time.Duration `json:"timeout,omitzero"`
		KillGrace     time.Duration `json:"kill_grace"`
		SuccessCodes  []int         `json:"success_codes"`
		StartDeadline time.Duration `json:"start_deadline,omitzero"`

		Scope   string            `json:"scope"`
		Lock    string            `json:"lock,omitzero"`
		Overlap scheduler.Overlap `json:"overlap"`
		Misfire scheduler.Misfire `json:"misfire"`
		OnCrash scheduler.OnCrash `json:"on_crash"`
	}{
		j.Schedule.Specs(), j.Timezone, !j.Enabled,
		j.args(), j.Env, j.Dir,
		j.Timeout, j.KillGrace, j.SuccessCodes, j.StartDeadline,
		j.Scope, j.Lock, j.Overlap, j.Misfire, j.OnCrash,
	})
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

package outcomes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// version is that of the files. Fields that a reader does not know are left aside, so a new one asks
// for a new version only if an old reader would deliver something wrong without it.
const version = 1

// maxFile bounds what is written to a file and read from one: the largest output that a config may
// ask for, 16 MiB, in base64, and a long reason.
const maxFile = 32 << 20

// outcome is what a file holds.
type outcome struct {
	namespace string
	kept      time.Time
	grant     ledger.Grant
	ending    ledger.Ending
}

// file is its JSON. Of the claim there is what [ledger.Ledger.Finish] looks at.
type file struct {
	Version   int       `json:"v"`
	Kept      time.Time `json:"kept"`
	Namespace string    `json:"namespace"`

	// Host is the one that ran it. Whoever delivers may be called otherwise.
	Job        string       `json:"job"`
	Run        string       `json:"run"`
	Tick       time.Time    `json:"tick"`
	Kind       ledger.Kind  `json:"kind"`
	Host       string       `json:"host"`
	Lock       string       `json:"lock"`
	Lease      string       `json:"lease,omitempty"`
	Token      string       `json:"ownership_token"` // a secret: it frees the lock, if the lease still lives
	Fence      int64        `json:"fencing_token"`
	Found      ledger.Found `json:"found,omitempty"`
	Won        time.Time    `json:"won"`
	Definition string       `json:"definition,omitempty"`
	TTL        int64        `json:"ttl_ms"` // of the lease; nothing is granted by it any more
	Expire     int64        `json:"expire_ms"`
	Request    string       `json:"request,omitempty"`
	Who        string       `json:"who,omitempty"`

	Outcome  string    `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	ExitCode *int      `json:"exit_code,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended"`
	Attempt  int       `json:"attempt"`
	Alive    bool      `json:"alive,omitempty"`
	CPU      int64     `json:"cpu_ns,omitempty"` // what the run used; 0: not known
	Peak     int64     `json:"peak_memory_bytes,omitempty"`
	Output   []byte    `json:"output,omitempty"` // in base64: it need not be text
}

// encode writes an outcome as JSON. A reason that is not UTF-8 becomes so; the output stays as it is.
func encode(o *outcome) ([]byte, error) {
	c, e := &o.grant.Claim, &o.ending
	data, err := json.Marshal(file{
		Version: version, Kept: o.kept.UTC(), Namespace: o.namespace,
		Job: c.Job, Run: c.Run, Tick: c.Tick.UTC(), Kind: c.Kind, Host: c.Host, Lock: c.Lock, Lease: c.Lease,
		Token: c.Token.Reveal(), Fence: o.grant.Fence, Found: o.grant.Found, Won: o.grant.Won.UTC(),
		Definition: c.Definition, TTL: c.TTL.Milliseconds(), Expire: c.Expire.Milliseconds(),
		Request: c.Request, Who: c.Who,
		Outcome: e.Outcome, Reason: e.Reason, ExitCode: e.ExitCode, Started: e.Started.UTC(), Ended: e.Ended.UTC(),
		Attempt: e.Attempt, Alive: e.Alive, CPU: e.CPU.Nanoseconds(), Peak: e.PeakMemoryBytes, Output: e.Output,
	})
	if err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("outcomes: an outcome takes more than the %d bytes that a file may have", maxFile)
	}
	return append(data, '\n'), nil
}

// errNewer says that a file is none of this version's.
var errNewer = errors.New("outcomes: written by a newer version of rota")

// decode reads what encode wrote. Whatever it accepts can be delivered: an outcome that Redis or the
// ledger would always refuse is an error here.
func decode(data []byte) (*outcome, error) {
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	switch {
	case v.Version > version:
		return nil, fmt.Errorf("%w: version %d, this one knows %d", errNewer, v.Version, version)
	case v.Version < 1:
		return nil, fmt.Errorf("outcomes: version %d, want 1 or more", v.Version)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	o := &outcome{
		namespace: f.Namespace, kept: f.Kept.UTC(),
		grant: ledger.Grant{
			Claim: ledger.Claim{
				Job: f.Job, Run: f.Run, Tick: f.Tick.UTC(), Kind: f.Kind, Host: f.Host, Lock: f.Lock, Lease: f.Lease,
				Token: locking.Token(f.Token), Definition: f.Definition, TTL: millis(f.TTL), Expire: millis(f.Expire),
				Request: f.Request, Who: f.Who,
			},
			Fence: f.Fence, Found: f.Found, Won: f.Won.UTC(),
		},
		ending: ledger.Ending{
			Outcome: f.Outcome, Reason: f.Reason, ExitCode: f.ExitCode, Started: f.Started.UTC(), Ended: f.Ended.UTC(),
			Attempt: f.Attempt, Alive: f.Alive, Output: f.Output, CPU: time.Duration(f.CPU), PeakMemoryBytes: f.Peak,
		},
	}
	return o, o.check()
}

// check refuses what cannot have been an outcome.
func (o *outcome) check() error {
	ends := []jobs.Outcome{jobs.Succeeded, jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Cancelled, jobs.Interrupted}
	e := &o.ending
	switch {
	case !slices.Contains(ends, jobs.Outcome(e.Outcome)):
		return fmt.Errorf("outcomes: outcome %q is none that a run can have", e.Outcome)
	case o.grant.Claim.Tick.IsZero() || e.Ended.IsZero():
		return errors.New("outcomes: the tick or the end of the run is missing")
	case slices.ContainsFunc([]time.Time{o.kept, o.grant.Claim.Tick, o.grant.Won, e.Started, e.Ended}, absurd):
		return errors.New("outcomes: a time is not within the years 1970 to 9999")
	case e.Attempt < 0:
		return fmt.Errorf("outcomes: attempt %d, want 0 or more", e.Attempt)
	case e.CPU < 0 || e.PeakMemoryBytes < 0:
		return fmt.Errorf("outcomes: used %v of CPU time and %d bytes, want 0 or more", e.CPU, e.PeakMemoryBytes)
	case o.grant.Fence <= 0 || o.grant.Fence >= 1<<53:
		return fmt.Errorf("outcomes: fencing token %d, want one from 1 to below 2^53", o.grant.Fence)
	}
	return o.grant.Check()
}

// absurd tells of a time that is set and that the ledger, or JSON, could not hold.
func absurd(t time.Time) bool { return !t.IsZero() && (t.Year() < 1970 || t.Year() > 9999) }

// millis is a duration of so many milliseconds; one that would not fit is none.
func millis(n int64) time.Duration {
	if n < 0 || n > int64(1<<63-1)/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

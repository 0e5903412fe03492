// Package config turns the TOML files of a host into checked values. It is the only package
// that knows TOML.
//
// [Load] reads a config and everything it includes. It is all or nothing: either every value
// is usable, or the error lists everything that is wrong in all files, each with its file,
// line and key, and nothing is returned that could be run by mistake. So a daemon that reads
// its table again keeps the old one until the new one is whole, and one bad job among fifty
// is neither left out silently nor hides the next.
//
// What is checked is what can be told from the files alone: no address is resolved, no program
// or directory of a job is looked for, Redis is not asked. Other things are read too: the passwords and
// certificates that [redis] names, and of the jobs that this host may run the accounts that they name, and
// env_file.
// A typing error there would else be found at night, by the run.
//
// # Names and places
//
// Keys are matched exactly, case included. A key that nobody knows is refused with the nearest
// one that somebody does, or with the table it belongs to: a key that follows a [header]
// belongs to that table, however it is indented. Keys whose part of Rota is not built yet are
// known and refused, unless they say what is so anyway (later.go lists them).
//
// # Writers
//
// A table is read whole or not at all: [Load] waits for whoever has one of its files open for
// writing, and begins anew if any file, link or directory was replaced while it read. What takes
// longer is refused, and said so. Two writers are not seen: one that closes the file between two
// parts of it, and, where the kernel gives this user no lease on the file (it is another user's,
// or on a file server), one that rests for half a second. A file that is written under another
// name and renamed is always whole; one table in several files, if their directory is replaced.
//
// # Secrets
//
// A password is a [Secret] from the moment it is checked, and is taken out of redis.url. No
// message shows the value of a key that can hold one, nor a line of a file, nor what a parser
// found: those are the decoder's and net/url's own messages, which this package rewords.
package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"rota/jobs"
)

// Config is a checked config. Nobody changes it once [Load] has returned it, so that several
// goroutines may read it.
type Config struct {
	Path  string   // of the main file, absolute
	Files []string // every file read, the main one first, named as in messages

	Namespace string // prefix of every key in Redis
	Timezone  string // of schedules that name none; an IANA name
	StateDir  string // absolute; where undelivered outcomes are kept

	Host     Host
	Redis    Redis
	Lease    Lease
	HTTP     HTTP
	Log      Log
	History  History
	Shutdown Shutdown

	Jobs []Job // by name, bytewise; may be empty

	// Warnings are what is allowed and probably not meant, one line each in the form of
	// [Fault.Error].
	Warnings []string
}

// Host is what sets one host of a fleet apart.
type Host struct {
	Name    string   // by the rule of job names; the machine's if the config gives none
	Labels  []string // groups the host is in
	MaxRuns int      // command and http runs at once; 0: 4 × CPUs
	EnvPass []string // names of the daemon's own variables that jobs may see
}

// Redis is how the fleet's Redis is reached.
type Redis struct {
	URL      string // redis, rediss or unix, without user and password; or "embedded". With Addrs it has no host
	Username string // "" is the default user
	Password Secret // from redis.password, redis.password_file or redis.url

	Addrs            []string // HOST:PORT of some of a Cluster's nodes, or with Master of Sentinels; empty: see URL
	Master           string   // what the Sentinels call it; "": there are none
	SentinelUsername string
	SentinelPassword Secret
	TLS              *TLS // nil: plain text

	OpTimeout    time.Duration // of any one call
	WaitReplicas int           // a claim counts once this many replicas have it
}

// Where says where that is, for people: nothing secret is in it.
func (r Redis) Where() string {
	switch {
	case r.Master != "":
		return fmt.Sprintf("master %s of the sentinels %s", r.Master, strings.Join(r.Addrs, ", "))
	case len(r.Addrs) > 0:
		return "cluster " + strings.Join(r.Addrs, ", ")
	}
	return r.URL
}

// Embedded tells that the daemon brings its own Redis: one host, for trying.
func (r Redis) Embedded() bool { return r.URL == embedded }

// Lease is how long a run is owned and how it is kept. The values fit together: see
// the rule at [Load].
type Lease struct {
	TTL          time.Duration // a lease lives this long without renewal
	RenewEvery   time.Duration
	LossGrace    time.Duration // between SIGTERM and SIGKILL when a lease is being lost
	OnRenewError string        // "retry", until the trust deadline; or "cancel", at the first error
}

// HTTP is the host's own HTTP server.
type HTTP struct {
	Listen    string // host:port, or unix: and an absolute path; "" is off
	TokenFile string // absolute; "": actions over HTTP are off. The file is not read here
}

// Log is what the daemon logs, and how.
type Log struct {
	Level  slog.Level
	Format string // "auto", "text", "json" or "journal"
}

// History is what the ledger keeps of each job.
type History struct {
	Keep        int           // runs, at least: the oldest go once there are a quarter more
	MaxAge      time.Duration // of an entry, to a day; the newest run stays
	OutputBytes int           // of one run
}

// Shutdown is how a daemon stops.
type Shutdown struct {
	Drain time.Duration // runs may take this long to finish; 0: they are ended at once
}

// DefaultPath is where the config is if nobody says otherwise.
const DefaultPath = "/etc/rota/rota.toml"

// Find is the path of the config: the -c flag's value, else $ROTA_CONFIG, else [DefaultPath].
// It does not look whether there is a file.
func Find(flag string) string {
	return cmp.Or(flag, os.Getenv("ROTA_CONFIG"), DefaultPath)
}

// Load reads the config at path and what it includes, and checks all of it.
//
// The error is a [*Faults] if anything in the files is wrong, or wraps that of the operating
// system if the file at path cannot be read at all, and then matches [io/fs.ErrNotExist] and
// its like. With an error the config is nil.
//
// Between keys it holds that lease.ttl ≥ 3 × renew_every + loss_grace + redis.op_timeout +
// 6 % of ttl + 50 ms: three renewals may fail before the lease is given up, and a run that is
// given up is dead before the lease can be granted again.
//
// What it returns is the table as it stood at one moment, see "Writers" above. It waits for
// that up to about 2 s, in the caller's goroutine, and keeps nothing.
func Load(path string) (*Config, error) { return load(path, thisHost()) }

// LoadToLook is [Load] for who runs nothing of the table here: it does not look for the accounts and files
// that runs need on this host. Whoever wants to see what goes on, or to stop it, must not be kept from
// that by one that is missing.
func LoadToLook(path string) (*Config, error) {
	env := thisHost()
	env.looking = true
	return load(path, env)
}

func thisHost() environment {
	return environment{
		hostname: os.Hostname, getenv: os.Getenv, lease: readLease,
		account: lookUp, become: (*jobs.Account).MayBecome, nice: jobs.MayNice,
	}
}

// environment is what a config depends on besides its files.
type environment struct {
	hostname func() (string, error)
	getenv   func(string) string
	lease    func(*os.File) (release func(), err error)

	account func(user, group string) (*jobs.Account, error)
	become  func(*jobs.Account) error
	nice    func(int) error
	looking bool // nothing is to run here
}

package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rota/scheduler"
)

// loader reads one config. The keys that settings lists store what they read in its fields.
type loader struct {
	env   environment
	files *files
	rep   report
	cfg   *Config
	main  *source // the main file

	include  []string
	defaults map[string]any // of jobs, as decoded
	jobs     []found
	named    map[string]place         // of the jobs, by name
	folded   map[string]place         // and by name in lower case
	gaps     map[string]time.Duration // the smallest, by schedule
	accounts map[[2]string]error      // what is wrong with a user and a group, as they are asked for

	unanswered error // by a directory service, in time

	// What is said of Redis, before it is put together.
	url, redisPassword, passwordFile, sentinelPasswordFile string
	tls                                                    tlsSaid
}

// found is the table of a job where it was found.
type found struct {
	name   string
	at     place
	values map[string]any
}

func newLoader(env environment) *loader {
	return &loader{
		env: env, files: newFiles(env.lease), cfg: new(Config),
		named: map[string]place{}, folded: map[string]place{}, gaps: map[string]time.Duration{}, accounts: map[[2]string]error{},
	}
}

// load begins anew when files were changed under its eyes: what it found then, faults included,
// may be of a table that there never was.
func load(path string, env environment) (*Config, error) {
	files := newFiles(env.lease)
	for {
		l := newLoader(env)
		l.files = files
		c, err := l.load(path)
		changed := files.changed()
		if changed == "" || files.gaveUp {
			return c, err
		}
		if !time.Now().Before(files.until) {
			return nil, fmt.Errorf("config: %w", tooLate(changed, "changing"))
		}
		files.seen = nil
		time.Sleep(poll)
	}
}

func (l *loader) load(path string) (*Config, error) {
	text, info, err := l.files.read(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return l.build(path, text, info)
}

// build is load with the main file read.
func (l *loader) build(path string, text []byte, info fs.FileInfo) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	l.cfg.Path, l.cfg.Files = abs, []string{path}

	// First every key by itself, in all files; then what holds between keys. A rule between keys is
	// silent where one of them is at fault, so that nothing is reported that follows from it.
	settings := l.settings()
	setDefaults(settings)
	l.main = parse(&l.rep, path, text)
	root := place{rep: &l.rep, src: l.main}
	read(root, "", root.src.root, settings)
	for _, file := range l.included(root, info) {
		l.includeFile(root, file, settings)
	}
	l.finishHost(root.in("host"))
	l.finishRedis(root.in("redis"), info)
	l.finishLease(root.in("lease"))
	if l.cfg.HTTP.TokenFile != "" {
		l.cfg.HTTP.TokenFile = l.credential(filepath.Dir(abs), l.cfg.HTTP.TokenFile)
	}
	l.finishJobs()

	if len(l.rep.faults) > 0 {
		return nil, &Faults{All: arrange(l.rep.faults, l.cfg.Files)}
	}
	for _, w := range arrange(l.rep.warnings, l.cfg.Files) {
		l.cfg.Warnings = append(l.cfg.Warnings, w.Error())
	}
	return l.cfg, nil
}

// includeFile reads the jobs of an included file. Nothing else may stand in one, so that what is
// true of the host can be read in one place.
func (l *loader) includeFile(root place, file string, settings []key) {
	text, _, err := l.files.read(file)
	if err != nil {
		root.in("include").fault(unreadable(file, err))
		return
	}
	l.cfg.Files = append(l.cfg.Files, file)
	at := place{rep: &l.rep, src: parse(&l.rep, file, text)}
	jobs := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(at.src.root)) {
		v := at.src.root[name]
		if name == "jobs" {
			jobs[name] = v
			continue
		}
		pr := unknown(at.in(name), v, settings)
		if slices.ContainsFunc(settings, func(k key) bool { return k.name == name }) {
			pr.hint = "it belongs in " + root.src.name
		}
		pr.text = "only [jobs.NAME] tables may stand in an included file"
		at.in(name).fault(pr)
	}
	read(at, "", jobs, settings)
}

// collect takes the table of a job. It is checked once all files are read, when its defaults
// are known.
func (l *loader) collect(at place, values map[string]any) bool {
	name := at.path[len(at.path)-1]
	if other, ok := l.named[name]; ok {
		at.faultf("is defined in %s already, on line %d", other.src.name, other.src.line(other.path))
		return false
	}
	// Two jobs to Rota and one to most people, who will pause the wrong one.
	lower := strings.ToLower(name)
	if other, ok := l.folded[lower]; ok {
		at.warn(problem{text: fmt.Sprintf("differs only in case from %s in %s, on line %d",
			other.path[len(other.path)-1], other.src.name, other.src.line(other.path))})
	}
	l.named[name], l.folded[lower] = at, at
	l.jobs = append(l.jobs, found{name, at, values})
	return true
}

// setJobDefaults checks [defaults], as if it were a job, and keeps it.
func (l *loader) setJobDefaults(at place, v any) bool {
	values, ok := v.(map[string]any)
	if !ok {
		return at.wrongType(aTable, v)
	}
	fine := true
	l.defaults = maps.Clone(values)
	for _, name := range whatAndWhen() {
		if _, ok := values[name]; !ok {
			continue
		}
		hint := "set it in each job"
		if name == "timezone" {
			hint = "timezone at the top of the file is that of all jobs that name none"
		}
		at.in(name).fault(problem{"has no default for all jobs", hint})
		delete(l.defaults, name)
		fine = false
	}
	return read(at, "jobs", l.defaults, jobKeys(new(Job))) && fine
}

// finishHost fills in the machine's name. It has to follow the rule of names as well: it is part
// of keys in Redis and of what the host is ranked by.
func (l *loader) finishHost(at place) {
	h := &l.cfg.Host
	if h.Name != "" || l.rep.blames("host.name") {
		return
	}
	name, err := l.env.hostname()
	pr := checkName(name)
	if err != nil {
		pr.text = "the machine's name is not known: " + err.Error()
	} else if pr.text != "" {
		pr.text = "the machine's name cannot be the host's: " + pr.text
	}
	if pr.text != "" {
		at.in("name").fault(problem{pr.text, `set host.name`})
	}
	h.Name = name
}

// finishLease holds the lease against the time it takes to lose one safely: [scheduler.LeastTTL]
// says what that is made of.
func (l *loader) finishLease(at place) {
	if at.src.torn || l.rep.blames("lease") || l.rep.blames("redis.op_timeout") {
		return
	}
	v := l.cfg.Lease
	least := scheduler.LeastTTL(v.RenewEvery, v.LossGrace, l.cfg.Redis.OpTimeout)
	if v.TTL >= least {
		return
	}
	ttl := short(v.TTL)
	if at.src.lineOf(at.in("ttl").path) == 0 {
		ttl += ", the default,"
	}
	// The line is of a key that the user wrote: a default has none.
	f := at.in("ttl").at(problem{text: fmt.Sprintf("%s is shorter than 3 × renew_every + loss_grace + redis.op_timeout + "+
		"6 %% of ttl + 50ms; the smallest that will do is %s", ttl, short(least))})
	for _, path := range [][]string{
		{"lease", "ttl"}, {"lease", "renew_every"}, {"lease", "loss_grace"}, {"redis", "op_timeout"},
	} {
		if f.Line = at.src.lineOf(path); f.Line > 0 {
			break
		}
	}
	l.rep.faults = append(l.rep.faults, f)
}

// credential is the path of a file with a secret. systemd puts those into a directory of their
// own (systemd.exec(5), LoadCredential=); without one, they are looked for beside the config.
func (l *loader) credential(beside, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(cmp.Or(l.env.getenv("CREDENTIALS_DIRECTORY"), beside), path)
}

// blames tells whether the key, or one below it, has a fault already, so that what follows
// from its value says nothing.
func (r *report) blames(key string) bool {
	return slices.ContainsFunc(r.faults, func(f Fault) bool {
		return f.Key == key || strings.HasPrefix(f.Key, key+".")
	})
}

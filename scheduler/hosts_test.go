package scheduler

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

func labels(l ...string) func(*Options) { return func(o *Options) { o.Labels = l } }

// Each host runs the ticks of a job of scope "host" for itself, under a job and a lock of its own name.
func TestScope_EveryHostRunsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		own := job(t, "own", "* * * * *", f.handler(time.Second))
		own.Scope, own.Lock, own.Splay = ScopeHost, "disk", 20*time.Second
		once := job(t, "once", "* * * * *", f.handler(time.Second))
		hosts := map[string]*host{}
		for _, name := range names(3) {
			hosts[name] = f.start(name, nil, own, once)
		}
		until(t, "00:05:50")
		starts := map[int]bool{}
		for _, name := range names(3) {
			f.wantSays("own@"+name, "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded", "00:04:00 succeeded", "00:05:00 succeeded")
			for _, e := range f.history("own@" + name) {
				if e.Host != name || e.Lock != "disk@"+name {
					t.Errorf("own@%s: tick %s ran on %s under the lock %s", name, e.Tick, e.Host, e.Lock)
				}
				starts[int(e.Lag()/time.Second)] = true
				if delay := (&Job{Name: "own@" + name, Splay: own.Splay}).Delay(); e.Lag() < delay || e.Lag() > delay+10*time.Millisecond {
					t.Errorf("own@%s: tick %s was won %s later, want %s: nobody else is there to wait for", name, e.Tick, e.Lag(), delay)
				}
			}
		}
		if len(starts) != 3 {
			t.Errorf("the hosts start %v s after the tick, want each at a time of its own", starts)
		}
		f.wantSays("once", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded", "00:04:00 succeeded", "00:05:00 succeeded")
		f.wantSays("own")
		// One host less: its own ticks are nobody's, and it records them when it is back.
		hosts["h1"].stop()
		<-hosts["h1"].ended
		until(t, "00:09:50")
		if n := len(f.history("own@h0")); n != 9 {
			t.Errorf("own@h0 has %d entries, want 9", n)
		}
		f.start("h1", nil, own, once)
		until(t, "00:10:55")
		f.wantSays("own@h1", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded", "00:04:00 succeeded", "00:05:00 succeeded",
			"00:06:00…00:08:00 (3) missed", "00:09:00 missed", "00:10:00 succeeded")
		// By hand it runs on the host named.
		ask := func(job string) {
			if _, err := f.led.Ask(t.Context(), ledger.Request{Job: job, Who: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		before := len(f.ran())
		ask("own@h2")
		ask("own")
		time.Sleep(3 * time.Second)
		if runs := f.ran()[before:]; len(runs) != 1 || runs[0].Host != "h2" || runs[0].Job != "own@h2" || !runs[0].Manual {
			t.Errorf("a request for own@h2, and one for own: %+v ran, want one on h2", runs)
		}
	})
}

// Only the hosts that a job names, by name or by label, run it; by hand too. Their order is among
// themselves: the first claims at once.
func TestHosts_ByNameAndLabel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		db := job(t, "db", "* * * * * *", f.handler(time.Millisecond))
		db.Hosts = []string{"db", "h0"}
		local := job(t, "local", "* * * * *", f.handler(time.Millisecond))
		local.Hosts, local.Scope = []string{"db"}, ScopeHost
		all := job(t, "all", "* * * * * *", f.handler(time.Millisecond))
		of := map[string][]string{"h0": {"web"}, "h1": {"eu", "db"}, "h2": {"db"}, "h3": {"web"}, "h4": {"dbs"}}
		for name, l := range of {
			f.start(name, labels(l...), db, all, local)
		}
		time.Sleep(5 * time.Second)
		from := time.Now()
		until(t, "00:01:05")
		ran := map[string]map[string]bool{}
		for _, r := range f.ran() {
			if ran[r.Job] == nil {
				ran[r.Job] = map[string]bool{}
			}
			ran[r.Job][r.Host] = true
		}
		if got := ran["db"]; len(got) != 3 || got["h3"] || got["h4"] {
			t.Errorf("db ran on %v, want h0, h1 and h2", got)
		}
		if len(ran["all"]) != 5 || !ran["local@h1"]["h1"] || !ran["local@h2"]["h2"] || len(ran) != 4 {
			t.Errorf("the jobs ran on %v; want all on five hosts, local on h1 and h2", ran)
		}
		lags := 0
		for _, e := range f.history("db") {
			if e.Tick.After(from) && e.Lag() > 10*time.Millisecond {
				lags++
			}
		}
		if lags > 0 {
			t.Errorf("%d ticks of db were won late, want the first of its own hosts to claim at once", lags)
		}
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "db", Who: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for _, r := range f.ran() {
			if r.Job == "db" && !slices.Contains([]string{"h0", "h1", "h2"}, r.Host) {
				t.Errorf("db ran on %s", r.Host)
			}
		}
	})
}

// No host that may run a job is there: a warning, once, when that has lasted; a line when one is
// again; and its ticks are accounted for then.
func TestHosts_NoneIsAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Millisecond))
		j.Hosts = []string{"db"}
		log := &logBuffer{}
		f.start("h0", func(o *Options) { log.into(o) }, j)
		time.Sleep(3 * time.Second) // a fleet that is started host by host
		if n := log.count("job has no host"); n != 0 {
			t.Errorf("%d warnings three seconds after the start, want none", n)
		}
		f.start("h1", labels("db"), j)
		until(t, "00:02:30")
		if n := log.count("job has no host"); n != 0 {
			t.Errorf("%d warnings while there is a host, want none", n)
		}
		if _, err := f.led.DrainHost(t.Context(), "h1", false, tester); err != nil {
			t.Fatal(err)
		}
		until(t, "00:05:00")
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test"}); err != nil {
			t.Fatal(err)
		}
		until(t, "00:05:40")
		if n := log.count(`msg="job has no host" job=j hosts=db`); n != 1 {
			t.Errorf("%d warnings after three minutes without a host, want one", n)
		}
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 succeeded") // by hand neither
		if _, err := f.led.DrainHost(t.Context(), "h1", true, tester); err != nil {
			t.Fatal(err)
		}
		until(t, "00:06:30")
		if n := log.count("job has a host again"); n != 1 {
			t.Errorf("%d lines say that there is a host again, want one", n)
		}
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00…00:04:00 (2) missed", "00:05:00 missed", "00:06:00 succeeded")
		for _, r := range f.ran() {
			if r.Host != "h1" {
				t.Errorf("tick %s ran on %s", r.Tick, r.Host)
			}
		}
	})
}

// A host that dies under a run leaves it to those that may run the job.
func TestHosts_RerunStaysAmongThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handlers(time.Hour, time.Second))
		j.OnCrash, j.Hosts = CrashRerun, []string{"db"}
		hosts := map[string]*host{}
		for _, name := range names(6) {
			l := labels("web")
			if name == "h2" || name == "h5" {
				l = labels("db")
			}
			hosts[name] = f.start(name, l, j)
		}
		until(t, "00:02:00")
		hosts[f.ran()[0].Host].dies()
		time.Sleep(12 * time.Second)
		f.wantSays("j", "00:01:00 lost", "00:01:00 succeeded rerun")
		for _, e := range f.history("j") {
			if e.Host != "h2" && e.Host != "h5" {
				t.Errorf("%s ran on %s", e.Kind, e.Host)
			}
		}
	})
}

func TestTable_OfAHost(t *testing.T) {
	h := jobs.Func(nil)
	table := []Job{
		{Name: "a", Handler: h},
		{Name: "b", Handler: h, Scope: ScopeHost},
		{Name: "c", Handler: h, Scope: ScopeHost, Lock: "disk", Hosts: []string{"eu", "db"}},
		{Name: "d", Handler: h, Hosts: []string{"web-1"}},
		{Name: "e", Handler: h, Scope: ScopeHost, Hosts: []string{"web-2"}},
	}
	tab, err := newTable(table, "t", "web-1", []string{"db"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range tab.jobs {
		j := &tab.jobs[i]
		line := j.Name + " " + j.LockName()
		if j.elsewhere {
			line += " elsewhere"
		}
		if _, at := tab.job(j.Name); at != i {
			t.Errorf("%s is at place %d, found at %d", j.Name, i, at)
		}
		got = append(got, line)
	}
	want := "a a, b@web-1 b@web-1, c@web-1 disk@web-1, d d, e e elsewhere"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("the table of web-1 is %s, want %s", s, want)
	}
	if table[1].Name != "b" {
		t.Error("the caller's table was changed")
	}
	if _, err := newTable([]Job{{Name: "a", Handler: h}, {Name: "a", Handler: h}, {Handler: h}, {Name: "b"}}, "t", "h", nil); err == nil ||
		!strings.Contains(err.Error(), `two jobs are called "a"`) || !strings.Contains(err.Error(), "job 2 has no name") || !strings.Contains(err.Error(), `"b" has no Handler`) {
		t.Errorf("newTable of a bad table = %v, want all its faults", err)
	}
}

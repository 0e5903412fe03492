package redischeck

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
	"rota/locking/fence"
)

// documented is the line of docs/deployments.md that makes a user for a fleet, word by word.
func documented(t *testing.T) (setuser, rights []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/deployments.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ACL SETUSER rota on >SECRET .*$`).FindString(string(text))
	for w := range strings.FieldsSeq(line) {
		if setuser = append(setuser, w); strings.HasPrefix(w, "+") {
			rights = append(rights, w[1:])
		}
	}
	return setuser, rights
}

func do(s *redistest.ServerProc, words ...string) {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	s.Do(args...)
}

func as(t *testing.T, s *redistest.ServerProc, user string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Username: user, Password: "SECRET", ClientName: "rota", DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func check(t *testing.T, c redis.UniversalClient, change ...func(*Options)) *Report {
	t.Helper()
	opt := Options{Namespace: "rota", OpTimeout: time.Second}
	for _, f := range change {
		f(&opt)
	}
	r, err := Run(t.Context(), c, opt)
	if err != nil {
		t.Fatalf("Run = %v, want a report", err)
	}
	return r
}

func user(name string) func(*Options) { return func(o *Options) { o.User = name } }

// said is the findings, one line each.
func said(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s → %s\n", f.Level, f.Check, f.Problem, f.Remedy)
	}
	return b.String()
}

// wants holds that there are just these findings, by the beginnings of their lines.
func wants(t *testing.T, r *Report, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(said(r), "\n"), "\n")
	if len(want) == 0 {
		want = []string{""}
	}
	ok := len(lines) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(lines[i], want[i])
	}
	if !ok || want[0] == "" && lines[0] != "" {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for _, f := range r.Findings {
		if f.Remedy == "" {
			t.Errorf("%s: no remedy", f.Problem)
		}
	}
}

func durable(t *testing.T) *redistest.ServerProc {
	t.Helper()
	return redistest.Server(t, "--appendonly", "yes")
}

// The user of the docs is enough, for the check, for locks, fences and hints; package ledger holds the
// same of the ledger. Nothing of the check stays.
func TestRun_TheDocumentedUser(t *testing.T) {
	t.Parallel()
	s := durable(t)
	setuser, given := documented(t)
	do(s, setuser...)
	var needed []string
	for _, r := range rights() {
		needed = append(needed, r.name)
	}
	needed = append(needed, "info", "subscribe", "unsubscribe")
	slices.Sort(needed)
	if slices.Sort(given); !slices.Equal(given, needed) {
		t.Errorf("docs/deployments.md allows\n%q\nand Rota needs\n%q", given, needed)
	}
	c := as(t, s, "rota")
	r := check(t, c, user("rota"))
	wants(t, r)
	if r.Server != "redis" && r.Server != "valkey" || r.Version == "" || r.Pings != pings || r.P99MS < r.P50MS || r.P50MS <= 0 {
		t.Errorf("Run = %+v, want what the server is", r)
	}
	if n := s.Do("DBSIZE"); n != int64(0) {
		t.Errorf("the check left %v keys", n)
	}

	l, err := locking.New(c, locking.Options{Prefix: "{rota}:lock:", MaxBackoff: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	lease, err := l.TryAcquire(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		next, err := l.Acquire(t.Context(), "report")
		if err == nil {
			err = next.Release(t.Context())
		}
		waited <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if err := lease.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Acquire: %v", err)
	}
	guard, err := fence.NewRedis(c, fence.RedisOptions{Prefix: "{rota}:fence:"})
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Write(t.Context(), "k", lease.FencingToken(), []byte("v")); err != nil {
		t.Errorf("Write: %v", err)
	}
}

// What the docs add to that line is enough too, and is missed.
func TestRun_WhatElseTheUserNeeds(t *testing.T) {
	t.Parallel()
	s := durable(t)
	redistest.Replica(t, s)
	setuser, _ := documented(t)
	do(s, setuser...)
	waits := func(o *Options) { o.User, o.WaitReplicas = "rota", 1 }
	wants(t, check(t, as(t, s, "rota"), waits), `fault acl: user "rota" may not run wait`)
	do(s, "ACL", "SETUSER", "rota", "+wait")
	wants(t, check(t, as(t, s, "rota"), waits))

	opt := *as(t, s, "rota").Options()
	opt.DB = 3
	other := redis.NewClient(&opt)
	t.Cleanup(func() { _ = other.Close() })
	if _, err := Run(t.Context(), other, Options{Namespace: "rota", OpTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "select") {
		t.Errorf("Run in database 3 without +select = %v, want it to be named", err)
	}
	do(s, "ACL", "SETUSER", "rota", "+select")
	wants(t, check(t, other, waits))
}

// Whatever is taken from that line is found, by name: tried as the user itself, and by DRYRUN where that
// is allowed.
func TestRun_EachThingThatIsMissing(t *testing.T) {
	t.Parallel()
	s := durable(t)
	setuser, _ := documented(t)
	for _, dry := range []bool{false, true} {
		for _, w := range setuser[5:] { // after the password
			name := strings.TrimLeft(w, "+~&")
			var without []string
			for _, keep := range setuser {
				if keep != w {
					without = append(without, keep)
				}
			}
			if without[2] = "less"; dry {
				without = append(without, "+acl|dryrun")
			}
			do(s, "ACL", "DELUSER", "less")
			do(s, without...)
			r, err := Run(t.Context(), as(t, s, "less"), Options{Namespace: "rota", User: "less", OpTimeout: time.Second})
			var out string
			switch {
			case err != nil:
				out = err.Error() // a connection cannot even be opened
			default:
				out = said(r)
			}
			found := strings.Contains(out, name)
			switch w {
			case "-@all", "resetkeys", "resetchannels": // a new user has nothing
				found = out == ""
			case "~{rota}:*":
				found = strings.Contains(out, `may not read and write {rota}:lock:NAME`) && strings.Contains(out, "ACL SETUSER less ~{rota}:*")
			case "&{rota}:*":
				found = strings.Contains(out, "no right to the channel {rota}:events") && strings.Contains(out, "ACL SETUSER less &{rota}:*")
			}
			if !found {
				t.Errorf("without %s, DRYRUN %t: found\n%s", w, dry, out)
			}
			if err == nil && strings.HasPrefix(w, "+") && !strings.Contains(out, "ACL SETUSER less +"+name) {
				t.Errorf("without %s, DRYRUN %t: the remedy is not named:\n%s", w, dry, out)
			}
		}
	}
	time.Sleep(1100 * time.Millisecond)
	if n := s.Do("DBSIZE"); n != int64(0) { // who may not delete leaves two to expire
		t.Errorf("the checks left %v keys", n)
	}
}

// R11, and what else people give too little of.
func TestRun_RightsThatAreTooSmall(t *testing.T) {
	t.Parallel()
	s := durable(t)
	for _, c := range []struct {
		name, rules string
		want        []string
	}{
		{"no scripting", "~* &* +@all -@scripting", []string{`fault acl: user "small" may not run eval, evalsha`}},
		{"other keys", "~other:* &* +@all -acl", []string{`fault acl: user "small" may not read and write {rota}:lock:NAME, {rota}:lock:NAME:fence`}},
		{"locks alone", "~{rota}:lock:* &* +@all -acl", []string{`fault acl: user "small" may not read and write {rota}:job:NAME, {rota}:job:NAME:runs`}},
		{"not the counter", "%RW~{rota}:[a-kmz]* ~{rota}:job:* ~{rota}:run:* ~{rota}:out:* ~{rota}:taken:* ~{rota}:paused ~{rota}:requests ~{rota}:open ~{rota}:epoch ~{rota}:drain ~{rota}:lock:*[^e] ~{rota}:lock:*:note &* +@all -acl", nil},
		{"keys to read", "%R~{rota}:* &* +@all -acl", []string{`fault acl: user "small" may not read and write {rota}:lock:NAME`}},
		{"eval without what it calls", "~{rota}:* &* +@all -set -hincrby -acl", []string{`fault acl: user "small" may not run set, hincrby → ACL SETUSER small +set +hincrby`}},
		{"no hints", "~{rota}:* +@all -publish -acl", []string{`warning acl: user "small" may not run publish`, `warning acl: user "small" has no right to the channel {rota}:events`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			do(s, append([]string{"ACL", "SETUSER", "small", "reset", "on", ">SECRET"}, strings.Fields(c.rules)...)...)
			r := check(t, as(t, s, "small"), user("small"))
			if c.want == nil {
				if out := said(r); !strings.Contains(out, "{rota}:lock:NAME:fence") || strings.Contains(out, "{rota}:job:NAME,") {
					t.Errorf("found:\n%s\nwant the counter, and not the records", out)
				}
				return
			}
			wants(t, r, c.want...)
		})
	}
	t.Run("an unknown user", func(t *testing.T) {
		_, err := Run(t.Context(), as(t, s, "nobody"), Options{Namespace: "rota", User: "nobody", OpTimeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("Run = %v, want WRONGPASS", err)
		}
	})
}

func TestRun_Servers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		before func(t *testing.T, s *redistest.ServerProc)
		change func(*Options)
		want   []string
	}{
		{name: "as it should be", args: []string{"--appendonly", "yes"}},
		{name: "no persistence", want: []string{"warning persistence: the append-only file is off"}},
		{
			name: "an eviction policy", args: []string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"},
			want: []string{"fault eviction: maxmemory-policy is volatile-lru: it may drop a lock that is held"},
		},
		{
			name: "an eviction policy without a limit", args: []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lfu"},
			want: []string{"warning eviction: maxmemory-policy is allkeys-lfu: it would drop locks as soon as maxmemory is set"},
		},
		{name: "full", args: []string{"--appendonly", "yes"}, before: func(t *testing.T, s *redistest.ServerProc) {
			_, rest, _ := strings.Cut(fmt.Sprint(s.Do("INFO", "memory")), "used_memory:")
			used := 0
			if _, err := fmt.Sscan(rest, &used); err != nil {
				t.Fatal(err)
			}
			s.Do("CONFIG", "SET", "maxmemory", used) // the check itself is refused its writes
		}, want: []string{"warning memory: 1"}},
		{
			name: "commands renamed away", args: []string{"--appendonly", "yes", "--rename-command", "EVAL", "", "--rename-command", "GETDEL", ""},
			want: []string{"fault commands: the server does not know eval, getdel"},
		},
		{
			name: "a replica", args: []string{"--appendonly", "yes", "--replicaof", "127.0.0.1", "1"},
			want: []string{"fault role: this server is a replica, and takes no writes"},
		},
		{
			name: "a node of a cluster", args: []string{"--appendonly", "yes", "--cluster-enabled", "yes", "--cluster-port", "0"},
			before: func(t *testing.T, s *redistest.ServerProc) {
				s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
				for range 500 {
					if s.Client().Exists(t.Context(), "x").Err() == nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			},
			want: []string{"warning role: this server is one node of a Cluster"},
		},
		{
			name: "replicas that are not there", args: []string{"--appendonly", "yes"}, change: func(o *Options) { o.WaitReplicas = 2 },
			want: []string{"fault replicas: redis.wait_replicas is 2, and 0 are connected: no claim counts"},
		},
		{
			name: "nothing to fail over to", args: []string{"--appendonly", "yes"}, change: func(o *Options) { o.Sentinels = true },
			want: []string{"hint replicas: no replica is connected"},
		},
		{
			name: "a replica that nobody waits for", args: []string{"--appendonly", "yes"},
			before: func(t *testing.T, s *redistest.ServerProc) { redistest.Replica(t, s) },
			want:   []string{"hint replicas: a failover may forget the last claims"},
		},
		{
			name: "a replica that the server waits for", args: []string{"--appendonly", "yes", "--min-replicas-to-write", "1"},
			before: func(t *testing.T, s *redistest.ServerProc) { redistest.Replica(t, s) },
		},
		{
			name: "a replica that claims wait for", args: []string{"--appendonly", "yes"},
			before: func(t *testing.T, s *redistest.ServerProc) { redistest.Replica(t, s) }, change: func(o *Options) { o.WaitReplicas = 1 },
		},
		{name: "keys of others", args: []string{"--appendonly", "yes"}, before: func(_ *testing.T, s *redistest.ServerProc) {
			s.Do("SET", "{rota}:hosts", "x")
			s.Do("RPUSH", "{rota}:job:a", "x")
			s.Do("SET", "{rota}:job:b:runs", "x")
			s.Do("RPUSH", "{rota}:lock:a", "x")
			s.Do("SET", "{rota}:lock:b", "someone")
			s.Do("SET", "{rota}:lock:c", "00ff|17|1000|me")
			s.Do("SET", "{rota}:lock:d:fence", "many")
			s.Do("SET", "{rota}:lock:e", "00ff|17|1000|me", "PX", 60000)
			s.Do("SET", "{rota}:lock:e:fence", "17")
		}, want: []string{
			"fault keys: {rota}:hosts holds another type", "fault keys: {rota}:job:a holds another type", "fault keys: {rota}:job:b:runs holds another type",
			"fault keys: {rota}:lock:a holds another type", "fault keys: {rota}:lock:b holds a value that is no lease",
			"fault keys: {rota}:lock:c is a lock without expiry", "fault keys: {rota}:lock:d:fence holds no fencing token",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Server(t, c.args...)
			if c.before != nil {
				c.before(t, s)
			}
			r := check(t, as(t, s, ""), func(o *Options) {
				o.Jobs, o.Locks = []string{"a", "b"}, []string{"a", "b", "c", "d", "e", "f"}
				if c.change != nil {
					c.change(o)
				}
			})
			wants(t, r, c.want...)
		})
	}
}

// The node that has the namespace is looked at, not any.
func TestRun_OnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, "--appendonly", "yes")
	owner, other := cluster.Owner(cluster.Slot("{rota}:hosts"))
	other.Do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	inCluster := func(o *Options) { o.Cluster = true }
	wants(t, check(t, cluster.Client(), inCluster), "hint replicas: no replica is connected")
	owner.Do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	wants(t, check(t, cluster.Client(), inCluster), "fault eviction:", "hint replicas:")
	if _, err := Run(t.Context(), as(t, other, ""), Options{Namespace: "rota", OpTimeout: time.Second}); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("Run at another node = %v, want MOVED", err)
	}
}

func TestRun_SlowOrSilent(t *testing.T) {
	t.Parallel()
	s := durable(t)
	p := redistest.Proxy(t, s.Addr())
	p.DelayReplies(2, redistest.Named("PING"), 250*time.Millisecond)
	short := func(o *Options) { o.OpTimeout = 2 * time.Second }
	r := check(t, p.Client(), short) // of the two one is tried as a right
	wants(t, r, "warning latency: a round trip takes up to ")
	if r.P99MS < 250 || r.P50MS >= r.P99MS {
		t.Errorf("p50 %f, p99 %f, want one that took 250 ms, and others less", r.P50MS, r.P99MS)
	}
	p.BlackHole()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := Run(ctx, p.Client(), Options{Namespace: "rota", OpTimeout: 100 * time.Millisecond}); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("Run at a black hole = %v after %s, want an error at once", err, time.Since(began))
	}
}

// What no server here can be made to show.
func TestChecker_VersionsAndClocks(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "8.0.1": false, "10.0.0": false, "": false} {
		c := &checker{report: &Report{Server: "redis", Version: version}, info: map[string]string{"redis_version": version}}
		c.server()
		if got := c.report.Count(Fault) == 1; got != old {
			t.Errorf("version %q is too old: %t, want %t", version, got, old)
		}
	}
	s := redistest.Server(t)
	for off, want := range map[time.Duration]string{
		0: "", 900 * time.Millisecond: "", -900 * time.Millisecond: "",
		5 * time.Second:  "warning clock: this host's clock is 5s ahead of the server's",
		-3 * time.Minute: "warning clock: this host's clock is 3m0s behind the server's",
	} {
		c := &checker{
			opt: Options{Namespace: "rota", OpTimeout: time.Second}, node: as(t, s, ""), report: &Report{},
			now: func() time.Time { return time.Now().Add(off) },
		}
		c.clock(t.Context())
		// To the second: a busy machine takes some milliseconds between the two.
		out := regexp.MustCompile(`(\d+)\.\d+s`).ReplaceAllString(said(c.report), "${1}s")
		if want == "" && out != "" || want != "" && !strings.HasPrefix(out, want[:30]) {
			t.Errorf("a clock off by %s: found %q, want %q", off, out, want)
		}
	}
}

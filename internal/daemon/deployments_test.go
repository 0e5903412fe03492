package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// eachSecond is a config of one job, with what is said of Redis.
func (r *running) eachSecond(redis string) string {
	return fmt.Sprintf(`namespace = "t"
state_dir = %q
[redis]
%s
[http]
listen = ""
[jobs.j]
schedule = "* * * * * *"
command = ["/bin/true"]
`, filepath.Join(filepath.Dir(r.path), "state"), redis)
}

// succeeded returns the runs that did, oldest first, as a command would find them.
func (r *running) succeeded() (runs []ledger.Entry) {
	r.t.Helper()
	cfg, err := config.Load(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := connect.Open(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	led, err := ledger.New(client, ledger.Options{Namespace: cfg.Namespace})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	entries, _ := led.History(ctx, ledger.Query{Jobs: []string{"j"}})
	for _, e := range slices.Backward(entries) {
		if e.Outcome == "succeeded" {
			runs = append(runs, e)
		}
	}
	return runs
}

// awaitRuns waits for runs of ticks after an instant.
func (r *running) awaitRuns(n int, after time.Time) []ledger.Entry {
	r.t.Helper()
	for deadline := time.Now().Add(25 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		runs := slices.DeleteFunc(r.succeeded(), func(e ledger.Entry) bool { return !e.Tick.After(after) })
		if len(runs) >= n {
			return runs
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d runs after %s, want %d; the log:\n%s", len(runs), after, n, r.log)
		}
	}
}

// A daemon and a command at every kind of Redis, through what happens there.
func TestRun_Deployments(t *testing.T) {
	t.Parallel()
	certs := redistest.Certificates(t)
	for _, c := range []struct {
		name  string
		start func(t *testing.T, dir string) (redis string, disturb func())
	}{
		{"a socket, an ACL user and a replica", func(t *testing.T, dir string) (string, func()) {
			socket := filepath.Join(dir, "redis.sock")
			s := redistest.Server(t, "--unixsocket", socket)
			s.Do("ACL", "SETUSER", "rota", "on", ">p@ss/w#rd", "~{t}:*", "&{t}:*", "+@all", "-@admin", "-@dangerous")
			write(t, dir, "pw", "p@ss/w#rd\n")
			redistest.Replica(t, s)
			return "url = 'unix://" + socket + "'\nusername = 'rota'\npassword_file = 'pw'\nwait_replicas = 1", nil
		}},
		{"TLS with certificates on both sides", func(t *testing.T, _ string) (string, func()) {
			_, addr := redistest.TLSServer(t, certs)
			return fmt.Sprintf("url = 'rediss://%s/3'\ntls = { ca_file = '%s', cert_file = '%s', key_file = '%s', server_name = 'redis.test' }",
				addr, certs.CA, certs.ClientCert, certs.ClientKey), nil
		}},
		{"Sentinels, and a failover", func(t *testing.T, dir string) (string, func()) {
			master := redistest.Server(t, "--requirepass", "secret", "--masterauth", "secret")
			replica := redistest.Replica(t, master, "--requirepass", "secret", "--masterauth", "secret")
			sentinel := redistest.Sentinel(t, master, "sentinel auth-pass "+redistest.MasterName+" secret")
			sentinel.AwaitReplica()
			sentinel.Do("ACL", "SETUSER", "watcher", "on", ">own", "allkeys", "allchannels", "+@all")
			write(t, dir, "pw", "secret\n")
			write(t, dir, "own", "own\n")
			return fmt.Sprintf("addrs = ['127.0.0.1:1', '%s']\nmaster = '%s'\npassword_file = 'pw'\nsentinel_username = 'watcher'\nsentinel_password_file = 'own'",
					sentinel.Addr(), redistest.MasterName), func() {
					master.Kill()
					sentinel.AwaitMaster(replica)
				}
		}},
		{"a Cluster, and a slot that moves", func(t *testing.T, _ string) (string, func()) {
			cluster := redistest.Cluster(t)
			slot := cluster.Slot("{t}:hosts")
			from, to := cluster.Owner(slot)
			return "addrs = ['" + strings.Join(cluster.Addrs(), "', '") + "']", func() {
				cluster.BeginMove(slot, from, to)
				time.Sleep(1500 * time.Millisecond) // ticks fall due meanwhile
				cluster.MoveKeys(slot, from, to)
				cluster.EndMove(slot, to)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRunning(t)
			redis, disturb := c.start(t, filepath.Dir(r.path))
			r.text(r.eachSecond(redis))
			r.start()
			before := r.awaitRuns(2, time.Time{})
			if disturb != nil {
				disturb()
			}
			runs := r.awaitRuns(2, time.Now())
			if first, last := before[0], runs[len(runs)-1]; last.Token <= first.Token {
				t.Errorf("token %d, and %d at last: want it to rise", first.Token, last.Token)
			}
			seen := map[time.Time]bool{}
			for _, e := range r.succeeded() {
				if seen[e.Tick] {
					t.Errorf("tick %s ran twice", e.Tick)
				}
				seen[e.Tick] = true
			}
			r.stop()
			if r.log.has("level=ERROR") {
				t.Errorf("the log has errors:\n%s", r.log)
			}
		})
	}
}

// Certificates are renewed more often than daemons: a reload reads them again.
func TestRun_ReloadTakesCertificates(t *testing.T) {
	t.Parallel()
	certs := redistest.Certificates(t)
	_, addr := redistest.TLSServer(t, certs, "--tls-auth-clients", "no")
	r := newRunning(t)
	dir := filepath.Dir(r.path)
	copyFile(t, certs.StrangerCA, filepath.Join(dir, "ca.pem"))
	r.text(r.eachSecond("url = 'rediss://" + addr + "'\ntls = { ca_file = 'ca.pem' }"))
	r.start()
	r.await("certificate signed by unknown authority", 1)
	copyFile(t, certs.CA, filepath.Join(dir, "ca.pem"))
	r.reload <- syscall.SIGHUP
	r.await("table reloaded", 1)
	r.awaitRuns(1, time.Time{})
	if r.log.has("reload left settings as they were") {
		t.Errorf("the log says that the certificates wait for a restart:\n%s", r.log)
	}
	r.text(r.eachSecond("url = 'rediss://" + addr + "'\ntls = { ca_file = 'ca.pem', server_name = 'elsewhere.test' }"))
	r.reload <- syscall.SIGHUP
	r.await("reload left settings as they were", 1)
	r.stop()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(to), filepath.Base(to), string(text))
}

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestLedger_Beat(t *testing.T) {
	onEach(t, func(t *rig) {
		beat := func(t *rig, h Host, after string) Fleet {
			t.Helper()
			f, err := t.led.Beat(t.ctx(), h, "id", after)
			if err != nil {
				t.Fatalf("Beat(%s) = %v, want no error", h.Name, err)
			}
			return f
		}
		names := func(hosts []Host) (out []string) {
			for _, h := range hosts {
				out = append(out, h.Name)
			}
			return out
		}
		t.fresh("hosts see each other, by name", func(t *rig) {
			if f := beat(t, Host{Name: "b", ID: "1", Labels: []string{"eu"}}, "0"); f.Before != nil || f.Epoch == "" || f.Now.IsZero() {
				t.Errorf("Beat() = %+v, want no entry before, an epoch, Redis' clock", f)
			}
			f := beat(t, Host{Name: "a", ID: "2"}, "0")
			if got := names(f.Hosts); !slices.Equal(got, []string{"a", "b"}) || f.Hosts[1].Labels[0] != "eu" || f.Hosts[1].Beat.IsZero() {
				t.Errorf("Hosts = %+v, want a, b with its label and its beat", f.Hosts)
			}
			hosts, err := t.led.Hosts(t.ctx())
			if got := names(hosts); err != nil || !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("Hosts() = %v, %v, want a, b", got, err)
			}
		})
		t.fresh("a second daemon of one name is seen by what was there before", func(t *rig) {
			beat(t, Host{Name: "a", ID: "1"}, "0")
			if f := beat(t, Host{Name: "a", ID: "2"}, "0"); f.Before == nil || f.Before.ID != "1" {
				t.Errorf("Before = %+v, want the daemon with id 1", f.Before)
			}
		})
		t.fresh("one that leaves is gone", func(t *rig) {
			beat(t, Host{Name: "a"}, "0")
			beat(t, Host{Name: "b", ID: "1"}, "0")
			if err := t.led.Leave(t.ctx(), "b", "2"); err != nil {
				t.Fatal(err)
			}
			if f := beat(t, Host{Name: "a"}, "0"); len(f.Hosts) != 2 {
				t.Errorf("Hosts = %v after another daemon named b left, want a and b", names(f.Hosts))
			}
			if err := t.led.Leave(t.ctx(), "b", "1"); err != nil {
				t.Fatal(err)
			}
			if f := beat(t, Host{Name: "a"}, "0"); len(f.Hosts) != 1 {
				t.Errorf("Hosts = %v, want a", names(f.Hosts))
			}
		})
		t.fresh("one that was not heard of for three beats is gone", func(t *rig) {
			old := t.now().Add(-HostGone - time.Second).UnixMilli()
			t.do("HSET", "{t}:hosts", "old", redisHost(old, "old"), "broken", "no host", "young", redisHost(old+2000, "young"))
			if hosts, err := t.led.Hosts(t.ctx()); err != nil || !slices.Equal(names(hosts), []string{"young"}) {
				t.Errorf("Hosts() = %v, %v, want young", names(hosts), err)
			}
			if f := beat(t, Host{Name: "a"}, "0"); !slices.Equal(names(f.Hosts), []string{"a", "young"}) {
				t.Errorf("Hosts = %v, want a, young", names(f.Hosts))
			}
			if n := t.do("HLEN", "{t}:hosts"); n != int64(2) {
				t.Errorf("HLEN hosts = %v, want 2: what is gone is deleted", n)
			}
		})
		t.fresh("drained hosts, requests, open ticks", func(t *rig) {
			t.do("HSET", "{t}:drain", "x", "1")
			one, two := t.request(false), t.request(true)
			f := beat(t, Host{Name: "a"}, "0")
			if !slices.Equal(slices.Collect(maps.Keys(f.Steering.Drained)), []string{"x"}) || !slices.Equal(f.Requests, []Request{one, two}) {
				t.Errorf("Beat() = %+v, want x drained and both requests", f)
			}
			if f = beat(t, Host{Name: "a"}, one.ID); !slices.Equal(f.Requests, []Request{two}) {
				t.Errorf("Requests after the first = %+v, want the second", f.Requests)
			}
			c := t.claim(0)
			t.win(c)
			t.abandon(c)
			if f = beat(t, Host{Name: "a"}, two.ID); len(f.Requests) != 0 || !slices.Equal(f.Open, []string{"j"}) {
				t.Errorf("Beat() = %+v, want no request and j open", f)
			}
		})
	})
}

// redisHost is a host's entry in Redis.
func redisHost(beat int64, name string) string {
	return fmt.Sprintf(`%d|{"name":%q}`, beat, name)
}

// A user without the right to publish still finishes runs: hints are only hints.
func TestLedger_WithoutPublish(tt *testing.T) {
	s := redistest.Server(tt)
	admin := s.Client()
	if err := admin.Do(tt.Context(), "ACL", "SETUSER", "rota", "on", "nopass", "~{t}:*", "+@all", "resetchannels").Err(); err != nil {
		tt.Fatal(err)
	}
	opts := *admin.Options()
	opts.Username, opts.Password = "rota", "any"
	client := redis.NewClient(&opts)
	defer func() { _ = client.Close() }()
	t := newRig(tt, client)
	g := t.win(t.claim(-1))
	t.want("held waiting", t.claim(0, overlap("queue")))
	if held := t.end(g, "succeeded"); !held {
		t.Error("Finish() = not held, want held")
	}
	t.win(t.manual())
	t.wantHistory("-1 succeeded scheduled on a", "manual running manual on a")
}

// Two namespaces on one Redis do not see each other (case L18).
func TestLedger_Namespaces(t *testing.T) {
	onEach(t, func(t *rig) {
		other := *t
		led, err := New(t.client, Options{Namespace: "other"})
		if err != nil {
			t.Fatal(err)
		}
		other.led = led
		t.win(t.claim(0))
		other.win(other.claim(0))
		for _, k := range t.keys() {
			if k[:4] != "{t}:" && k[:8] != "{other}:" {
				t.Errorf("key %s has neither namespace's prefix", k)
			}
		}
		if got := led.LeaseKey("j"); got != "{other}:lock:j" {
			t.Errorf("LeaseKey(j) = %q, want {other}:lock:j", got)
		}
	})
}

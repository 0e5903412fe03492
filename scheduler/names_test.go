package scheduler

import (
	"strings"
	"testing"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
)

// Names become keys, and parts of what is kept in them: a table and a host with bad ones are
// refused, whoever made them.
func TestNew_RefusesNames(t *testing.T) {
	_, client := redistest.InBubble(t)
	led, err := ledger.New(client, ledger.Options{Namespace: "t"})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name, lock string) Job { return Job{Name: name, Lock: lock, Handler: jobs.Func(nil)} }
	for what, c := range map[string]struct {
		host string
		job  Job
		want string // "": none
	}{
		"all good":             {"web-1.example", named("a.b_c-D", "shared"), ""},
		"no host":              {"", named("a", ""), "Host is empty"},
		"a host with a slash":  {"a/b", named("a", ""), `Host: "a/b" is no name`},
		"no name":              {"h", named("", ""), "job 0 has no name"},
		"another job's stream": {"h", named("a:runs", ""), `job 0: "a:runs" is no name`},
		"one with a host":      {"h", named("a@h", ""), `job 0: "a@h" is no name`},
		"a lock's counter":     {"h", named("a", "b:fence"), `job "a": Lock: "b:fence" is no name`},
		"a slot of its own":    {"h", named("a", "{b}"), `job "a": Lock: "{b}" is no name`},
	} {
		s, err := New(Options{Ledger: led, Host: c.host, Jobs: []Job{c.job}})
		if s != nil {
			_ = s.keeper.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New() = %v, want an error with %q", what, err, c.want)
		}
	}
}

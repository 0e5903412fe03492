package config

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"rota/jobs"
)

// A limit is told of once, with all jobs that ask for it and could run here.
func TestConfig_Lacks(t *testing.T) {
	c := mustLoad(t, `[host]
name = "web-1"
[defaults]
limits = { memory = "512MiB", tasks = 64 }
[jobs.a]
schedule = "@daily"
command = ["true"]
[jobs.b]
schedule = "@daily"
shell = "true"
limits = { cpu = "50%" }
[jobs.disabled]
schedule = "@daily"
command = ["true"]
enabled = false
[jobs.elsewhere]
schedule = "@daily"
command = ["true"]
hosts = ["web-2"]
[jobs.request]
schedule = "@daily"
http = { url = "http://127.0.0.1/" }
`)
	got := c.Lacks(func(l jobs.Limits) error {
		var lacking []error
		if l.MemoryBytes > 0 {
			lacking = append(lacking, fmt.Errorf("no memory of %d", l.MemoryBytes>>20))
		}
		if l.CPUPercent > 0 {
			lacking = append(lacking, errors.New("no cpu"))
		}
		return errors.Join(lacking...)
	})
	want := []Lack{{"no memory of 512", []string{"a", "b"}}, {"no cpu", []string{"b"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Lacks = %+v, want %+v", got, want)
	}
	if got := c.Lacks(func(jobs.Limits) error { return nil }); got != nil {
		t.Errorf("Lacks where nothing is = %+v, want none", got)
	}
}

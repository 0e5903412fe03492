package config

import (
	"testing"

	"rota/jobs"
)

func TestPercent_Values(t *testing.T) {
	for s, want := range map[string]int{"1%": 1, "50%": 50, "050%": 50, "100%": 100, "819200%": 819200} {
		var got int
		if k := percent("cpu", &got, 1, 8192*100); !k.set(place{}, s) || got != want {
			t.Errorf("percent of %q = %d, want %d", s, got, want)
		}
	}
	for _, v := range []any{"", "%", "50", "0%", "819201%", "9999999999%", "-1%", "+5%", "1.5%", "50 %", "50%%", "half", int64(50), 0.5} {
		var got int
		if k := percent("cpu", &got, 1, 8192*100); k.set(place{}, v) {
			t.Errorf("percent of %v = %d, want it refused", v, got)
		}
	}
}

// A job's own limits win over those of [defaults], one by one, and come to its command.
func TestLimits_ReachTheCommand(t *testing.T) {
	for _, c := range []struct {
		name, defaults, own string
		want                jobs.Limits
	}{
		{"none", "", "", jobs.Limits{}},
		{
			"own", "", `limits = { memory = "512MiB", cpu = "50%", tasks = 64 }`,
			jobs.Limits{MemoryBytes: 512 << 20, CPUPercent: 50, Tasks: 64},
		},
		{
			"from defaults", `limits = { memory = "1GiB", tasks = 8 }`, "",
			jobs.Limits{MemoryBytes: 1 << 30, Tasks: 8},
		},
		{
			"both", `limits = { memory = "1GiB", cpu = "200%" }`, `limits = { cpu = "10%" }`,
			jobs.Limits{MemoryBytes: 1 << 30, CPUPercent: 10},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, "[defaults]\n"+c.defaults+"\n[jobs.a]\nschedule = \"0 2 * * *\"\ncommand = [\"true\"]\n"+c.own+"\n")
			command, ok := cfg.Table(t.Context(), nil)[0].Handler.(jobs.Command)
			if !ok || command.Limits != c.want || cfg.Jobs[0].Limits != c.want {
				t.Errorf("the limits of the job and its command = %+v, %+v; want %+v", cfg.Jobs[0].Limits, command.Limits, c.want)
			}
		})
	}
}

// Each limit is part of what runs. Without any, the definition is that of releases before them
// (TestDefinition_StaysTheSameOverReleases).
func TestLimits_AreInTheDefinition(t *testing.T) {
	base := mustLoad(t, "[jobs.a]\nschedule = \"0 2 * * *\"\ncommand = [\"true\"]\n").Jobs[0]
	seen := map[string]jobs.Limits{}
	for _, l := range []jobs.Limits{{}, {MemoryBytes: 1}, {CPUPercent: 1}, {Tasks: 1}, {MemoryBytes: 1, Tasks: 1}} {
		j := base
		j.Limits = l
		if before, ok := seen[j.Definition()]; ok {
			t.Errorf("Definition with %+v is that with %+v, want another", l, before)
		}
		seen[j.Definition()] = l
		if j.ScheduleHash() != base.ScheduleHash() {
			t.Errorf("ScheduleHash changes with %+v, want it to stay", l)
		}
	}
}

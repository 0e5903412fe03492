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

// A job's own limits win over those of [defaults], one by one.
func TestLimits_ReachTheJob(t *testing.T) {
	for _, c := range []struct {
		name          string
		defaults, own map[string]any
		want          jobs.Limits
	}{
		{"none", nil, nil, jobs.Limits{}},
		{
			"own", nil,
			map[string]any{"memory": "512MiB", "cpu": "50%", "tasks": int64(64)},
			jobs.Limits{MemoryBytes: 512 << 20, CPUPercent: 50, Tasks: 64},
		},
		{
			"from defaults",
			map[string]any{"memory": "1GiB", "tasks": int64(8)},
			nil,
			jobs.Limits{MemoryBytes: 1 << 30, Tasks: 8},
		},
		{
			"both",
			map[string]any{"memory": "1GiB", "cpu": "200%"},
			map[string]any{"cpu": "10%"},
			jobs.Limits{MemoryBytes: 1 << 30, CPUPercent: 10},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j Job
			for _, k := range jobKeys(&j) {
				for _, values := range []map[string]any{c.defaults, c.own} {
					if k.name == "limits" && values != nil && !k.set(place{src: &source{}}, values) {
						t.Errorf("limits = %v is refused", values)
					}
				}
			}
			if j.Limits != c.want {
				t.Errorf("Limits = %+v, want %+v", j.Limits, c.want)
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

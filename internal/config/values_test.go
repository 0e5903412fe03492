package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseDuration_Values(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0s": 0, "1ms": time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"14d": 14 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0.1d": day / 10, "1h1d": 25 * time.Hour,
		"106751d": 106751 * day,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %s, %v, want %s", s, got, err, want)
		}
	}
}

func TestParseDuration_Refused(t *testing.T) {
	const form = ` is not a duration; write it like "90s", "5m", "1h30m" or "14d"`
	for s, want := range map[string]string{
		"":                      `""` + form,
		"30":                    `30 has no unit; write "30s"`,
		"0":                     `0 has no unit; write "0s"`,
		"1.5":                   `1.5 has no unit; write "1.5s"`,
		"+5":                    `5 has no unit; write "5s"`,
		"1e3":                   `"1e3"` + form,
		"1_000":                 `"1_000"` + form,
		"0x10":                  `"0x10"` + form,
		"inf":                   `"inf"` + form,
		"NaN":                   `"NaN"` + form,
		".":                     `"."` + form,
		"-5":                    `"-5" is negative`,
		"99999999999":           `"99999999999s" is longer than 3650d`,
		"-5s":                   `"-5s" is negative`,
		"+5s":                   `"+5s"` + form,
		"5 s":                   `"5 s"` + form,
		"s":                     `"s"` + form,
		"1w":                    `"1w"` + form,
		"1dd":                   `"1dd"` + form,
		"1..5s":                 `"1..5s"` + form,
		".d":                    `".d"` + form,
		"5s ":                   `"5s "` + form,
		"5m 5s":                 `"5m 5s"` + form,
		"five":                  `"five"` + form,
		"9999999999h":           `"9999999999h" is longer than 3650d`,
		"99999999999999999999s": `"99999999999999999999s" is longer than 3650d`,
		"106752d":               `"106752d" is longer than 3650d`,
		"2562047h2562047h":      `"2562047h2562047h" is longer than 3650d`,
	} {
		got, err := ParseDuration(s)
		if err == nil || err.Error() != want || got != 0 {
			t.Errorf("ParseDuration(%q) = %s, %v, want 0 and %s", s, got, err, want)
		}
	}
}

func TestShort_ReadsBack(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 90 * time.Minute: "1h30m", time.Hour: "1h", day: "24h", 14 * day: "14d",
		10 * time.Minute: "10m", 100 * time.Second: "1m40s", 1500 * time.Millisecond: "1.5s",
	} {
		got := short(d)
		if back, err := ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("short(%v) = %q, read back as %s, %v, want %q", d, got, back, err, want)
		}
	}
}

func TestSize_Values(t *testing.T) {
	for s, want := range map[string]int{"0B": 0, "1B": 1, "16KiB": 16 << 10, "1MiB": 1 << 20, "1GiB": 1 << 30} {
		var got int
		k := size("output", "", &got, 0, 1<<30)
		if !k.set(place{}, s) || got != want {
			t.Errorf("size of %q = %d, want %d", s, got, want)
		}
		if back := showSize(got); back != s {
			t.Errorf("showSize(%d) = %q, want %q", got, back, s)
		}
	}
	for _, s := range []string{"", "16", "16K", "16KB", "16kib", "-1B", "1.5MiB", "16 KiB", "9999999999B", "2GiB", "1TiB"} {
		var got int
		if k := size("output", "", &got, 0, 1<<30); k.set(place{}, s) {
			t.Errorf("size of %q = %d, want it refused", s, got)
		}
	}
}

func TestNearest_Suggestions(t *testing.T) {
	names := []string{"schedule", "command", "shell", "env", "env_file", "timeout", "retries", "dir", "nice"}
	for name, want := range map[string]string{
		"schedul": "schedule", "shcedule": "schedule", "Schedule": "schedule", "SCHEDULE": "schedule", "comand": "command",
		"cmd": "", "timout": "timeout", "env-file": "env_file", "evn": "env", "retry": "", "x": "", "": "", "Dir": "dir",
		"niec": "nice", "entirely_different": "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistance_CountsSlips(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "abc", 0},
		{"abc", "", 3},
		{"", "abc", 3},
		{"abc", "abd", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"abc", "acb", 1},
		{"ca", "abc", 3},
		{"kitten", "sitting", 3},
	} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestFault_OneLine(t *testing.T) {
	for want, f := range map[string]Fault{
		"rota.toml:12: jobs.a.schedule: is empty; write one": {"rota.toml", 12, "jobs.a.schedule", "is empty", "write one"},
		"rota.toml:12: jobs.a.schedule: is empty":            {"rota.toml", 12, "jobs.a.schedule", "is empty", ""},
		"rota.toml: host.name: is empty":                     {"rota.toml", 0, "host.name", "is empty", ""},
		"rota.toml:1: is UTF-16":                             {"rota.toml", 1, "", "is UTF-16", ""},
	} {
		if got := f.Error(); got != want {
			t.Errorf("%+v reads %q, want %q", f, got, want)
		}
	}
}

func TestFaults_AreErrorsEach(t *testing.T) {
	first, second := Fault{File: "a", Problem: "x"}, Fault{File: "b", Problem: "y"}
	var err error = &Faults{All: []Fault{first, second}}
	if got, ok := errors.AsType[Fault](err); !ok || got != first {
		t.Errorf("AsType[Fault] = %v, %t, want the first", got, ok)
	}
	if !errors.Is(err, second) {
		t.Errorf("Is(the second) = false, want true")
	}
	if got := strings.Split(err.Error(), "\n"); len(got) != 2 {
		t.Errorf("Error = %q, want two lines", got)
	}
}

// Every value that a message quotes is cut and escaped.
func TestShow_IsBounded(t *testing.T) {
	if got := show("\x1b[31m\n"); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("show = %q, want it escaped", got)
	}
	if got := show(strings.Repeat("x", 10_000)); len(got) > 100 {
		t.Errorf("show of 10,000 characters has %d, want it cut", len(got))
	}
}

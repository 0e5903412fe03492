package ledger

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestPause_AsReadFromRedis(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const before, after, since = "1795953600000", "1795953600001", `"from":"2026-11-29T11:00:00Z"`
	for _, tc := range []struct {
		name, from, until string
		active, ends      bool
		json              string // a part of it
	}{
		{"it ends after now", "1795950000000", after, true, true, since + `,"until":"2026-11-29T12:00:00.001Z"`},
		{"it ends now", "1795950000000", before, false, true, since + `,"until":"2026-11-29T12:00:00Z"`},
		{"it begins now", before, "1795957200000", true, true, `"from":"2026-11-29T12:00:00Z"`},
		{"it will begin", after, "1795957200000", false, true, `"until":"2026-11-29T13:00:00Z"`},
		{"it has no end", "1795950000000", "9007199254740991", true, false, since + `,"until":null`},
		{"none was written", "1795950000000", "", true, false, since + `,"until":null`},
		{"the end is no number", "1795950000000", "tomorrow", true, false, since + `,"until":null`},
		{"the end is in a year that cannot be written", "1795950000000", "253402300800000", true, false, `"until":null`},
		{"the end is in the last year that can", "1795950000000", "253402300799999", true, true, `"until":"9999-12-31T23:59:59.999Z"`},
		{"it began before all time", "-9007199254740991", "", true, false, `"from":null,"until":null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, ok := readPauseFields(tc.from, tc.until, "ada", "upgrade")
			if !ok || h.Active(noon) != tc.active || h.Ends() != tc.ends {
				t.Errorf("readPauseFields(%s, %s) = %+v, %t: active %t, ends %t; want true: %t, %t",
					tc.from, tc.until, h, ok, h.Active(noon), h.Ends(), tc.active, tc.ends)
			}
			text, err := json.Marshal(h)
			if want := `,"who":"ada","why":"upgrade"}`; err != nil || !strings.Contains(string(text), tc.json) || !strings.HasSuffix(string(text), want) {
				t.Errorf("Marshal(%+v) = %s, %v, want %s and %s", h, text, err, tc.json, want)
			}
		})
	}
	for _, from := range []string{"", "yesterday"} {
		if h, ok := readPauseFields(from, "", "", ""); ok {
			t.Errorf("readPauseFields(%q) = %+v, want none: it has no start", from, h)
		}
	}
}

// What stands there was written by whoever may write to Redis.
func TestSteering_ReadsWhatItCan(t *testing.T) {
	s := readSteering(
		map[string]string{"a": `{"who":"ada","why":"upgrade"}`, "b": `{"who":"bob"}`, "c": "1"},
		map[string]string{
			"from": "1000", "who": "ada",
			"job:x": `{"from":"1000","until":"2000","who":"bob","why":"why"}`,
			"job:y": `{"from":"soon"}`, "job:z": "no object", "else": "1",
		})
	for host, want := range map[string]By{"a": {"ada", "upgrade"}, "b": {"bob", ""}, "c": {}} {
		if by, ok := s.Drained[host]; !ok || by != want {
			t.Errorf("Drained[%s] = %v, %t, want %v", host, by, ok, want)
		}
	}
	if h := s.Paused[AllJobs]; h.Who != "ada" || h.From != time.UnixMilli(1000).UTC() || h.Ends() {
		t.Errorf("the fleet's pause is %+v, want ada's, from 1 s on, without an end", h)
	}
	if h := s.Paused["x"]; h.By != (By{"bob", "why"}) || h.Until != time.UnixMilli(2000).UTC() {
		t.Errorf("the pause of x is %+v, want bob's, until 2 s", h)
	}
	if len(s.Paused) != 2 {
		t.Errorf("Paused = %v, want the fleet's and that of x", s.Paused)
	}
}

package schedule

import (
	"errors"
	"fmt"
	goparser "go/parser"
	"go/token"
	"strings"
	"testing"
	"time"
)

const newYear = "2026-01-01T00:00Z"

// Each spec with the first ticks after 2026-01-01T00:00Z, in UTC unless it names a zone.
func TestParse_Accepts(t *testing.T) {
	for _, c := range []struct{ id, spec, want string }{
		{"P02 tab after the zone", "TZ=Europe/Rome\t0 2 * * *", "2026-01-01 01:00; 2026-01-02 01:00"},
		{"P02 zone in front", "CRON_TZ=Europe/Rome 0 2 * * *", "2026-01-01 01:00; 2026-01-02 01:00"},
		{"P02 zone before a descriptor", "TZ=Asia/Tokyo   @daily", "2026-01-01 15:00; 2026-01-02 15:00"},
		{"P08 five fields", "30 6 * * *", "2026-01-01 06:30; 2026-01-02 06:30"},
		{"P08 six fields", "0 30 6 * * *", "2026-01-01 06:30; 2026-01-02 06:30"},
		{"P10 uneven step", "*/7 * * * *", "2026-01-01 00:07,00:14,00:21,00:28,00:35,00:42,00:49,00:56,01:00,01:07"},
		{"P10 step of 45", "*/45 * * * *", "2026-01-01 00:45,01:00,01:45,02:00"},
		{"P11 start and step", "5/15 * * * *", "2026-01-01 00:05,00:20,00:35,00:50,01:05"},
		{"P12 Sunday as 7", "0 0 * * 7", "2026-01-04 00:00; 2026-01-11 00:00"},
		{"P12 Friday to Sunday", "0 0 * * 5-7", "2026-01-02 00:00; 2026-01-03 00:00; 2026-01-04 00:00; 2026-01-09 00:00"},
		{"P12 the whole week", "0 0 * * 0-7", "2026-01-02 00:00; 2026-01-03 00:00"},
		{"P12 a step that reaches 7", "0 0 * * 1-7/2", "2026-01-02 00:00; 2026-01-04 00:00; 2026-01-05 00:00"},
		{"P12 a name and 7", "0 0 * * SAT-7", "2026-01-03 00:00; 2026-01-04 00:00; 2026-01-10 00:00"},
		{"P14 a day as unit", "@every 1d", "2026-01-02 00:00; 2026-01-03 00:00"},
		{"P14 trailing space", "@daily ", "2026-01-02 00:00; 2026-01-03 00:00"},
		{"P15 names", "0 0 * feb sun", "2026-02-01 00:00; 2026-02-08 00:00"},
		{"P15 names in lists and ranges", "0 0 * Jan-FEB Mon,wed", "2026-01-05 00:00; 2026-01-07 00:00"},
		{"P15 range from Sunday", "0 0 * * SUN-TUE", "2026-01-04 00:00; 2026-01-05 00:00; 2026-01-06 00:00"},
		{"P16 question mark", "0 0 ? * 1", "2026-01-05 00:00; 2026-01-12 00:00"},
		{"P16 question mark with seconds", "0 0 12 * * ?", "2026-01-01 12:00; 2026-01-02 12:00"},
		{"P17 either day field", "0 0 13 * 5", "2026-01-02 00:00; 2026-01-09 00:00; 2026-01-13 00:00; 2026-01-16 00:00; 2026-01-23 00:00"},
		{"P17 not the first Monday", "0 9 1-7 * 1", "2026-01-01 09:00; 2026-01-02 09:00; 2026-01-03 09:00; 2026-01-04 09:00; 2026-01-05 09:00; 2026-01-06 09:00; 2026-01-07 09:00; 2026-01-12 09:00; 2026-01-19 09:00"},
		{"P17 the first Monday", "0 9 */31,1-7 * 1", "2026-01-05 09:00; 2026-02-02 09:00; 2026-03-02 09:00; 2026-04-06 09:00"},
		{"P19 the first Sunday", "0 0 1-7 * */7", "2026-01-04 00:00; 2026-02-01 00:00; 2026-03-01 00:00; 2026-04-05 00:00; 2026-05-03 00:00; 2026-06-07 00:00"},
		{"P19 both, by the other star", "0 0 */2 * 1", "2026-01-05 00:00; 2026-01-19 00:00; 2026-02-09 00:00"},
		{"P20 leading zeros", "05 03 * * *", "2026-01-01 03:05; 2026-01-02 03:05"},
		{"P20 no octal", "08 09 * * *", "2026-01-01 09:08"},
		{"P20 blanks", "  0   5  *   *  * ", "2026-01-01 05:00; 2026-01-02 05:00"},
		{"P22 end of the month", "0 0 31 * *", "2026-01-31 00:00; 2026-03-31 00:00; 2026-05-31 00:00; 2026-07-31 00:00; 2026-08-31 00:00; 2026-10-31 00:00; 2026-12-31 00:00"},
		{"every, from the epoch", "@every 7h", "2026-01-01 07:00,14:00,21:00; 2026-01-02 04:00"},
		{"every, in seconds", "@every 1000ms", "2026-01-01 00:00:01,00:00:02"},
		{"every, as long as may be", "@every 2014800h", "2199-11-06 00:00"},
		{"yearly", "@yearly", "2027-01-01 00:00; 2028-01-01 00:00"},
		{"annually", "@annually", "2027-01-01 00:00"},
		{"monthly", "@monthly", "2026-02-01 00:00; 2026-03-01 00:00"},
		{"weekly", "@weekly", "2026-01-04 00:00; 2026-01-11 00:00"},
		{"midnight", "@midnight", "2026-01-02 00:00"},
		{"hourly", "@hourly", "2026-01-01 01:00,02:00"},
		{"leap day", "0 0 29 2 *", "2028-02-29 00:00; 2032-02-29 00:00"},
		{"leap day on a Sunday", "0 0 29 2 */7", "2032-02-29 00:00; 2060-02-29 00:00; 2088-02-29 00:00; 2128-02-29 00:00"},
		{"a step as large as the field", "*/60 */24 */31 */12 *", "2027-01-01 00:00"},
		{"a date that some months lack, or a weekday", "0 0 31 2 1", "2026-02-02 00:00; 2026-02-09 00:00"},
	} {
		t.Run(c.id, func(t *testing.T) {
			s := mustParse(t, "UTC", c.spec)
			after := minute(t, newYear)
			var got []time.Time
			for tick := range s.All(after) {
				if got = append(got, tick); len(written(got)) >= len(c.want) {
					break
				}
			}
			if written(got) != c.want {
				t.Errorf("%q after %s:\n got %s\nwant %s", c.spec, newYear, written(got), c.want)
			}
		})
	}
}

// Each spec with parts of the error that a reader needs.
func TestParse_Refuses(t *testing.T) {
	for _, c := range []struct {
		id, spec string
		want     []string
	}{
		{"P01 zone alone", "TZ=0", []string{"a zone and no schedule"}},
		{"P01 UTC alone", "TZ=UTC", []string{"a zone and no schedule"}},
		{"P01 long prefix", "CRON_TZ=America/New_York", []string{"a zone and no schedule"}},
		{"P01 empty", "TZ=", []string{"a zone and no schedule"}},
		{"P01 nested", "TZ=TZ=TZ=", []string{"a zone and no schedule"}},
		{"P01 trailing blank", "TZ=UTC \t", []string{"a zone and no schedule"}},
		{"S45 empty zone", "TZ= 0 2 * * *", []string{"timezone", "empty"}},
		{"S45 zone of the host", "TZ=Local 0 2 * * *", []string{"timezone", "hosts of a fleet may differ"}},
		{"P03 30 February", "0 0 30 2 *", []string{"never fires", "30"}},
		{"P03 31 April", "0 0 31 4 *", []string{"never fires"}},
		{"P03 31 in short months", "0 0 31 2,4,6,9,11 *", []string{"never fires"}},
		{"P03 with a starred weekday", "0 0 30 2 */2", []string{"never fires"}},
		{"always skipped", "TZ=America/New_York */10 2 8-14 3 */7", []string{"never fires", "America/New_York skip"}},
		{"P08 a year", "0 12 1 1 * 2027", []string{"day of week", "2027", "no year field", "seconds"}},
		{"P08 seven fields", "0 0 12 1 1 * 2027", []string{"7 fields", "no year field"}},
		{"four fields", "0 2 * *", []string{"4 fields", "5 are needed"}},
		{"one field", "hourly", []string{"1 field;"}},
		{"nothing", "", []string{"empty"}},
		{"blanks", " \t ", []string{"empty"}},
		{"P12 above 7", "0 0 * * 8", []string{"day of week", "8 is above 7"}},
		{"P12 from 7 on", "0 0 * * 7/2", []string{"day of week", "0/2"}},
		{"P14 no unit", "@every 5", []string{"unit is missing", "5m"}},
		{"P14 no blank", "@every5m", []string{"one blank"}},
		{"P14 two blanks", "@every  5m", []string{"one blank"}},
		{"P14 capital", "@Daily", []string{"@Daily is unknown", "write @daily"}},
		{"P14 capital every", "@Every 5m", []string{"write @every"}},
		{"P14 reboot", "@reboot", []string{"not supported in a fleet"}},
		{"P14 unknown", "@fortnightly", []string{"unknown", "@weekly"}},
		{"P14 text after it", "@daily 5", []string{"nothing may follow @daily"}},
		{"every, too short", "@every 500ms", []string{"below", "1s"}},
		{"every, nothing", "@every 0", []string{"unit is missing"}},
		{"every, zero", "@every 0s", []string{"below", "1s"}},
		{"every, negative", "@every -5m", []string{"sign"}},
		{"every, split second", "@every 1500ms", []string{"whole number of seconds"}},
		{"every, no number", "@every d", []string{"no duration"}},
		{"P15 long name", "0 0 * * Sunday", []string{"day of week", "write SUN"}},
		{"P15 Friday to Monday", "0 0 * * FRI-MON", []string{"day of week", "5-6,0-1"}},
		{"P15 Monday to Sunday", "0 0 * * MON-SUN", []string{"day of week", "1-7"}},
		{"P15 over midnight", "0 22-2 * * *", []string{"hour", "22-23,0-2"}},
		{"P15 name in the wrong field", "0 0 mon * *", []string{"day of month", "mon"}},
		{"P16 L", "0 0 L * *", []string{"day of month", "L (the last)"}},
		{"P16 last Friday", "0 0 * * 5L", []string{"day of week", "L (the last)"}},
		{"P16 before the last", "0 0 L-3 * *", []string{"day of month", "L (the last)"}},
		{"P16 W", "0 0 15W * *", []string{"day of month", "W (the nearest weekday)"}},
		{"P16 nth", "0 0 * * 5#3", []string{"day of week", "#"}},
		{"P16 hash", "H * * * *", []string{"minute", "H (a hash"}},
		{"P16 hash in a range", "H(0-29)/10 * * * *", []string{"minute", "H (a hash"}},
		{"random", "0~59 * * * *", []string{"minute", "random"}},
		{"P21 overflow", "@every 2562047h", []string{"absurdly long", "2200"}},
		{"P21 a little too long", "@every 2014801h", []string{"absurdly long"}},
		{"P21 more than 64 bits", "@every 999999999999d", []string{"@every"}},
		{"P21 a sum above 64 bits", "@every 106000d2000d", []string{"292 years"}},
		{"an environment line", "PATH=/bin", []string{"PATH= is no part of a spec"}},
		{"zone in small letters", "tz=UTC 0 2 * * *", []string{"in capitals"}},
		{"a command after the fields", "0 2 * * * /bin/backup", []string{"day of week", "/bin/backup"}},
		{"step of zero", "*/0 * * * *", []string{"minute", "step 0"}},
		{"step above its field", "*/90 * * * *", []string{"minute", "step 90", "60 values", "@every 90m"}},
		{"step above the week", "0 0 * * */8", []string{"day of week", "step 8", "7 values"}},
		{"below the first", "0 0 0 * *", []string{"day of month", "0 is below 1"}},
		{"above the last", "60 24 32 13 *", []string{"minute: 60 is above 59", "hour: 24 is above 23", "day of month: 32 is above 31", "month: 13 is above 12"}},
		{"a sign", "+5 * * * *", []string{"minute", "+5"}},
		{"a huge number", "99999999999999999999 * * * *", []string{"minute", "is above 59"}},
		{"a star with a range", "*-5 * * * *", []string{"minute", "*"}},
		{"no numbers in a range", "- * * * *", []string{"minute", "a number is missing"}},
		{"two ranges", "1-2-3 * * * *", []string{"minute", "2-3"}},
		{"two steps", "*/2/3 * * * *", []string{"minute", "2/3"}},
		{"no step", "*/ * * * *", []string{"minute", "step"}},
		{"empty items", "1,,2 * * * *", []string{"minute", "empty item"}},
		{"a trailing comma", "1, * * * *", []string{"minute", "empty item"}},
		{"two lines", "0 2 * * *\n", []string{`'\n'`}},
		{"a space that is none", "0 2 * *\u00a0*", []string{`'\u00a0'`}},
		{"very long", strings.Repeat("1,", 600) + "1 * * * *", []string{"above the limit of 512"}},
	} {
		t.Run(c.id, func(t *testing.T) {
			s, err := Parse("UTC", c.spec)
			if err == nil {
				t.Fatalf("Parse(%q): got %v, want an error", c.spec, s)
			}
			for _, part := range append(c.want, "") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Parse(%q): got %q, want it to contain %q", c.spec, err, part)
				}
			}
			if strings.Contains(c.id, "P03") != errors.Is(err, ErrNeverFires) && c.id != "always skipped" {
				t.Errorf("Parse(%q): errors.Is(%q, ErrNeverFires) is %v", c.spec, err, errors.Is(err, ErrNeverFires))
			}
		})
	}
}

func TestParse_Zones(t *testing.T) {
	refused := map[string]string{
		"":                        "empty",
		"Local":                   "hosts of a fleet may differ",
		"localtime":               "hosts of a fleet may differ",
		"america/new_york":        `did you mean "America/New_York"?`,
		"EUROPE/BERLIN":           `did you mean "Europe/Berlin"?`,
		"utc":                     `did you mean "UTC"?`,
		"+05:30":                  "offset",
		"-3":                      "offset",
		"../../etc/passwd":        "no zone",
		"Europe/../Europe/Rome":   "no zone",
		"Europe//Rome":            "no zone",
		"/usr/share/zoneinfo/UTC": "no zone",
		"Nowhere/City":            "not in the zone database",
		"right/UTC":               "no zone",
		"Europe":                  "not in the zone database",
		"Europe/Rome ":            "no zone",
		"Europe/Rome\x00":         "no zone",
		"\u0415urope/Rome":        "no zone",
		strings.Repeat("A/", 5):   "no zone",
	}
	for zone, want := range refused {
		s, err := Parse(zone, "0 2 * * *")
		if err == nil {
			t.Errorf("Parse(%q): got %v, want an error", zone, s)
			continue
		}
		e, ok := errors.AsType[*SyntaxError](err)
		if !ok || e.Index != -1 || e.Field != "timezone" || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): got %#v, want a *SyntaxError of the timezone that contains %q", zone, err, want)
		}
	}
	for _, zone := range []string{"UTC", "Etc/UTC", "Etc/GMT+5", "EST", "EST5EDT", "America/Port-au-Prince", "America/Argentina/Buenos_Aires", "GMT0"} {
		mustParse(t, zone, "0 2 * * *")
	}
}

// S44: a host without a zone database has the one compiled in.
func TestParse_ZoneDatabaseIsCompiledIn(t *testing.T) {
	file, err := goparser.ParseFile(token.NewFileSet(), "zone.go", nil, goparser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		if spec.Path.Value == `"time/tzdata"` {
			return
		}
	}
	t.Error("zone.go does not import time/tzdata")
}

func TestParse_ReportsAllFaults(t *testing.T) {
	_, err := Parse("Nowhere/City", "61 2 * * Sunday", "TZ=Local 0 25 * * *", "0 2 * * *", "@reboot")
	type several interface {
		error
		Unwrap() []error
	}
	joined, ok := errors.AsType[several](err)
	if !ok {
		t.Fatalf("Parse: got %T, want joined errors", err)
	}
	var got []string
	for _, e := range joined.Unwrap() {
		fault, ok := errors.AsType[*SyntaxError](e)
		if !ok {
			t.Fatalf("Parse: got %T inside, want a *SyntaxError", e)
		}
		got = append(got, fmt.Sprint(fault.Index, " ", fault.Field))
	}
	want := "-1 timezone|0 minute|0 day of week|1 timezone|1 hour|3 "
	if strings.Join(got, "|") != want {
		t.Errorf("Parse: got faults %s, want %s", strings.Join(got, "|"), want)
	}
}

func TestParse_NumberOfSpecs(t *testing.T) {
	if _, err := Parse("UTC"); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("Parse without specs: got %v, want an error", err)
	}
	if _, err := Parse("UTC", make([]string, 101)...); err == nil || !strings.Contains(err.Error(), "limit of 100") {
		t.Errorf("Parse of 101 specs: got %v, want an error", err)
	}
}

func TestSchedule_Accessors(t *testing.T) {
	s := mustParse(t, "Europe/Berlin", "  0  2 * *\t1", "CRON_TZ=Asia/Tokyo\t@daily", "@every 90s")
	if got, want := fmt.Sprintf("%q", s.Specs()), `["0 2 * * 1" "CRON_TZ=Asia/Tokyo @daily" "@every 90s"]`; got != want {
		t.Errorf("Specs: got %s, want %s", got, want)
	}
	if got := s.Zone(); got != "Europe/Berlin" {
		t.Errorf("Zone: got %q", got)
	}
	if got := s.Location().String(); got != "Europe/Berlin" {
		t.Errorf("Location: got %q", got)
	}
	if got, want := s.String(), "0 2 * * 1; CRON_TZ=Asia/Tokyo @daily; @every 90s (Europe/Berlin)"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
	s.Specs()[0] = "changed"
	if s.Specs()[0] == "changed" {
		t.Error("Specs: the caller's change shows in the schedule")
	}
}

func TestSchedule_NilHasNoTicks(t *testing.T) {
	var s *Schedule
	now := minute(t, newYear)
	if tick, ok := s.Next(now); ok {
		t.Errorf("Next: got %s", tick)
	}
	if tick, ok := s.Prev(now); ok {
		t.Errorf("Prev: got %s", tick)
	}
	for tick := range s.All(now) {
		t.Fatalf("All: got %s", tick)
	}
	if n, _, _ := s.Count(now, now.Add(time.Hour), 10); n != 0 {
		t.Errorf("Count: got %d", n)
	}
	if s.MinGap() != 0 || s.Location() != time.UTC || s.Zone() != "" || s.Specs() != nil || s.Warnings() != nil {
		t.Error("an accessor of a nil schedule returned something")
	}
}

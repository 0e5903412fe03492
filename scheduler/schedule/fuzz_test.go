package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// FuzzParse: nothing panics, every refusal is a SyntaxError, and what is accepted walks.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		"30 2 * * *", "0 30 6 * * *", "*/7 1-5 1,15 jan-mar MON", "0 0 * * 5-7", "0 0 29 2 1", "0 0 1-7 * */7",
		"@every 1d12h", "@hourly", "CRON_TZ=Europe/Rome 0 2 * * *", "TZ=\t0", "TZ=TZ=TZ=", "0 0 30 2 *",
		"*/10 2 8-14 3 */7", "0 0 L * *", "0 0 15W * *", "H(0-29)/10 * * * *", "0 12 1 1 * 2027", "*-5,,/ * * * *",
		"@every 999999999999d", "?/2 ? ? ? ?", "-1 +2 0x3 4.5 \u00a0", "99999999999999999999 * * * *",
	} {
		f.Add("America/New_York", spec, int64(1793509200))
		f.Add("Africa/Casablanca", spec, int64(-5e9))
	}
	f.Add("../../etc/passwd", "0 2 * * *", int64(0))
	f.Add("Local", "@daily", maxTick)
	f.Fuzz(func(t *testing.T, zone, spec string, seconds int64) {
		s, err := Parse(zone, spec)
		if err != nil {
			if _, ok := errors.AsType[*SyntaxError](err); !ok || err.Error() == "" ||
				strings.Contains(err.Error(), "%!") && !strings.Contains(zone+spec, "%") {
				t.Fatalf("Parse(%q, %q): %v", zone, spec, err)
			}
			return
		}
		again, err := Parse(s.Zone(), s.Specs()...)
		if err != nil || again.String() != s.String() {
			t.Fatalf("Parse(%q, %q) = %s, and of its own Specs: %v, %v", zone, spec, s, again, err)
		}
		at := time.Unix(max(-1<<60, min(seconds, 1<<60)), 0)
		checkWalk(t, s, at)
		if s.MinGap() < time.Second {
			t.Fatalf("%s: MinGap is %s", s, s.MinGap())
		}
		s.Warnings()
	})
}

// FuzzNextPrev builds a valid spec of any shape, so that all time is spent on the walk.
func FuzzNextPrev(f *testing.F) {
	f.Add(uint8(1), uint64(1<<30), uint64(1<<2), uint64(0), uint64(0), uint8(0), int64(1772953200))
	f.Add(uint8(3), uint64(1<<45), uint64(1<<1), uint64(0), uint64(0), uint8(1), int64(1775314800))
	f.Add(uint8(5), uint64(0), uint64(3), uint64(1<<29), uint64(1<<2), uint8(2), int64(4107542400))
	f.Add(uint8(8), uint64(1), uint64(1<<5), uint64(0), uint64(1<<6), uint8(3), int64(1325235600))
	f.Fuzz(func(t *testing.T, zone uint8, minutes, hours, days, months uint64, flags uint8, seconds int64) {
		list := func(set uint64, low, high int) string {
			var b strings.Builder
			for n := low; n <= high; n++ {
				if set>>n&1 != 0 {
					if b.Len() > 0 {
						b.WriteByte(',')
					}
					b.WriteString(decimal(n))
				}
			}
			if b.Len() == 0 {
				return "*"
			}
			return b.String()
		}
		weekday := "*"
		if flags&4 != 0 {
			weekday = list(uint64(flags>>3), 0, 4)
		}
		fields := []string{list(minutes, 0, 59), list(hours, 0, 23), list(days, 1, 31), list(months, 1, 12), weekday}
		if flags&1 != 0 {
			fields = append([]string{list(minutes>>1^hours<<24, 0, 59)}, fields...)
		}
		if flags&2 != 0 {
			fields[len(fields)-3] = "*/3"
		}
		s, err := Parse(someZones[int(zone)%len(someZones)], strings.Join(fields, " "))
		if errors.Is(err, ErrNeverFires) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkWalk(t, s, time.Unix(max(2*minTick, min(seconds, 2*maxTick)), 0))
	})
}

func decimal(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return string(rune('0'+n/10)) + string(rune('0'+n%10))
}

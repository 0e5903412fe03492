package schedule

import (
	"testing"
	"time"
)

// TestZoneTable_CoversTimeWithoutHoles walks each zone from period to period through 700 years, and
// asks the time package inside each and on both sides of its ends.
func TestZoneTable_CoversTimeWithoutHoles(t *testing.T) {
	begin := time.Date(1800, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2500, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, name := range someZones {
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		z := newZoneTable(location)
		offset := func(x int64) int64 {
			_, offset := time.Unix(x, 0).In(location).Zone()
			return int64(offset)
		}
		for i, p := range z.known[1:] {
			if q := z.known[i]; q.end != p.start || q.offset == p.offset {
				t.Errorf("%s: known periods %+v and %+v are not two that follow each other", name, q, p)
			}
		}
		changed := begin - 365*secondsPerDay
		for x := begin; x < until; {
			p := z.at(x)
			if p.start > x || p.end <= x {
				t.Fatalf("%s: at(%d) = %+v, which does not hold it", name, x, p)
			}
			for _, inside := range []int64{x, x + (min(p.end, until)-x)/3, min(p.end, until) - 1} {
				if q := z.at(inside); p.offset != offset(inside) || q.start != p.start || q.offset != p.offset {
					t.Fatalf("%s: %+v, but at(%d) = %+v, offset %d", name, p, inside, q, offset(inside))
				}
			}
			if p.offset > maxOffset || p.offset < -maxOffset {
				t.Errorf("%s: offset %d is beyond the %d that the walk allows for", name, p.offset, maxOffset)
			}
			if p.start == x && x > begin && p.start > beginning {
				before := offset(x - 1)
				if before == p.offset {
					t.Errorf("%s: %+v begins without a change", name, p)
				}
				shift := p.offset - before
				if want := x + before; shift >= -maxShift && shift <= maxShift && p.reached != want {
					t.Errorf("%s: %+v: reached is %d, want %d", name, p, p.reached, want)
				}
				// What has been reached is kept from one change to the next only.
				if x-changed < secondsPerDay {
					t.Errorf("%s: %+v begins %d s after the last change", name, p, x-changed)
				}
				changed = x
			}
			x = p.end
		}
	}
}

// The walk must also hold in the hours in which ZoneBounds is wrong, see bounds.
func TestZoneTable_LastDayOfLeapYear(t *testing.T) {
	for _, year := range []int{2040, 2052, 2096, 2400} {
		from := time.Date(year, time.December, 30, 0, 0, 0, 0, time.UTC)
		n, _, _ := mustParse(t, "America/New_York", "0 * * * *").Count(from, from.Add(72*time.Hour), 1000)
		if n != 72 {
			t.Errorf("hours in the three days from %s: got %d, want 72", from.Format(time.DateOnly), n)
		}
	}
}

// neverFires starts in 2100, so zones must repeat from there on.
func TestZoneTable_RepeatsAfter400Years(t *testing.T) {
	for _, name := range someZones {
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for day := range 365 * 8 {
			at := time.Date(2096, time.January, 1+day, 12, 0, 0, 0, time.UTC)
			_, now := at.In(location).Zone()
			_, later := at.AddDate(400, 0, 0).In(location).Zone()
			if now != later {
				t.Fatalf("%s: offset is %d on %s and %d 400 years later", name, now, at, later)
			}
		}
	}
}

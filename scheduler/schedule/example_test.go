package schedule_test

import (
	"fmt"
	"time"

	"rota/scheduler/schedule"
)

// Midnight in Chicago is 05:00 UTC in summer and 06:00 in winter. No wrapper has to look at the clock.
func ExampleSchedule_Next() {
	s, err := schedule.Parse("America/Chicago", "0 0 * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, month := range []time.Month{time.July, time.December} {
		tick, _ := s.Next(time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC))
		fmt.Println(tick.Format(time.RFC3339))
	}
	// Output:
	// 2026-07-01T05:00:00Z
	// 2026-12-01T06:00:00Z
}

// On 8 March 2026 clocks in New York went from 02:00 to 03:00. The time that did not exist has
// its tick right after the gap.
func ExampleSchedule_All() {
	s, err := schedule.Parse("America/New_York", "30 2 * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	for tick := range s.All(time.Date(2026, time.March, 7, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(tick.Format(time.RFC3339), tick.In(s.Location()).Format("15:04"))
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// 2026-03-07T07:30:00Z 02:30
	// 2026-03-08T07:00:00Z 03:00
	// 2026-03-09T06:30:00Z 02:30
}

// All faults come at once.
func ExampleParse() {
	_, err := schedule.Parse("Europe/Berlin", "0 22-2 * * FRI-MON", "0 0 30 2 *", "@reboot")
	fmt.Println(err)
	// Output:
	// "0 22-2 * * FRI-MON": hour: 22-2 begins after it ends; write 22-23,0-2
	// "0 22-2 * * FRI-MON": day of week: FRI-MON begins after it ends; write 5-6,0-1
	// "0 0 30 2 *": never fires: no month 2 has a day 30
	// "@reboot": @reboot is not supported in a fleet: every host starts at another time, and no tick can be agreed on; start the command from a systemd unit instead
}

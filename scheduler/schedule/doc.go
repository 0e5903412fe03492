// Package schedule turns crontab specs into ticks: instants in UTC, at whole seconds, the same on
// every host that has the same spec and the same zone database.
//
// The package is pure. It reads no clock, keeps no state, starts no goroutine and knows neither
// jobs nor Redis; [Schedule.Next] and [Schedule.Prev] are functions of their argument. A Schedule
// does not change after [Parse] and may be used by any number of goroutines.
//
// # Specs
//
// Five fields (minute, hour, day of month, month, day of week), or six with seconds in front;
// @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly; or "@every D". A spec may
// name its own zone in front, as "CRON_TZ=Europe/Rome 0 2 * * *" or with TZ=. Several specs are
// one schedule: the union of their ticks, each instant once.
//
//   - An item is *, N, N-M, or one of these with /STEP; a field is a list of items. "?" is "*".
//     N/STEP means N to the end of the field: minute 5/15 is 5, 20, 35, 50.
//   - Months and weekdays have three-letter names, in any case. 7 is Sunday, also in 5-7.
//   - When both day fields are restricted, a day needs to match only one of them. When either
//     starts with * (also as */2), it must match both (crontab(5)).
//   - "@every D" ticks at the multiples of D since 1970-01-01T00:00:00Z, so that a restart
//     moves nothing. D is a Go duration, with d for 24 hours, in whole seconds.
//
// What cron dialects read differently is refused, not guessed: the tokens L, W, # and H, a year
// field, ranges that wrap round, steps larger than their field, dates that never come, @reboot.
// [Schedule.Warnings] names what is valid and often misread.
//
// # Clock changes
//
// The rules are those of ISC cron (cron(8)), which most people expect without knowing them.
//
//   - A spec whose minute or hour field starts with * follows elapsed time: when clocks go back
//     it ticks in both passes of the repeated time, when they go forward it loses the skipped
//     one. The seconds field has no say in this.
//   - Any other spec has fixed times. One in the repeated time ticks at the first pass only. One
//     in the skipped time ticks at the first instant after it. All skipped times of a spec are
//     one tick, and none of its own if the spec has a time within that first minute anyway.
//   - A change of more than three hours corrects the calendar (Samoa had no 2011-12-30). Nothing
//     is caught up and nothing is dropped.
//
// Ticks exist from year 1 to year 9999. The zone database of the host is used where there is one,
// else the one that is compiled in. Hosts with databases of different age disagree on the ticks of
// a zone whose rules changed in between.
package schedule

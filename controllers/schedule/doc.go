// Package schedule decides when a schedule's backups run and which of them are kept. It is pure: times are passed in,
// nothing is read from the cluster, and the same question always has the same answer.
//
// # Calendars
//
// A calendar is what cron takes in five fields: minute, hour, day of month, month, day of week. A field is a list of
// numbers, ranges and steps: 5, 1-5, */15, 8-18/2, mon-fri. Where both the day of the month and the day of the week are
// restricted, a day that satisfies either of them counts, as in every cron; a field that begins with a step, such as */2,
// is restricted, as in a CronJob of Kubernetes. A time that the calendar names is called a slot.
//
// The fields are read by netresearch/go-cron, the maintained fork of robfig/cron, which rests since 2020 and panics on some
// input. It is asked about a clock that never jumps, and only with what every cron takes: none of its extensions.
//
// # Daylight saving
//
// The calendar is one of wall-clock times, and each wall-clock time runs exactly once.
//   - A time that exists twice, in autumn, runs the first time.
//   - A time that does not exist, in spring, runs at the moment when the clock jumps over it. Several such times are one
//     run, together with one that lies at that moment anyway.
//
// So "30 2 * * *" in Europe/Paris runs every day of the year once: on 31 March 2024 at 03:00, when the clock jumps from 02:00
// to 03:00, and on 27 October 2024 at the first 02:30. It follows that "0 * * * *" does not run in the repeated hour. Who
// wants a run in each hour that passes uses UTC.
//
// # Downtime and clocks
//
// Of the slots that passed while nothing could start, only the newest is made up for, and only within the deadline; the
// others are counted as missed. A clock that steps forward looks like downtime. One that steps back makes times come
// twice: the names of backups follow from their slots, so that a slot that comes twice finds its backup there.
//
// # Retention
//
// Each rule looks at the backups from the newest to the oldest and keeps some of them. What any rule keeps is kept. A rule
// of the calendar keeps the newest backup of each of the newest hours, days, ISO weeks, months or years that have one.
// With a backup each midnight, and on the evening of Wednesday, 31 January 2024, the rules daily 3, weekly 2 and monthly 2
// keep these:
//
//	2024-01-31  daily, weekly, monthly
//	2024-01-30  daily
//	2024-01-29  daily
//	2024-01-28  weekly: the Sunday that ends the week before
//	2023-12-31  monthly
//
// The newest backup is kept whatever the rules, and nothing is deleted for want of a new one: days without a backup do not
// count, and a length of time counts back from the newest backup and not from now.
package schedule

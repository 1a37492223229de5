package schedule

import (
	"fmt"
	"time"
	_ "time/tzdata" // zones mean the same in every image, also in one that has no zone files

	"github.com/netresearch/go-cron"
)

// horizon is longer than any calendar that ever fires waits: 29 February can be eight years away, as from 2096 to 2104.
const (
	horizonYears = 9
	horizon      = horizonYears * 366 * 24 * time.Hour
)

// Calendar is a set of slots: the times that an expression of cron names in a time zone. The zero Calendar has none.
type Calendar struct {
	expression string
	zone       *time.Location
	// wall yields the slots as the wall clock shows them, written as times in UTC, where no clock ever jumps. What they
	// are in the zone is decided here, not in the library.
	wall cron.Schedule
}

// String returns the calendar as status shows it: its expression, with single spaces, and its zone.
func (c Calendar) String() string {
	if c.zone == nil {
		return ""
	}
	return c.expression + " " + c.zone.String()
}

// Zone returns the time zone of the calendar.
func (c Calendar) Zone() *time.Location {
	if c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// Next returns the first slot strictly after a time, in UTC.
func (c Calendar) Next(after time.Time) time.Time {
	if c.wall == nil {
		return time.Time{}
	}
	// Slots lie on whole minutes of the wall clock. From the last second of the minute the library needs one step, not
	// sixty.
	clock := c.wallClock(after).Truncate(time.Minute).Add(59 * time.Second)
	for {
		if clock = c.wall.Next(clock); clock.IsZero() {
			return time.Time{}
		}
		// A clock that was put back shows times again that ran when they came first: those lie before the given time.
		if slot := c.instant(clock); slot.After(after) {
			return slot
		}
	}
}

// wallClock returns what the wall clock shows at a time, written as a time in UTC.
func (c Calendar) wallClock(at time.Time) time.Time {
	_, offset := at.In(c.zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns the time at which the wall clock shows the given time first, or, where it never does, at which it jumps
// over it. Of two times on the wall clock the later one is never the earlier one here, which is what Next rests on.
//
// It walks over the periods between two changes of the clock, beginning a day before, which is further than any offset.
func (c Calendar) instant(clock time.Time) time.Time {
	for at := clock.AddDate(0, 0, -1).In(c.zone); ; {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		if !end.IsZero() && !end.After(at) {
			// Go lets each year that it reckons by a rule end after 365 days, and so says on 31 December of a leap year that
			// the period is over. The clock does not change on the last day of a year by any rule.
			end = at.AddDate(0, 0, 1)
		}
		slot := clock.Add(-time.Duration(offset) * time.Second)
		switch {
		case !end.IsZero() && !slot.Before(end):
			at = end
		case !start.IsZero() && slot.Before(start):
			return start.UTC()
		default:
			return slot
		}
	}
}

// Latest returns the newest slot that is not after now, in UTC. It takes a few steps for most calendars and some 30 at most,
// however dense they are and however long ago the slot was.
func (c Calendar) Latest(now time.Time) time.Time {
	for _, window := range [...]time.Duration{time.Hour, 24 * time.Hour, 32 * 24 * time.Hour, 366 * 24 * time.Hour, horizon} {
		if slot := c.Next(now.Add(-window)); !slot.IsZero() && !slot.After(now) {
			return c.latestFrom(slot, now)
		}
	}
	return time.Time{}
}

// latestFrom returns the newest slot from a given one until now, by halving the time in which it can lie.
func (c Calendar) latestFrom(newest, now time.Time) time.Time {
	none := now // there is no slot after this, until now
	for c.hasSlot(newest, now) {
		middle := newest.Add(none.Sub(newest) / 2)
		if slot := c.Next(middle); slot.IsZero() || slot.After(now) {
			none = middle
		} else {
			newest = slot
		}
	}
	return newest
}

// hasSlot says whether there is a slot after one time and not after another.
func (c Calendar) hasSlot(after, until time.Time) bool {
	slot := c.Next(after)
	return !slot.IsZero() && !slot.After(until)
}

// Between returns how many slots lie after one time and not after another. It stops counting at most.
func (c Calendar) Between(after, until time.Time, most int) int {
	count := 0
	for slot := c.Next(after); count < most && !slot.IsZero() && !slot.After(until); slot = c.Next(slot) {
		count++
	}
	return count
}

// Parse reads a calendar: an expression of five fields or one of the names @hourly, @daily, @midnight, @weekly, @monthly,
// @yearly and @annually, and a zone of the IANA database, where nothing means UTC. The error wraps ErrInvalidSchedule or
// ErrInvalidTimeZone.
func Parse(expression, zone string) (Calendar, error) {
	expression, wall, err := parseExpression(expression)
	if err != nil {
		return Calendar{}, fmt.Errorf("%w: %w", ErrInvalidSchedule, err)
	}
	location, err := parseZone(zone)
	if err != nil {
		return Calendar{}, fmt.Errorf("%w: %w", ErrInvalidTimeZone, err)
	}
	return Calendar{expression: expression, zone: location, wall: wall}, nil
}

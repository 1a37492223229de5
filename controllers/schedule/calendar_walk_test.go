package schedule

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNextIsWhatAClockSees compares with somebody who looks at the zone's clock every minute and runs what it shows, once:
// days around all kinds of changes, and every calendar below.
func TestNextIsWhatAClockSees(t *testing.T) {
	t.Parallel()
	expressions := []string{
		"* * * * *", "0 * * * *", "*/15 * * * *", "7,37 * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 0 * * *", "59 23 * * *",
		"0 0,12 30 * *", "0 3 * * 0", "20 */5 1-7 * 6,7",
	}
	for _, place := range []struct{ zone, day string }{
		{"UTC", "2024-12-31"},
		{"Europe/Paris", "2044-12-31"}, // where Go reckons by a rule, and the year has 366 days
		{"Australia/Sydney", "2044-12-31"},
		{"Europe/Paris", "2024-03-31"},
		{"Europe/Paris", "2024-10-27"},
		{"America/New_York", "2024-03-10"},
		{"America/New_York", "2024-11-03"},
		{"America/Santiago", "2024-04-06"},
		{"America/Santiago", "2024-09-08"},
		{"America/St_Johns", "2010-11-07"}, // back from 00:01 to 23:01 of the day before
		{"America/St_Johns", "2010-03-14"},
		{"Australia/Lord_Howe", "2024-04-07"},
		{"Australia/Lord_Howe", "2024-10-06"},
		{"Africa/Casablanca", "2024-03-10"},
		{"Africa/Casablanca", "2024-04-14"},
		{"Europe/Dublin", "2024-03-31"},    // whose summer time is the standard one
		{"Antarctica/Troll", "2024-03-31"}, // two hours
		{"Antarctica/Troll", "2024-10-27"},
		{"Asia/Kathmandu", "1986-01-01"}, // a quarter of an hour, for good
		{"Pacific/Apia", "2011-12-30"},   // a day that was not
		{"America/Caracas", "2016-05-01"},
		{"Asia/Pyongyang", "2018-05-05"},
	} {
		for _, expression := range expressions {
			t.Run(place.zone+" "+place.day+" "+expression, func(t *testing.T) {
				t.Parallel()
				compareWithClock(t, calendar(t, expression, place.zone), at(t, place.day+"T12:00Z"))
			})
		}
	}
}

// compareWithClock compares Next, Latest and Between over two days before and after a time.
func compareWithClock(t *testing.T, slots Calendar, middle time.Time) {
	t.Helper()
	first, last := middle.AddDate(0, 0, -2), middle.AddDate(0, 0, 2)
	want := watchClock(slots, first, last)
	var got []time.Time
	for slot := slots.Next(first); !slot.After(last); slot = slots.Next(slot) {
		got = append(got, slot)
	}
	if !slices.Equal(show(got), show(want)) {
		t.Fatalf("Next: got %v, want %v", show(got), show(want))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		now := first.Add(time.Duration(random.Int64N(int64(last.Sub(first)))))
		past, _ := slices.BinarySearchFunc(want, now.Add(1), time.Time.Compare)
		if past > 0 && !slots.Latest(now).Equal(want[past-1]) {
			t.Errorf("Latest at %s: got %s, want %s", now, slots.Latest(now), want[past-1])
		}
		if past < len(want) && !slots.Next(now).Equal(want[past]) {
			t.Errorf("Next at %s: got %s, want %s", now, slots.Next(now), want[past])
		}
		if got := slots.Between(first, now, 1<<30); got != past {
			t.Errorf("Between until %s: got %d, want %d", now, got, past)
		}
	}
}

// watchClock returns when a time of the calendar is on the clock for the first time, or is jumped over.
func watchClock(slots Calendar, first, last time.Time) []time.Time {
	var runs []time.Time
	definition := define(slots.expression)
	seen := wall(first, slots.zone) // the greatest time that was on the clock
	for now := first.Add(time.Minute); !now.After(last); now = now.Add(time.Minute) {
		runsNow := false
		for ; seen.Before(wall(now, slots.zone)); seen = seen.Add(time.Minute) {
			runsNow = runsNow || definition.has(seen.Add(time.Minute))
		}
		if runsNow {
			runs = append(runs, now)
		}
	}
	return runs
}

func wall(at time.Time, zone *time.Location) time.Time {
	local := at.In(zone)
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
}

// definition is cron's own, for numbers: for each field which values it has.
type definition struct {
	values   [5][60]bool
	bothDays bool
}

func define(expression string) definition {
	var defined definition
	words := strings.Fields(expression)
	for i, word := range words {
		for value := range defined.values[i] {
			defined.values[i][value] = wordHas(word, value)
		}
	}
	defined.bothDays = words[2] == "*" || words[4] == "*"
	return defined
}

func (d definition) has(clock time.Time) bool {
	day, weekday := d.values[2][clock.Day()], d.values[4][clock.Weekday()] || d.values[4][clock.Weekday()+7]
	days := day || weekday
	if d.bothDays {
		days = day && weekday
	}
	return d.values[0][clock.Minute()] && d.values[1][clock.Hour()] && days && d.values[3][clock.Month()]
}

func wordHas(word string, value int) bool {
	return slices.ContainsFunc(strings.Split(word, ","), func(item string) bool {
		item, step, stepped := strings.Cut(item, "/")
		low, high, ranged := strings.Cut(item, "-")
		switch {
		case item == "*":
			low, high = "0", "99"
		case !ranged:
			high = low
		}
		fits := number(low) <= value && value <= number(high)
		return fits && (!stepped || (value-number(low))%number(step) == 0)
	})
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return value
}

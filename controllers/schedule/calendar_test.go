package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNext lists the slots that follow a time. What the wall clock of the zone shows stands beside those that a change of
// the clock moves.
func TestNext(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expression, zone, after string
		want                    string
	}{
		"strictly after": {"0 2 * * *", "UTC", "2026-03-01T02:00Z", "2026-03-02T02:00:00Z 2026-03-03T02:00:00Z"},
		"a nanosecond before": {
			"0 2 * * *", "UTC", "2026-03-01T01:59:59.999999999Z", "2026-03-01T02:00:00Z 2026-03-02T02:00:00Z",
		},
		"a nanosecond after": {"* * * * *", "UTC", "2026-03-01T02:00:00.000000001Z", "2026-03-01T02:01:00Z 2026-03-01T02:02:00Z"},
		"year's end":         {"0 0 1 1 *", "Europe/Paris", "2024-12-31T22:59Z", "2024-12-31T23:00:00Z 2025-12-31T23:00:00Z"},
		"leap day":           {"0 0 29 2 *", "UTC", "2024-02-29T00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
		"no leap day for eight years": {
			"0 0 29 2 *", "UTC", "2096-02-29T00:00Z", "2104-02-29T00:00:00Z 2108-02-29T00:00:00Z",
		},
		"the 31st": {"0 0 31 * *", "UTC", "2026-03-31T00:00Z", "2026-05-31T00:00:00Z 2026-07-31T00:00:00Z"},
		"either day": {
			"0 0 13 * 5", "UTC", "2024-10-05T00:00Z", "2024-10-11T00:00:00Z 2024-10-13T00:00:00Z 2024-10-18T00:00:00Z",
		},
		"a step is a restriction": {
			"0 0 */10 * mon", "UTC", "2026-06-09T00:00Z", "2026-06-11T00:00:00Z 2026-06-15T00:00:00Z 2026-06-21T00:00:00Z",
		},
		"7 is Sunday":       {"0 0 * * 7", "UTC", "2026-03-02T00:00Z", "2026-03-08T00:00:00Z 2026-03-15T00:00:00Z"},
		"to Sunday":         {"0 0 * * 6-7", "UTC", "2026-03-02T00:00Z", "2026-03-07T00:00:00Z 2026-03-08T00:00:00Z 2026-03-14T00:00:00Z"},
		"names in capitals": {"0 0 * MAR THU", "UTC", "2026-03-20T00:00Z", "2026-03-26T00:00:00Z 2027-03-04T00:00:00Z"},
		"weekly":            {"@weekly", "UTC", "2026-03-02T00:00Z", "2026-03-08T00:00:00Z 2026-03-15T00:00:00Z"},
		"monthly":           {"@monthly", "UTC", "2026-03-02T00:00Z", "2026-04-01T00:00:00Z 2026-05-01T00:00:00Z"},

		"Paris, spring: 02:30 does not exist": {
			"30 2 * * *", "Europe/Paris", "2024-03-30T02:00Z", "2024-03-31T01:00:00Z 2024-04-01T00:30:00Z",
		},
		"Paris, spring: four that do not exist are one": {
			"*/15 2 * * *", "Europe/Paris", "2024-03-30T02:00Z", "2024-03-31T01:00:00Z 2024-04-01T00:00:00Z",
		},
		"Paris, spring: one with that of the same moment": {
			"0 2,3 * * *", "Europe/Paris", "2024-03-30T03:00Z", "2024-03-31T01:00:00Z 2024-04-01T00:00:00Z 2024-04-01T01:00:00Z",
		},
		"Paris, spring: hourly": {
			"0 * * * *", "Europe/Paris", "2024-03-30T23:30Z", "2024-03-31T00:00:00Z 2024-03-31T01:00:00Z 2024-03-31T02:00:00Z",
		},
		"Paris, autumn: 02:30 exists twice": {
			"30 2 * * *", "Europe/Paris", "2024-10-26T12:00Z", "2024-10-27T00:30:00Z 2024-10-28T01:30:00Z",
		},
		"Paris, autumn: within the second 02:30": {
			"30 2 * * *", "Europe/Paris", "2024-10-27T01:29Z", "2024-10-28T01:30:00Z",
		},
		"Paris, autumn: hourly leaves the second hour out": {
			"0 * * * *", "Europe/Paris", "2024-10-26T23:30Z", "2024-10-27T00:00:00Z 2024-10-27T02:00:00Z",
		},
		"UTC has every hour": {
			"0 * * * *", "UTC", "2024-10-26T23:30Z", "2024-10-27T00:00:00Z 2024-10-27T01:00:00Z 2024-10-27T02:00:00Z",
		},
		"New York, spring": {"30 2 * * *", "America/New_York", "2024-03-09T12:00Z", "2024-03-10T07:00:00Z 2024-03-11T06:30:00Z"},
		"New York, autumn": {"30 1 * * *", "America/New_York", "2024-11-02T12:00Z", "2024-11-03T05:30:00Z 2024-11-04T06:30:00Z"},
		"Santiago, spring is in September, and midnight does not exist": {
			"0 0 * * *", "America/Santiago", "2024-09-07T12:00Z", "2024-09-08T04:00:00Z 2024-09-09T03:00:00Z",
		},
		"Santiago, autumn is in April, and the evening comes twice": {
			"30 23 * * *", "America/Santiago", "2024-04-06T12:00Z", "2024-04-07T02:30:00Z 2024-04-08T03:30:00Z",
		},
		"Lord Howe, spring: half an hour does not exist": {
			"15 2 * * *", "Australia/Lord_Howe", "2024-10-05T00:00Z", "2024-10-05T15:30:00Z 2024-10-06T15:15:00Z",
		},
		"Lord Howe, autumn: half an hour exists twice": {
			"45 1 * * *", "Australia/Lord_Howe", "2024-04-06T00:00Z", "2024-04-06T14:45:00Z 2024-04-07T15:15:00Z",
		},
		"Casablanca goes back for Ramadan": {
			"30 2 * * *", "Africa/Casablanca", "2024-03-09T12:00Z", "2024-03-10T01:30:00Z 2024-03-11T02:30:00Z",
		},
		"Casablanca goes on after it": {
			"30 2 * * *", "Africa/Casablanca", "2024-04-13T12:00Z", "2024-04-14T02:00:00Z 2024-04-15T01:30:00Z",
		},
		"Apia had no 30 December": {
			"0 12 * * *", "Pacific/Apia", "2011-12-29T21:59Z", "2011-12-29T22:00:00Z 2011-12-30T10:00:00Z 2011-12-30T22:00:00Z",
		},
		"Kathmandu is a quarter off": {"0 2 * * *", "Asia/Kathmandu", "2026-03-01T00:00Z", "2026-03-01T20:15:00Z 2026-03-02T20:15:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots := calendar(t, test.expression, test.zone)
			after := at(t, test.after)
			want := strings.Fields(test.want)
			var got []time.Time
			for range want {
				after = slots.Next(after)
				got = append(got, after)
			}
			if !slices.Equal(show(got), want) {
				t.Errorf("%s after %s: got %v, want %v", slots, test.after, show(got), want)
			}
		})
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expression, zone, now, want string
	}{
		"at a slot":               {"0 2 * * *", "UTC", "2026-03-01T02:00Z", "2026-03-01T02:00:00Z"},
		"a nanosecond before":     {"0 2 * * *", "UTC", "2026-03-01T01:59:59.999999999Z", "2026-02-28T02:00:00Z"},
		"every minute":            {"* * * * *", "UTC", "2026-03-01T02:00:59.9Z", "2026-03-01T02:00:00Z"},
		"leap day":                {"0 0 29 2 *", "UTC", "2027-12-31T00:00Z", "2024-02-29T00:00:00Z"},
		"leap day, 8 years":       {"0 0 29 2 *", "UTC", "2104-02-28T23:59Z", "2096-02-29T00:00:00Z"},
		"in the hour that is not": {"30 2 * * *", "Europe/Paris", "2024-03-31T01:00Z", "2024-03-31T01:00:00Z"},
		"in the second hour":      {"30 2 * * *", "Europe/Paris", "2024-10-27T01:45Z", "2024-10-27T00:30:00Z"},
		"minutes, second hour":    {"* * * * *", "Europe/Paris", "2024-10-27T01:45Z", "2024-10-27T00:59:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots := calendar(t, test.expression, test.zone)
			if got := slots.Latest(at(t, test.now)).Format(time.RFC3339); got != test.want {
				t.Errorf("%s at %s: got %s, want %s", slots, test.now, got, test.want)
			}
		})
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expression, after, until string
		most, want               int
	}{
		"neither end counts twice":   {"0 2 * * *", "2026-03-01T01:00Z", "2026-03-04T01:00Z", 99, 3},
		"a nanosecond short":         {"0 2 * * *", "2026-03-01T01:00Z", "2026-03-04T00:59:59.999999999Z", 99, 2},
		"none":                       {"0 2 * * *", "2026-03-01T01:00Z", "2026-03-01T01:00Z", 99, 0},
		"backwards":                  {"0 2 * * *", "2026-03-04T02:00Z", "2026-03-01T02:00Z", 99, 0},
		"stops":                      {"* * * * *", "2026-03-01T02:00Z", "2027-03-01T02:00Z", 99, 99},
		"an hour less in spring":     {"0 * * * *", "2024-03-30T23:00Z", "2024-03-31T22:00Z", 99, 23},
		"24 and not 25 in autumn":    {"0 * * * *", "2024-10-26T22:00Z", "2024-10-27T23:00Z", 99, 24},
		"minutes: 60 less in spring": {"* * * * *", "2024-03-30T23:00Z", "2024-03-31T22:00Z", 9999, 23 * 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots := calendar(t, test.expression, "Europe/Paris")
			if got := slots.Between(at(t, test.after), at(t, test.until), test.most); got != test.want {
				t.Errorf("%s from %s to %s: got %d, want %d", slots, test.after, test.until, got, test.want)
			}
		})
	}
}

func TestZeroCalendar(t *testing.T) {
	t.Parallel()
	var none Calendar
	now := at(t, "2026-03-01T02:00Z")
	if !none.Next(now).IsZero() || !none.Latest(now).IsZero() || none.Between(now, now.Add(horizon), 9) != 0 {
		t.Error("a calendar without slots has some")
	}
	if none.String() != "" || none.Zone() != time.UTC {
		t.Errorf("got %q in %s", none, none.Zone())
	}
}

func BenchmarkNextMinute(b *testing.B) {
	slots := calendar(b, "* * * * *", "Europe/Paris")
	for slot := at(b, "2026-03-01T02:00Z"); b.Loop(); slot = slots.Next(slot) {
	}
}

func BenchmarkLatestMinute(b *testing.B) {
	slots, now := calendar(b, "* * * * *", "Europe/Paris"), at(b, "2026-03-01T02:00:30Z")
	for b.Loop() {
		slots.Latest(now)
	}
}

func BenchmarkLatestLeapDay(b *testing.B) {
	slots, now := calendar(b, "0 0 29 2 *", "Europe/Paris"), at(b, "2026-03-01T02:00:30Z")
	for b.Loop() {
		slots.Latest(now)
	}
}

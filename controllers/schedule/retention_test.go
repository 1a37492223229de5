package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// backupsAt makes backups that are called by their times, in UTC.
func backupsAt(times ...time.Time) []Backup {
	all := make([]Backup, len(times))
	for i, one := range times {
		all[i] = Backup{Name: one.UTC().Format("2006-01-02T15:04"), Time: one}
	}
	return all
}

// every makes a backup at a time and then each time the interval has passed, until another time.
func every(interval time.Duration, first, last time.Time) []Backup {
	var times []time.Time
	for one := first; !one.After(last); one = one.Add(interval) {
		times = append(times, one)
	}
	return backupsAt(times...)
}

// keptText writes what is kept, the newest first: the name of each and the rules that keep it.
func keptText(kept []Kept) string {
	var text strings.Builder
	for _, one := range kept {
		text.WriteString(one.Name + " " + strings.Join(one.Reasons, " ") + "\n")
	}
	return text.String()
}

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	return calendar(t, "@daily", name).Zone()
}

// TestKeepAYearOfHours has every hour of the leap year 2024 in Paris. Names are in UTC: a day ends there at 22:00 in summer,
// and at 23:00 in winter, as 31 December does.
func TestKeepAYearOfHours(t *testing.T) {
	t.Parallel()
	last := at(t, "2024-12-31T22:00Z")
	backups := every(time.Hour, at(t, "2023-12-31T23:00Z"), last)
	for name, test := range map[string]struct {
		rules Rules
		want  string
	}{
		"last":   {Rules{Last: 3}, "2024-12-31T22:00 2024-12-31T21:00 2024-12-31T20:00"},
		"hourly": {Rules{Hourly: 3}, "2024-12-31T22:00 2024-12-31T21:00 2024-12-31T20:00"},
		"daily":  {Rules{Daily: 4}, "2024-12-31T22:00 2024-12-30T22:00 2024-12-29T22:00 2024-12-28T22:00"},
		// 31 December 2024 is a Tuesday of the first week of 2025.
		"weekly": {Rules{Weekly: 4}, "2024-12-31T22:00 2024-12-29T22:00 2024-12-22T22:00 2024-12-15T22:00"},
		"monthly": {
			Rules{Monthly: 99}, "2024-12-31T22:00 2024-11-30T22:00 2024-10-31T22:00 2024-09-30T21:00 2024-08-31T21:00 " +
				"2024-07-31T21:00 2024-06-30T21:00 2024-05-31T21:00 2024-04-30T21:00 2024-03-31T21:00 2024-02-29T22:00 2024-01-31T22:00",
		},
		"yearly": {Rules{Yearly: 5}, "2024-12-31T22:00"},
		"within": {Rules{Within: 2 * time.Hour}, "2024-12-31T22:00 2024-12-31T21:00 2024-12-31T20:00"},
		"within, a nanosecond less": {
			Rules{Within: 2*time.Hour - 1}, "2024-12-31T22:00 2024-12-31T21:00",
		},
		"all together": {
			Rules{Last: 2, Hourly: 3, Daily: 3, Weekly: 3, Monthly: 3, Yearly: 3, Within: time.Hour},
			"2024-12-31T22:00 2024-12-31T21:00 2024-12-31T20:00 2024-12-30T22:00 2024-12-29T22:00 2024-12-22T22:00 " +
				"2024-11-30T22:00 2024-10-31T22:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, expired := Keep(test.rules, zoneOf(t, "Europe/Paris"), backups, last)
			names := make([]string, len(kept))
			for i, one := range kept {
				names[i] = one.Name
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if len(kept)+len(expired) != 366*24 {
				t.Errorf("%d kept and %d expired of %d", len(kept), len(expired), 366*24)
			}
		})
	}
}

// TestKeep names the reasons too.
func TestKeep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules         Rules
		zone, backups string
		want          string
	}{
		"none":    {Rules{Last: 1}, "UTC", "", ""},
		"no rule": {Rules{}, "UTC", "2024-01-01T00:00Z 2020-01-01T00:00Z", "2024-01-01T00:00 noRule,2020-01-01T00:00 noRule"},
		"rules below zero are none": {
			Rules{Last: -1, Daily: -1, Within: -1}, "UTC", "2024-01-01T00:00Z 2020-01-01T00:00Z",
			"2024-01-01T00:00 noRule,2020-01-01T00:00 noRule",
		},
		"one": {Rules{Yearly: 1}, "UTC", "2024-01-01T00:00Z", "2024-01-01T00:00 newest keepYearly"},
		"days without a backup do not count": {
			Rules{Daily: 3}, "UTC", "2024-05-10T01:00Z 2024-05-02T01:00Z 2024-05-02T00:30Z 2023-01-01T00:00Z 2022-01-01T00:00Z",
			"2024-05-10T01:00 newest keepDaily,2024-05-02T01:00 keepDaily,2023-01-01T00:00 keepDaily",
		},
		"within counts from the newest, however old that is": {
			Rules{Within: 48 * time.Hour}, "UTC", "2019-05-10T00:00Z 2019-05-08T00:00Z 2019-05-07T23:59Z",
			"2019-05-10T00:00 newest keepWithin,2019-05-08T00:00 keepWithin",
		},
		"a day is one of the zone": {
			Rules{Daily: 2}, "Asia/Kathmandu", "2024-05-10T18:14Z 2024-05-09T18:15Z 2024-05-09T18:14Z",
			"2024-05-10T18:14 newest keepDaily,2024-05-09T18:14 keepDaily",
		},
		"spring: the day has 23 hours": {
			Rules{Daily: 9}, "Europe/Paris", "2024-03-31T22:00Z 2024-03-31T21:59Z 2024-03-30T23:00Z 2024-03-30T22:59Z",
			"2024-03-31T22:00 newest keepDaily,2024-03-31T21:59 keepDaily,2024-03-30T22:59 keepDaily",
		},
		"autumn: the day has 25 hours": {
			Rules{Daily: 9}, "Europe/Paris", "2024-10-27T23:00Z 2024-10-27T22:59Z 2024-10-26T22:00Z 2024-10-26T21:59Z",
			"2024-10-27T23:00 newest keepDaily,2024-10-27T22:59 keepDaily,2024-10-26T21:59 keepDaily",
		},
		"spring: no hour is missing": {
			Rules{Hourly: 9}, "Europe/Paris", "2024-03-31T01:30Z 2024-03-31T01:00Z 2024-03-31T00:30Z 2024-03-31T00:00Z",
			"2024-03-31T01:30 newest keepHourly,2024-03-31T00:30 keepHourly",
		},
		"autumn: the hour that comes twice is two": {
			Rules{Hourly: 9}, "Europe/Paris", "2024-10-27T02:00Z 2024-10-27T01:30Z 2024-10-27T01:00Z 2024-10-27T00:30Z 2024-10-27T00:00Z",
			"2024-10-27T02:00 newest keepHourly,2024-10-27T01:30 keepHourly,2024-10-27T00:30 keepHourly",
		},
		"autumn: the half hour that comes twice": {
			Rules{Hourly: 9}, "Australia/Lord_Howe", "2024-04-06T15:45Z 2024-04-06T15:15Z 2024-04-06T14:45Z 2024-04-06T14:15Z",
			"2024-04-06T15:45 newest keepHourly,2024-04-06T15:15 keepHourly,2024-04-06T14:45 keepHourly",
		},
		"a day to which the clock goes back is one": {
			Rules{Daily: 9}, "America/St_Johns", "2010-11-07T04:00Z 2010-11-07T03:00Z 2010-11-07T02:30:30Z 2010-11-07T02:00Z",
			"2010-11-07T04:00 newest keepDaily,2010-11-07T03:00 keepDaily",
		},
		"leap day": {
			Rules{Daily: 9, Monthly: 9}, "UTC", "2024-03-01T00:00Z 2024-02-29T23:59Z 2024-02-29T00:00Z 2024-02-28T23:59Z",
			"2024-03-01T00:00 newest keepDaily keepMonthly,2024-02-29T23:59 keepDaily keepMonthly,2024-02-28T23:59 keepDaily",
		},
		"year's end within week 53": {
			Rules{Weekly: 9, Yearly: 9}, "UTC", "2021-01-04T00:00Z 2021-01-03T23:59Z 2021-01-01T00:00Z 2020-12-31T23:59Z 2020-12-27T23:59Z",
			"2021-01-04T00:00 newest keepWeekly keepYearly,2021-01-03T23:59 keepWeekly,2020-12-31T23:59 keepYearly,2020-12-27T23:59 keepWeekly",
		},
		"year's end within week 1": {
			Rules{Weekly: 9, Yearly: 9}, "UTC", "2025-01-05T23:59Z 2025-01-01T00:00Z 2024-12-31T23:59Z 2024-12-30T00:00Z 2024-12-29T23:59Z",
			"2025-01-05T23:59 newest keepWeekly keepYearly,2024-12-31T23:59 keepYearly,2024-12-29T23:59 keepWeekly",
		},
		"the same week, month and day of another year": {
			Rules{Weekly: 9, Monthly: 9, Daily: 9}, "UTC", "2024-05-10T00:00Z 2023-05-10T00:00Z",
			"2024-05-10T00:00 newest keepDaily keepWeekly keepMonthly,2023-05-10T00:00 keepDaily keepWeekly keepMonthly",
		},
		"from a clock that was wrong": {
			Rules{Last: 1}, "UTC", "2036-05-10T00:00Z 2026-01-01T00:00Z 2025-12-31T00:00Z",
			"2036-05-10T00:00 future,2026-01-01T00:00 newest keepLast",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var backups []Backup
			for one := range strings.FieldsSeq(test.backups) {
				backups = append(backups, backupsAt(at(t, one))...)
			}
			slices.Reverse(backups)
			kept, _ := Keep(test.rules, zoneOf(t, test.zone), backups, at(t, "2026-01-01T00:00Z"))
			if got := keptText(kept); got != strings.ReplaceAll(test.want, ",", "\n")+strings.Repeat("\n", min(1, len(test.want))) {
				t.Errorf("got\n%swant\n%s", got, strings.ReplaceAll(test.want, ",", "\n"))
			}
		})
	}
}

func TestKeepTies(t *testing.T) {
	t.Parallel()
	same := at(t, "2024-05-10T00:00Z")
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"b", "c", "a"}} {
		var backups []Backup
		for _, name := range names {
			backups = append(backups, Backup{Name: name, Time: same})
		}
		kept, expired := Keep(Rules{Last: 1}, nil, backups, same)
		if len(kept) != 1 || kept[0].Name != "c" || len(expired) != 2 || expired[0].Name != "b" {
			t.Errorf("of %v: kept %v, expired %v", names, kept, expired)
		}
	}
}

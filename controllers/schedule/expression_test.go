package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseTakes(t *testing.T) {
	t.Parallel()
	for expression, same := range map[string]string{
		"@hourly":                   "0 * * * *",
		"@daily":                    "0 0 * * *",
		"@midnight":                 "0 0 * * *",
		"@weekly":                   "0 0 * * sun",
		"@monthly":                  "0 0 1 * *",
		"@yearly":                   "0 0 1 1 *",
		"@annually":                 "0 0 1 jan *",
		"  0   2\t* * * ":           "0 2 * * *",
		"0 2 * JAN,feb,Mar MON-Fri": "0 2 * 1-3 1-5",
		"0 2 * * tue,WED,thu,sat":   "0 2 * * 2,3,4,6",
		"*/20 * * * *":              "0,20,40 * * * *",
		"5/20 * * * *":              "5,25,45 * * * *",
		"10-40/15 * * * *":          "10,25,40 * * * *",
		"0 0 * * 0":                 "0 0 * * 7",
		"0 0 * * 5-7":               "0 0 * * fri,sat,sun",
		"*/1 */1 */1 */1 */1":       "* * * * *",
		"00 02 01 01 *":             "0 2 1 1 *",
		"0 0 30 feb mon":            "0 0 * 2 1", // either day: there are Mondays in February
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, want := calendar(t, expression, "Europe/Paris"), calendar(t, same, "Europe/Paris")
			if text := strings.Join(strings.Fields(expression), " ") + " Europe/Paris"; got.String() != text {
				t.Errorf("got %q, want %q", got, text)
			}
			slot := at(t, "2026-01-01T00:00Z")
			for range 100 {
				if !got.Next(slot).Equal(want.Next(slot)) {
					t.Fatalf("%s after %s: got %s, want %s", got, slot, got.Next(slot), want.Next(slot))
				}
				slot = got.Next(slot)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for expression, says := range map[string]string{
		"":                                      "has 0 fields",
		" ":                                     "has 0 fields",
		"0 2 * *":                               "has 4 fields, and five are wanted",
		"0 0 2 * * *":                           "has 6 fields, and five are wanted",
		"0 2 * * * 2026":                        "has 6 fields",
		"@every 1h":                             "is none of @hourly",
		"@reboot":                               "is none of @hourly",
		"@Daily":                                "is none of @hourly",
		"@":                                     "is none of @hourly",
		"TZ=Europe/Paris 0 2 * * *":             "the time zone goes into spec.timeZone",
		"CRON_TZ=Europe/Paris @daily":           "the time zone goes into spec.timeZone",
		"TZ=":                                   "the time zone goes into spec.timeZone",
		"60 * * * *":                            `has "60" as minute, which goes from 0 to 59`,
		"* 24 * * *":                            `has "24" as hour`,
		"* * 0 * *":                             `has "0" as day of month, which goes from 1 to 31`,
		"* * 32 * *":                            `has "32" as day of month`,
		"* * * 0 *":                             `has "0" as month`,
		"* * * 13 *":                            `has "13" as month`,
		"* * * * 8":                             `has "8" as day of week, which goes from 0 to 7`,
		"1-60 * * * *":                          `has "60" as minute`,
		"99999999999999999999 * * * *":          "which goes from 0 to 59",
		"*/0 * * * *":                           "step of range must be a positive number",
		"*/60 * * * *":                          "step (60) must be less than range size (60)",
		"*/99999999999999999999 * * * *":        "99999999999999999999",
		"-1 * * * *":                            `has "-1" as minute: write`,
		"+1 * * * *":                            `has "+1" as minute: write`,
		"1.5 * * * *":                           `has "1.5" as minute: write`,
		", * * * *":                             `has "" as minute: write`,
		"1, * * * *":                            `has "" as minute: write`,
		"1,,2 * * * *":                          `has "" as minute: write`,
		"1-2-3 * * * *":                         `has "1-2-3" as minute: write`,
		"*-5 * * * *":                           `has "*-5" as minute: write`,
		"1/2/3 * * * *":                         `has "1/2/3" as minute: write`,
		"/2 * * * *":                            `has "/2" as minute: write`,
		"* 22-2 * * *":                          `has the hour range "22-2", which runs backwards`,
		"* * * nov-feb *":                       `has the month range "nov-feb", which runs backwards`,
		"* * * * sat-sun":                       `has the day of week range "sat-sun", which runs backwards`,
		"0 0 ? * *":                             `has "?" as day of month: write`,
		"0 0 L * *":                             `has "l" as day of month`,
		"0 0 15W * *":                           `has "15w" as day of month`,
		"0 0 LW * *":                            `has "lw" as day of month`,
		"0 0 * * FRI#3":                         `has "fri#3" as day of week: write`,
		"0 0 * * 5L":                            `has "5l" as day of week`,
		"H * * * *":                             `has "h" as minute`,
		"jan * * * *":                           `has "jan" as minute`,
		"* * * mon *":                           `has "mon" as month`,
		"* * * * jan":                           `has "jan" as day of week`,
		"* * * january *":                       `has "january" as month`,
		"0 0 30 2 *":                            "never comes",
		"0 0 31 4,6,9,11 *":                     "never comes",
		"0 0 30-31 feb *":                       "never comes",
		strings.Repeat("0,", 200) + "0 * * * *": "it has 409 characters",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(expression, "UTC")
			if !errors.Is(err, ErrInvalidSchedule) || errors.Is(err, ErrInvalidTimeZone) {
				t.Fatalf("got error %v, want one of the schedule", err)
			}
			if !strings.Contains(err.Error(), says) {
				t.Errorf("got %q, want it to say %q", err, says)
			}
		})
	}
}

func TestParseZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{
		"UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince", "GMT", "Asia/Kathmandu",
	} {
		if got := calendar(t, "@daily", zone); got.Zone().String() != zone || got.String() != "@daily "+zone {
			t.Errorf("got %s for %s", got, zone)
		}
	}
	if got := calendar(t, "@daily", ""); got.Zone() != time.UTC || got.String() != "@daily UTC" {
		t.Errorf("got %s where no zone is given", got)
	}
	for _, zone := range []string{
		"Local", "local", "localtime", "posixrules", "right/Europe/Paris", "posix/UTC", "Europe/Atlantis", "europe/paris", "Paris",
		"+02:00", "UTC+2", "../Europe/Paris", "Europe/../Europe/Paris", "/etc/localtime", "Europe", "Europe/", " UTC", "UTC ",
		"Europe/Paris\x00", strings.Repeat("A", 10_000),
	} {
		_, err := Parse("@daily", zone)
		if !errors.Is(err, ErrInvalidTimeZone) || errors.Is(err, ErrInvalidSchedule) {
			t.Errorf("got error %v for %q, want one of the time zone", err, zone)
		}
	}
}

// FuzzParse looks for what makes Parse panic or hang, and for calendars it takes that do not hold what they promise.
func FuzzParse(f *testing.F) {
	for _, seed := range []struct{ expression, zone string }{
		{"0 2 * * *", "Europe/Paris"},
		{"*/15 8-18 1-7,15 * mon-fri", "Australia/Lord_Howe"},
		{"0 0 29 2 *", "Pacific/Apia"},
		{"@weekly", ""},
		{"@every 1h", "UTC"},
		{"TZ=UTC 0 0 * * *", "Local"},
		{"0 0 L * FRI#3", "../../etc/passwd"},
		{",,, 22-2 ? */0 8", "right/UTC"},
	} {
		f.Add(seed.expression, seed.zone, int64(1_711_843_200))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, seconds int64) {
		slots, err := Parse(expression, zone)
		if err != nil {
			if errors.Is(err, ErrInvalidSchedule) == errors.Is(err, ErrInvalidTimeZone) {
				t.Fatalf("the error is of neither kind or of both: %v", err)
			}
			return
		}
		now := time.Unix(seconds%(1<<36), 0) // some 2,000 years around 1970
		next := slots.Next(now)
		if !next.After(now) || next.Sub(now) > horizon {
			t.Fatalf("%s: Next of %s is %s", slots, now, next)
		}
		if latest := slots.Latest(next); !latest.Equal(next) {
			t.Fatalf("%s: Latest at the slot %s is %s", slots, next, latest)
		}
		if latest := slots.Latest(next.Add(-1)); latest.After(now) {
			t.Fatalf("%s: %s lies between %s and the slot after it, %s", slots, latest, now, next)
		}
		again, err := Parse(slots.expression, zone)
		if err != nil || again.String() != slots.String() || !again.Next(now).Equal(next) {
			t.Fatalf("%s read again is %s: %v", slots, again, err)
		}
	})
}

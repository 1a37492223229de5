package schedule_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// A backup at half past two each night, over both changes of the clock.
func ExampleCalendar_Next() {
	nightly, err := schedule.Parse("30 2 * * *", "Europe/Paris")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, evening := range []string{"2024-03-30T20:00:00Z", "2024-10-26T20:00:00Z"} {
		slot, _ := time.Parse(time.RFC3339, evening)
		for range 2 {
			slot = nightly.Next(slot)
			fmt.Println(schedule.ChildName("nightly", slot), slot.In(nightly.Zone()).Format("2006-01-02 15:04 MST"))
		}
	}
	// Output:
	// nightly-20240331t0100z 2024-03-31 03:00 CEST
	// nightly-20240401t0030z 2024-04-01 02:30 CEST
	// nightly-20241027t0030z 2024-10-27 02:30 CEST
	// nightly-20241028t0130z 2024-10-28 02:30 CET
}

// The example of the package's documentation.
func ExampleKeep() {
	newest := time.Date(2024, time.January, 31, 0, 0, 0, 0, time.UTC)
	var backups []schedule.Backup
	for day := range 90 {
		backups = append(backups, schedule.Backup{Name: fmt.Sprint("b", day), Time: newest.AddDate(0, 0, -day)})
	}
	rules := schedule.Rules{Daily: 3, Weekly: 2, Monthly: 2}
	kept, expired := schedule.Keep(rules, time.UTC, backups, newest.Add(20*time.Hour))
	for _, one := range kept {
		fmt.Println(one.Time.Format(time.DateOnly), strings.Join(one.Reasons, ", "))
	}
	fmt.Println(len(expired), "expired")
	// Output:
	// 2024-01-31 newest, keepDaily, keepWeekly, keepMonthly
	// 2024-01-30 keepDaily
	// 2024-01-29 keepDaily
	// 2024-01-28 keepWeekly
	// 2023-12-31 keepMonthly
	// 85 expired
}

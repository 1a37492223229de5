package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Rules say which backups are kept: see the package's documentation. A rule that is not above zero does not exist.
type Rules struct {
	// Last is how many of the newest are kept.
	Last int
	// For how many hours, days, ISO weeks, months and years that have a backup the newest one of each is kept.
	Hourly, Daily, Weekly, Monthly, Yearly int
	// Within is how old a backup is kept, counted back from the newest.
	Within time.Duration
}

// Empty says whether there is no rule: then nothing is deleted.
func (r Rules) Empty() bool {
	return max(r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly, r.Yearly) <= 0 && r.Within <= 0
}

// Backup is one that succeeded.
type Backup struct {
	// Name tells it from the others.
	Name string
	// Time is when it was made.
	Time time.Time
}

// Why a backup is kept: the rules by the names of their fields, and what holds whatever the rules.
const (
	KeptLast    = "keepLast"
	KeptHourly  = "keepHourly"
	KeptDaily   = "keepDaily"
	KeptWeekly  = "keepWeekly"
	KeptMonthly = "keepMonthly"
	KeptYearly  = "keepYearly"
	KeptWithin  = "keepWithin"
	// KeptNewest is the reason for the newest backup.
	KeptNewest = "newest"
	// KeptNoRule is the reason for every backup where there is no rule.
	KeptNoRule = "noRule"
	// KeptFuture is the reason for a backup whose time is still to come.
	KeptFuture = "future"
)

// Kept is a backup that is kept, and why.
type Kept struct {
	Backup
	Reasons []string
}

// Keep divides backups into those that are kept and those that expired, each the newest first. Of two of the same time the
// one whose name is the greater counts as the newer. The order of the input means nothing, and it is left as it is. A nil
// zone is UTC.
//
// A backup whose time is more than a minute after now was made while a clock was wrong. It is kept, and the rules do not see
// it until its time has come: it would count as the newest, and every backup made from now on would expire before it.
func Keep(rules Rules, zone *time.Location, backups []Backup, now time.Time) (kept []Kept, expired []Backup) {
	if zone == nil {
		zone = time.UTC
	}
	newestFirst := slices.Clone(backups)
	slices.SortFunc(newestFirst, func(a, b Backup) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Name, a.Name))
	})
	if rules.Empty() {
		return keepAll(newestFirst, KeptNoRule), nil
	}
	future := 0
	for future < len(newestFirst) && newestFirst[future].Time.After(now.Add(clockSkew)) {
		future++
	}
	kept = keepAll(newestFirst[:future], KeptFuture)
	return divide(kept, newestFirst[future:], keepers(rules, zone))
}

func keepAll(backups []Backup, reason string) []Kept {
	kept := make([]Kept, len(backups))
	for i, backup := range backups {
		kept[i] = Kept{Backup: backup, Reasons: []string{reason}}
	}
	return kept
}

// divide asks every keeper about every backup, and adds those that one of them keeps.
func divide(kept []Kept, newestFirst []Backup, keepers []keeper) (all []Kept, expired []Backup) {
	for i, backup := range newestFirst {
		var reasons []string
		if i == 0 {
			reasons = append(reasons, KeptNewest)
		}
		for _, keeper := range keepers {
			if keeper.keeps(backup, newestFirst[0]) {
				reasons = append(reasons, keeper.reason)
			}
		}
		if len(reasons) == 0 {
			expired = append(expired, backup)
		} else {
			kept = append(kept, Kept{Backup: backup, Reasons: reasons})
		}
	}
	return kept, expired
}

// keeper is one rule at work. It sees the backups once, newest first.
type keeper struct {
	reason string
	keeps  func(backup, newest Backup) bool
}

// keepers returns the rules that exist.
func keepers(rules Rules, zone *time.Location) []keeper {
	var all []keeper
	if rules.Last > 0 {
		all = append(all, keeper{KeptLast, keepLast(rules.Last)})
	}
	for _, rule := range []struct {
		reason string
		count  int
		period func(time.Time) period
	}{
		{KeptHourly, rules.Hourly, hourOf},
		{KeptDaily, rules.Daily, dayOf},
		{KeptWeekly, rules.Weekly, weekOf},
		{KeptMonthly, rules.Monthly, monthOf},
		{KeptYearly, rules.Yearly, yearOf},
	} {
		if rule.count > 0 {
			all = append(all, keeper{rule.reason, keepPeriods(rule.count, zone, rule.period)})
		}
	}
	if rules.Within > 0 {
		all = append(all, keeper{KeptWithin, func(backup, newest Backup) bool {
			return !backup.Time.Before(newest.Time.Add(-rules.Within))
		}})
	}
	return all
}

func keepLast(count int) func(backup, newest Backup) bool {
	return func(Backup, Backup) bool {
		count--
		return count >= 0
	}
}

// keepPeriods keeps the first backup that it sees of each period, until it has seen enough of them.
func keepPeriods(count int, zone *time.Location, periodOf func(time.Time) period) func(backup, newest Backup) bool {
	seen := make(map[period]bool)
	return func(backup, _ Backup) bool {
		of := periodOf(backup.Time.In(zone))
		if len(seen) == count || seen[of] {
			return false
		}
		seen[of] = true
		return true
	}
}

// period names an hour, day, week, month or year.
type period struct{ year, part, hour, offset int }

// hourOf names an hour of the wall clock. The one that comes twice in autumn is two, told apart by the offset: each is an
// hour of data. Where the clock is put back by half an hour, the hour in which that happens is two as well.
func hourOf(at time.Time) period {
	_, offset := at.Zone()
	return period{year: at.Year(), part: at.YearDay(), hour: at.Hour(), offset: offset}
}

func dayOf(at time.Time) period { return period{year: at.Year(), part: at.YearDay()} }

// weekOf names a week of ISO 8601, whose year is that of its Thursday.
func weekOf(at time.Time) period {
	year, week := at.ISOWeek()
	return period{year: year, part: week}
}

func monthOf(at time.Time) period { return period{year: at.Year(), part: int(at.Month())} }

func yearOf(at time.Time) period { return period{year: at.Year()} }

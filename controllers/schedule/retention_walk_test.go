package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomRules has each rule in half of the cases.
func randomRules(random *rand.Rand) Rules {
	maybe := func() int { return random.IntN(2) * random.IntN(6) }
	return Rules{
		Last: maybe(), Hourly: maybe(), Daily: maybe(), Weekly: maybe(), Monthly: maybe(), Yearly: maybe(),
		Within: time.Duration(maybe()*maybe()) * time.Hour,
	}
}

// stricter adds one more to a rule, or a rule where there was none.
func stricter(random *rand.Rand, rules Rules) Rules {
	switch random.IntN(7) {
	case 0:
		rules.Last++
	case 1:
		rules.Hourly++
	case 2:
		rules.Daily++
	case 3:
		rules.Weekly++
	case 4:
		rules.Monthly++
	case 5:
		rules.Yearly++
	default:
		rules.Within += time.Hour
	}
	return rules
}

// randomBackups are dense or sparse, in any order, and some have the same time.
func randomBackups(random *rand.Rand, now time.Time) []Backup {
	span := []time.Duration{time.Hour, 48 * time.Hour, 60 * 24 * time.Hour, 4 * 366 * 24 * time.Hour}[random.IntN(4)]
	backups := make([]Backup, 1+random.IntN(80))
	for i := range backups {
		age := time.Duration(random.Int64N(int64(span))).Truncate(time.Minute)
		backups[i] = Backup{Name: fmt.Sprintf("b%d", random.IntN(1<<20)*100+i), Time: now.Add(-age)}
	}
	return backups
}

func backupsOf(kept []Kept) []Backup {
	all := make([]Backup, len(kept))
	for i, one := range kept {
		all[i] = one.Backup
	}
	return all
}

func TestKeepProperties(t *testing.T) {
	t.Parallel()
	zones := []*time.Location{zoneOf(t, "UTC"), zoneOf(t, "Europe/Paris"), zoneOf(t, "Australia/Lord_Howe")}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 4))
		now := at(t, "2024-10-28T00:00Z").Add(time.Duration(random.Int64N(int64(200 * 24 * time.Hour))))
		rules, zone, backups := randomRules(random), zones[random.IntN(len(zones))], randomBackups(random, now)
		before := slices.Clone(backups)
		kept, expired := Keep(rules, zone, backups, now)
		if !slices.Equal(backups, before) {
			t.Fatalf("seed %d: the input was changed", seed)
		}
		checkDivision(t, seed, backups, kept, expired)

		random.Shuffle(len(backups), func(i, j int) { backups[i], backups[j] = backups[j], backups[i] })
		again, gone := Keep(rules, zone, backups, now)
		if keptText(again) != keptText(kept) || !slices.Equal(gone, expired) {
			t.Fatalf("seed %d: the order of the input matters:\n%sand\n%s", seed, keptText(kept), keptText(again))
		}
		if once, gone := Keep(rules, zone, backupsOf(kept), now); len(gone) > 0 || keptText(once) != keptText(kept) {
			t.Fatalf("seed %d: %+v: kept first, and then expired: %v", seed, rules, gone)
		}
		if rules.Empty() {
			continue
		}
		more, _ := Keep(stricter(random, rules), zone, backups, now)
		for _, one := range backupsOf(kept) {
			if !slices.Contains(backupsOf(more), one) {
				t.Fatalf("seed %d: %+v and one more no longer keeps %s", seed, rules, one.Name)
			}
		}
	}
}

// checkDivision checks that each backup is in one of the parts, and that the newest is kept.
func checkDivision(t *testing.T, seed uint64, backups []Backup, kept []Kept, expired []Backup) {
	t.Helper()
	both := append(backupsOf(kept), expired...)
	byName := func(a, b Backup) int { return strings.Compare(a.Name, b.Name) }
	if !slices.Equal(slices.SortedFunc(slices.Values(both), byName), slices.SortedFunc(slices.Values(backups), byName)) {
		t.Fatalf("seed %d: %d kept and %d expired of %d", seed, len(kept), len(expired), len(backups))
	}
	newest := slices.MaxFunc(backups, func(a, b Backup) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Name, b.Name))
	})
	if kept[0].Backup != newest {
		t.Fatalf("seed %d: the newest is %s, and %s comes first of what is kept", seed, newest.Name, kept[0].Name)
	}
	for _, one := range kept {
		if len(one.Reasons) == 0 {
			t.Fatalf("seed %d: %s is kept for no reason", seed, one.Name)
		}
	}
}

// TestPruneDayByDay prunes after each backup of three years. What is left is what pruning the whole history at once would
// leave, and after a year every rule has what it asks for.
func TestPruneDayByDay(t *testing.T) {
	t.Parallel()
	rules, zone := Rules{Daily: 7, Weekly: 4, Monthly: 12}, zoneOf(t, "Europe/Paris")
	first := at(t, "2023-02-11T01:30Z")
	var history, left []Backup
	for day := range 3 * 365 {
		backup := backupsAt(first.AddDate(0, 0, day))[0]
		history, left = append(history, backup), append(left, backup)
		kept, _ := Keep(rules, zone, left, backup.Time)
		left = backupsOf(kept)
		if atOnce, _ := Keep(rules, zone, history, backup.Time); keptText(atOnce) != keptText(kept) {
			t.Fatalf("%s: left by steps\n%sand at once\n%s", backup.Name, keptText(kept), keptText(atOnce))
		}
		counts := map[string]int{}
		for _, one := range kept {
			for _, reason := range one.Reasons {
				counts[reason]++
			}
		}
		full := counts[KeptDaily] == 7 && counts[KeptWeekly] == 4 && counts[KeptMonthly] == 12
		if day > 365 && !full || counts[KeptNewest] != 1 || len(kept) > 7+4+12 {
			t.Fatalf("%s: %v of %d", backup.Name, counts, len(kept))
		}
	}
}

// TestClockOfABackupIsWrong has one backup from the far future among those of each day: the others live as without it, and
// when its time has come it is one of them.
func TestClockOfABackupIsWrong(t *testing.T) {
	t.Parallel()
	now := at(t, "2024-05-10T00:00Z")
	right := every(24*time.Hour, now.AddDate(0, 0, -9), now)
	wrong := Backup{Name: "wrong", Time: now.AddDate(10, 0, 0)}
	rules := Rules{Last: 2, Within: 72 * time.Hour}
	without, _ := Keep(rules, nil, right, now)
	with, _ := Keep(rules, nil, append(slices.Clone(right), wrong), now)
	if keptText(with) != "wrong future\n"+keptText(without) {
		t.Errorf("got\n%swithout it\n%s", keptText(with), keptText(without))
	}
	later, _ := Keep(rules, nil, append(slices.Clone(right), wrong), wrong.Time)
	if want := "wrong newest keepLast keepWithin\n2024-05-10T00:00 keepLast\n"; keptText(later) != want {
		t.Errorf("got\n%swant\n%s", keptText(later), want)
	}
}

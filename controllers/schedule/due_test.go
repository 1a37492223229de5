package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const minute, hour = time.Minute, time.Hour
	for name, test := range map[string]struct {
		expression       string // default: 0 2 * * *
		decided          string
		spread           time.Duration
		deadline         *time.Duration
		now              string
		due, until, next string
		expires          string
		missed           int
		steppedBack      bool
	}{
		"a nanosecond before the slot": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T01:59:59.999999999Z",
			until: "2026-03-09T02:00:00Z", next: "2026-03-10T02:00:00Z",
		},
		"at the slot": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T02:00:00Z",
			due: "2026-03-10T02:00:00Z", until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"decided already": {
			decided: "2026-03-10T02:00:00Z", now: "2026-03-10T02:00:00.5Z",
			until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"decided in between, as by an edit": {
			decided: "2026-03-10T02:00:01Z", now: "2026-03-10T05:00:00Z",
			until: "2026-03-10T02:00:01Z", next: "2026-03-11T02:00:00Z",
		},
		"new": {
			now: "2026-03-10T02:00:00.7Z", until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"new, before its delayed run": {
			now: "2026-03-10T02:05:00Z", spread: 10 * minute, until: "2026-03-10T01:55:00Z", next: "2026-03-10T02:10:00Z",
		},
		"late without a deadline": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-11T01:59:59Z",
			due: "2026-03-10T02:00:00Z", until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"late, at the deadline": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T03:00:00Z", deadline: ptr.To(hour),
			due: "2026-03-10T02:00:00Z", expires: "2026-03-10T03:00:00Z", until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"a nanosecond too late": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T03:00:00.000000001Z", deadline: ptr.To(hour),
			missed: 1, until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"a deadline longer than the calendar's steps": {
			decided: "2026-03-07T02:00:00Z", now: "2026-03-10T03:00:00Z", deadline: ptr.To(100 * hour),
			due: "2026-03-10T02:00:00Z", expires: "2026-03-14T06:00:00Z", missed: 2,
			until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"days of downtime": {
			decided: "2026-03-01T02:00:00Z", now: "2026-03-10T12:00:00Z",
			due: "2026-03-10T02:00:00Z", missed: 8, until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"days of downtime beyond the deadline": {
			decided: "2026-03-01T02:00:00Z", now: "2026-03-10T12:00:00Z", deadline: ptr.To(hour),
			missed: 9, until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"a year of downtime, every minute": {
			expression: "* * * * *", decided: "2025-03-10T12:00:00Z", now: "2026-03-10T12:00:30Z",
			due: "2026-03-10T12:00:00Z", missed: MostMissed, until: "2026-03-10T12:00:00Z", next: "2026-03-10T12:01:00Z",
		},
		"as many minutes as are counted": {
			expression: "* * * * *", decided: "2026-03-01T00:00:00Z", now: "2026-03-07T22:41:00Z",
			due: "2026-03-07T22:41:00Z", missed: MostMissed, until: "2026-03-07T22:41:00Z", next: "2026-03-07T22:42:00Z",
		},
		"one less": {
			expression: "* * * * *", decided: "2026-03-01T00:00:00Z", now: "2026-03-07T22:40:00Z",
			due: "2026-03-07T22:40:00Z", missed: MostMissed - 1, until: "2026-03-07T22:40:00Z", next: "2026-03-07T22:41:00Z",
		},
		"before the delayed run": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T02:09:59.999999999Z", spread: 10 * minute,
			until: "2026-03-09T02:00:00Z", next: "2026-03-10T02:10:00Z",
		},
		"at the delayed run": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T02:10:00Z", spread: 10 * minute, deadline: ptr.To(minute),
			due: "2026-03-10T02:00:00Z", expires: "2026-03-10T02:11:00Z", until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:10:00Z",
		},
		"the deadline counts from the delayed run": {
			decided: "2026-03-09T02:00:00Z", now: "2026-03-10T02:11:00.000000001Z", spread: 10 * minute, deadline: ptr.To(minute),
			missed: 1, until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:10:00Z",
		},
		"a delay longer than the calendar's steps": {
			expression: "0 * * * *", decided: "2026-03-10T00:00:00Z", now: "2026-03-10T03:30:00Z", spread: 150 * minute,
			due: "2026-03-10T01:00:00Z", until: "2026-03-10T01:00:00Z", next: "2026-03-10T04:30:00Z",
		},
		"decided until now, in the delay": {
			decided: "2026-03-10T02:05:00Z", now: "2026-03-10T02:05:00Z", spread: 10 * minute,
			until: "2026-03-10T02:05:00Z", next: "2026-03-11T02:10:00Z",
		},
		"another machine's clock is a minute ahead": {
			decided: "2026-03-10T02:00:00Z", now: "2026-03-10T01:59:00Z",
			until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"the clock stepped back over a slot": {
			decided: "2026-03-10T02:00:00Z", now: "2026-03-10T01:58:59.9Z", steppedBack: true,
			until: "2026-03-09T02:00:00Z", next: "2026-03-10T02:00:00Z",
		},
		"the clock was ten years ahead": {
			decided: "2036-03-10T02:00:00Z", now: "2026-03-10T12:00:00Z", deadline: ptr.To(hour), steppedBack: true,
			until: "2026-03-10T02:00:00Z", next: "2026-03-11T02:00:00Z",
		},
		"the clock was ahead, in the delay": {
			decided: "2036-03-10T02:00:00Z", now: "2026-03-10T02:05:00Z", spread: 10 * minute, steppedBack: true,
			until: "2026-03-09T02:00:00Z", next: "2026-03-10T02:10:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := Plan{DecidedUntil: maybeAt(t, test.decided), Spread: test.spread, Deadline: test.deadline}
			if test.expression == "" {
				test.expression = "0 2 * * *"
			}
			got := Decide(calendar(t, test.expression, "UTC"), plan, at(t, test.now))
			want := Decision{
				Due: maybeAt(t, test.due), Expires: maybeAt(t, test.expires), Missed: test.missed,
				DecidedUntil: maybeAt(t, test.until), Next: maybeAt(t, test.next), SteppedBack: test.steppedBack,
			}
			if got != want {
				t.Errorf("got\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func maybeAt(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	return at(t, text).UTC()
}

// TestDecideDaylight runs through both changes of the clock: one run a day.
func TestDecideDaylight(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"2024-03-30T12:00Z", "2024-10-26T12:00Z"} {
		keeper := &operator{calendar: calendar(t, "30 2 * * *", "Europe/Paris"), started: map[time.Time]int{}}
		keeper.plan.DecidedUntil = at(t, first)
		for now := at(t, first); now.Before(at(t, first).AddDate(0, 0, 2)); now = now.Add(time.Minute) {
			keeper.look(t, now, false)
		}
		if len(keeper.started) != 2 || keeper.missed != 0 {
			t.Errorf("from %s: started %v, missed %d", first, keeper.started, keeper.missed)
		}
	}
}

// operator does what a decision says.
type operator struct {
	calendar Calendar
	plan     Plan
	started  map[time.Time]int // how often the backup of each slot was made or adopted
	missed   int
	steps    int
}

// look does what is to do now, where a run that is due may be blocked, and returns the decision.
func (o *operator) look(t *testing.T, now time.Time, blocked bool) Decision {
	t.Helper()
	decision := Decide(o.calendar, o.plan, now)
	if !decision.Next.After(now) {
		t.Fatalf("%s: the next run, %s, is not in the future", now, decision.Next)
	}
	if decision.SteppedBack {
		o.steps++
	}
	if decision.Due.IsZero() {
		o.plan.DecidedUntil, o.missed = decision.DecidedUntil, o.missed+decision.Missed
		return decision
	}
	late := now.Sub(decision.Due.Add(o.plan.Spread))
	if late < 0 || (o.plan.Deadline != nil && late > *o.plan.Deadline) {
		t.Fatalf("%s: the slot %s is due %s after its run", now, decision.Due, late)
	}
	if !o.calendar.Latest(decision.Due).Equal(decision.Due) {
		t.Fatalf("%s: %s is no slot", now, decision.Due)
	}
	if !blocked {
		o.started[decision.Due]++
		o.plan.DecidedUntil, o.missed = decision.DecidedUntil, o.missed+decision.Missed
	}
	return decision
}

func randomOperator(t *testing.T, random *rand.Rand) *operator {
	t.Helper()
	expressions := []string{"* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *"}
	zones := []string{"UTC", "Europe/Paris", "Australia/Lord_Howe"}
	made := &operator{
		calendar: calendar(t, expressions[random.IntN(len(expressions))], zones[random.IntN(len(zones))]),
		started:  map[time.Time]int{},
	}
	made.plan.Spread = time.Duration(random.IntN(2)*random.IntN(7200)) * time.Second
	if random.IntN(2) == 0 {
		made.plan.Deadline = ptr.To(time.Duration(1+random.IntN(7200)) * time.Second)
	}
	return made
}

// TestEachSlotIsDecidedOnce looks at random times over days, with runs that are blocked at random: every slot is started
// or missed, and none twice.
func TestEachSlotIsDecidedOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		keeper := randomOperator(t, random)
		first := at(t, "2024-10-20T00:00Z").Add(time.Duration(random.Int64N(int64(14 * 24 * time.Hour))))
		keeper.plan.DecidedUntil = first
		now := first
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(time.Duration(1+random.IntN(180)) * time.Minute))))
			keeper.look(t, now, random.IntN(3) == 0)
		}
		for slot, times := range keeper.started {
			if times != 1 || !slot.After(first) {
				t.Errorf("seed %d: %s: the slot %s was started %d times", seed, keeper.calendar, slot, times)
			}
		}
		want := keeper.calendar.Between(first, keeper.plan.DecidedUntil, 1<<30)
		if got := len(keeper.started) + keeper.missed; got != want || keeper.steps != 0 {
			t.Errorf("seed %d: %s with %+v: %d started and %d missed of %d slots, %d steps of the clock",
				seed, keeper.calendar, keeper.plan, len(keeper.started), keeper.missed, want, keeper.steps)
		}
	}
}

// TestClockSteps sets the clock back and forward at random. A slot comes twice only after the clock was set back, and once
// the clock is right again, the next slot runs, however wrong it had been.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		keeper := randomOperator(t, random)
		now := at(t, "2024-10-20T00:00Z")
		keeper.plan.DecidedUntil = now
		for range 100 {
			now = now.Add(time.Duration(random.Int64N(int64(2 * time.Hour))))
			if random.IntN(10) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(96*time.Hour))) - 48*time.Hour)
			}
			steps := keeper.steps
			decision := keeper.look(t, now, random.IntN(3) == 0)
			if keeper.steps == steps && keeper.started[decision.Due] > 1 && steps == 0 {
				t.Errorf("seed %d: %s runs twice, and the clock was never seen to go back", seed, decision.Due)
			}
		}
		right := at(t, "2024-06-01T12:00Z") // far behind: whatever was decided lies ahead
		if decision := keeper.look(t, right, false); !decision.SteppedBack {
			t.Errorf("seed %d: decided until months ahead, and no word of it: %+v", seed, decision)
		}
		run := keeper.look(t, right, false).Next
		slot := run.Add(-keeper.plan.Spread)
		if decision := keeper.look(t, run, false); !decision.Due.Equal(slot) || keeper.started[slot] != 1 {
			t.Errorf("seed %d: %s does not run at %s once the clock is right: %+v", seed, keeper.calendar, run, decision)
		}
	}
}

func BenchmarkDecideIdle(b *testing.B) {
	slots, now := calendar(b, "0 2 * * *", "Europe/Paris"), at(b, "2026-03-01T12:00:30Z")
	for b.Loop() {
		Decide(slots, Plan{DecidedUntil: now.Add(-time.Minute)}, now)
	}
}

func BenchmarkDecideAYearOfMinutes(b *testing.B) {
	slots, now := calendar(b, "* * * * *", "Europe/Paris"), at(b, "2026-03-01T12:00:30Z")
	for b.Loop() {
		Decide(slots, Plan{DecidedUntil: now.AddDate(-1, 0, 0)}, now)
	}
}

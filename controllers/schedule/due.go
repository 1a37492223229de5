package schedule

import "time"

const (
	// MostMissed is how far missed slots are counted at once. A calendar of every minute has as many in a week.
	MostMissed = 10_000

	// clockSkew is how far the clocks of two machines may differ without anyone having set one of them: that of the API
	// server, which dates new objects, and those of the nodes that an operator moves between.
	clockSkew = time.Minute
)

// Plan is what is decided of a schedule, and how it runs.
type Plan struct {
	// DecidedUntil is the time up to which it is decided which slots were started or missed. Zero means that nothing is
	// decided yet, as of a schedule that is new, was edited or was suspended: what is past is then not made up for.
	DecidedUntil time.Time
	// Spread is the delay of each run after its slot.
	Spread time.Duration
	// Deadline is how long after that a run may still start. Nil means for ever.
	Deadline *time.Duration
}

// Decision is what a schedule has to do now. It is always one of three:
//
//   - Due is set. Who starts its run then persists DecidedUntil and adds Missed to the count. Who cannot start it, because
//     an earlier backup or a restore is at work, persists nothing and asks again later with the same plan: then the newest
//     slot of that time is due, and those before it are among the missed. So each slot is counted once.
//   - Due is zero, and DecidedUntil is not that of the plan: there is nothing to start, and DecidedUntil and Missed are
//     persisted at once.
//   - Due is zero, and DecidedUntil is that of the plan: there is nothing to do until Next.
//
// Start first and persist then. Where that is broken off between the two, the slot is due again, and its backup, whose
// name follows from the slot, is found and adopted.
type Decision struct {
	// Due is the slot to start. Zero: none.
	Due time.Time
	// Expires is when the deadline of Due ends: the last moment at which it may start. Zero: never.
	Expires time.Time
	// Missed is how many slots up to DecidedUntil are never started, and were not counted yet. It stops at MostMissed.
	Missed int
	// DecidedUntil is the time up to which slots are decided once the caller did what the decision says.
	DecidedUntil time.Time
	// Next is when the run of the first slot that is still to come starts, spread included. Zero: never.
	Next time.Time
	// SteppedBack says that the plan was decided until a time that is still to come: the clock was set back, or had been
	// wrong. What passed between comes again.
	SteppedBack bool
}

// Decide returns what a schedule has to do at a time. Times in the decision are in UTC.
func Decide(calendar Calendar, plan Plan, now time.Time) Decision {
	// A slot is past once its run may start.
	past := now.Add(-plan.Spread)
	switch {
	case plan.DecidedUntil.IsZero():
		return Decision{DecidedUntil: past.UTC().Truncate(time.Second), Next: nextRun(calendar, plan, past)}
	case plan.DecidedUntil.After(now.Add(clockSkew)):
		return Decision{DecidedUntil: lastDecided(calendar, past), Next: nextRun(calendar, plan, past), SteppedBack: true}
	}
	if !calendar.hasSlot(plan.DecidedUntil, past) {
		return Decision{DecidedUntil: plan.DecidedUntil, Next: nextRun(calendar, plan, plan.DecidedUntil)}
	}
	return decideNewest(calendar, plan, now, calendar.Latest(past))
}

// decideNewest decides a slot that is past and not decided, and with it those before it.
func decideNewest(calendar Calendar, plan Plan, now, newest time.Time) Decision {
	decision := Decision{Due: newest, DecidedUntil: newest, Next: nextRun(calendar, plan, newest)}
	missedUntil := newest.Add(-1)
	if plan.Deadline != nil {
		decision.Expires = newest.Add(plan.Spread + *plan.Deadline)
	}
	if plan.Deadline != nil && now.After(decision.Expires) {
		decision.Due, decision.Expires = time.Time{}, time.Time{}
		missedUntil = newest
	}
	decision.Missed = calendar.Between(plan.DecidedUntil, missedUntil, MostMissed)
	return decision
}

// nextRun returns when the run of the first slot after a time starts.
func nextRun(calendar Calendar, plan Plan, after time.Time) time.Time {
	slot := calendar.Next(after)
	if slot.IsZero() {
		return slot
	}
	return slot.Add(plan.Spread)
}

// lastDecided returns the newest slot that is past, or, where there is none, what is past.
func lastDecided(calendar Calendar, past time.Time) time.Time {
	if newest := calendar.Latest(past); !newest.IsZero() {
		return newest
	}
	return past.UTC().Truncate(time.Second)
}

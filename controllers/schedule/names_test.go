package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNames(t *testing.T) {
	t.Parallel()
	slot := at(t, "2024-03-31T03:00:00+02:00")
	if got := ChildName("nightly", slot); got != "nightly-20240331t0100z" {
		t.Errorf("got %s", got)
	}
	if got := RunNowName("nightly", "before the upgrade"); got != "nightly-run-4e0b531227" {
		t.Errorf("got %s", got)
	}
	long := strings.Repeat("orders.shop-", 16) + "nightly2"
	for _, name := range []string{ChildName(long, slot), RunNowName(long, "Ünicode / and \x00"), RunNowName("a.b", "")} {
		if problems := validation.IsDNS1123Subdomain(name); len(long) != 200 || len(problems) > 0 {
			t.Errorf("%s of %d characters: %v", name, len(long), problems)
		}
	}
	if RunNowName("nightly", "1") == RunNowName("nightly", "2") {
		t.Error("two ids have one name")
	}
}

// TestChildNamesDiffer goes through an autumn day: wall-clock times that are alike have names that are not.
func TestChildNamesDiffer(t *testing.T) {
	t.Parallel()
	slots, names := calendar(t, "* * * * *", "Europe/Paris"), map[string]time.Time{}
	end := at(t, "2024-10-27T23:00Z")
	for slot := slots.Next(at(t, "2024-10-26T22:00Z")); !slot.After(end); slot = slots.Next(slot) {
		name := ChildName("nightly", slot)
		if other, taken := names[name]; taken {
			t.Fatalf("%s is the name of %s and of %s", name, other, slot)
		}
		names[name] = slot
	}
	if len(names) != 24*60 {
		t.Errorf("%d names", len(names))
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int32]time.Duration{-1: 0, 0: 0, 1: 0, 600: 494 * time.Second} {
		if got := Spread("shop", "orders", seconds); got != want {
			t.Errorf("got %s within %d seconds, want %s", got, seconds, want)
		}
	}
	if Spread("a", "b-c", 86_400) == Spread("a-b", "c", 86_400) {
		t.Error("the namespace and the name are not told apart")
	}
}

// TestSpreadIsEven sorts 10,000 schedules into 100 parts of an hour. Of an even distribution chi-square, with 99 degrees of
// freedom, is over 149 in one case of a thousand.
func TestSpreadIsEven(t *testing.T) {
	t.Parallel()
	const names, parts, seconds = 10_000, 100, 3600
	var counts [parts]float64
	for i := range names {
		delay := Spread(fmt.Sprintf("team-%d", i%100), fmt.Sprintf("orders-%d", i/100), seconds)
		if delay < 0 || delay >= seconds*time.Second || delay%time.Second != 0 {
			t.Fatalf("delay %s", delay)
		}
		counts[int(delay/time.Second)*parts/seconds]++
	}
	chiSquare := 0.0
	for _, count := range counts {
		expected := float64(names) / parts
		chiSquare += (count - expected) * (count - expected) / expected
	}
	if chiSquare > 149 {
		t.Errorf("chi-square is %.0f: %v", chiSquare, counts)
	}
}

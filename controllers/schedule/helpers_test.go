package schedule

import (
	"testing"
	"time"
)

// at reads a time, such as 2024-03-31T01:00:00Z, where the seconds may be left out.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed
		}
	}
	t.Fatalf("%q is no time", text)
	return time.Time{}
}

// calendar reads a calendar that is sound.
func calendar(t testing.TB, expression, zone string) Calendar {
	t.Helper()
	parsed, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func show(times []time.Time) []string {
	texts := make([]string, len(times))
	for i, one := range times {
		texts[i] = one.UTC().Format(time.RFC3339)
	}
	return texts
}

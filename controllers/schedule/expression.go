package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/netresearch/go-cron"
)

// What is wrong with a calendar.
var (
	ErrInvalidSchedule = errors.New("invalid schedule")
	ErrInvalidTimeZone = errors.New("invalid time zone")
)

// maxExpression is the length that the API allows. An expression without repetitions is far shorter.
const maxExpression = 256

// field is one of the five of an expression.
type field struct {
	name      string
	low, high int
	names     []string // of its values, beginning with that of low
}

var fields = [...]field{
	{name: "minute", low: 0, high: 59},
	{name: "hour", low: 0, high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{name: "day of week", low: 0, high: 7, names: strings.Fields("sun mon tue wed thu fri sat")},
}

// wellKnown are the names that stand for expressions. The library has them too, beside @every, which counts from when
// the operator started and is no calendar.
var wellKnown = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// fieldItem is one of the items of a field: *, a value or a range, perhaps with a step.
var fieldItem = regexp.MustCompile(`^(?:\*|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:/([0-9]+))?$`)

// parser is the library's, without any of its extensions, and with the days of cron: either of the two day fields counts.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).
	WithMaxSearchYears(horizonYears)

// parseExpression returns the expression with single spaces, and its slots on a clock that never jumps.
func parseExpression(expression string) (string, cron.Schedule, error) {
	if len(expression) > maxExpression {
		return "", nil, fmt.Errorf("it has %d characters, and at most %d are allowed", len(expression), maxExpression)
	}
	words := strings.Fields(expression)
	expression = strings.Join(words, " ")
	plain, err := fiveFields(expression)
	if err != nil {
		return "", nil, fmt.Errorf("%q %w", expression, err)
	}
	wall, err := parser.Parse(plain)
	if err != nil {
		return "", nil, fmt.Errorf("%q: %w", expression, err)
	}
	if wall.Next(time.Unix(0, 0).UTC()).IsZero() {
		return "", nil, fmt.Errorf("%q never comes: no month of it has such a day", expression)
	}
	return expression, wall, nil
}

// fiveFields returns an expression of five sound fields in lower case, or what is wrong with it.
func fiveFields(expression string) (string, error) {
	switch {
	case wellKnown[expression] != "":
		return wellKnown[expression], nil
	case strings.Contains(strings.ToUpper(expression), "TZ="):
		return "", errors.New("holds a TZ= prefix: the time zone goes into spec.timeZone")
	case strings.HasPrefix(expression, "@"):
		return "", errors.New("is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually: write five fields, such as */30 * * * *")
	}
	// The library would take the H in THU for an extension of its own.
	words := strings.Fields(strings.ToLower(expression))
	if len(words) != len(fields) {
		return "", fmt.Errorf("has %d fields, and five are wanted: minute, hour, day of month, month, day of week", len(words))
	}
	for i, word := range words {
		for item := range strings.SplitSeq(word, ",") {
			if err := fields[i].check(item); err != nil {
				return "", err
			}
		}
	}
	return strings.Join(words, " "), nil
}

// check refuses what cron does not take. The library takes more: empty items, ranges that run backwards, question marks.
func (f field) check(item string) error {
	parts := fieldItem.FindStringSubmatch(item)
	if parts == nil {
		return fmt.Errorf("has %q as %s: write *, a value or a range, perhaps with a step, such as %d, %d-%d or */2",
			item, f.name, f.low+1, f.low+1, f.low+5)
	}
	low, err := f.value(parts[1])
	if err != nil {
		return err
	}
	if parts[2] == "" {
		return nil
	}
	high, err := f.value(parts[2])
	if err != nil {
		return err
	}
	if low > high {
		return fmt.Errorf("has the %s range %q, which runs backwards: write it as two, with a comma", f.name, item)
	}
	return nil
}

// value returns what a number or a name means. Nothing, which is a star, means the lowest value.
func (f field) value(text string) (int, error) {
	if text == "" {
		return f.low, nil
	}
	if i := slices.Index(f.names, text); i >= 0 {
		return f.low + i, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < f.low || value > f.high {
		return 0, fmt.Errorf("has %q as %s, which goes from %d to %d", text, f.name, f.low, f.high)
	}
	return value, nil
}

// zoneName is how IANA writes the names of zones. Zone directories hold files with other names too, such as localtime,
// which mean something else on each machine, and right/UTC, which counts leap seconds.
var zoneName = regexp.MustCompile(`^[A-Z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$`)

// zones holds the zones that were read, by name. It saves a copy of a zone's rules for each of thousands of calendars, and
// holds at most as many as exist.
var zones sync.Map

// parseZone returns a zone of the IANA database.
func parseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if name == "Local" || !zoneName.MatchString(name) {
		return nil, fmt.Errorf("%q is no name of the IANA time zone database: write one such as Europe/Paris or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil { // it says no more than that
		return nil, fmt.Errorf("%q is not in the IANA time zone database: write a name such as Europe/Paris or UTC", name)
	}
	zones.Store(name, zone)
	return zone, nil
}

package schedule

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// waitingIn reads backups such as "a/1@5", which began to wait in second 5.
func waitingIn(t *testing.T, text string) []Waiting {
	t.Helper()
	var all []Waiting
	for word := range strings.FieldsSeq(text) {
		var second int64
		name, age, _ := strings.Cut(word, "@")
		if _, err := fmt.Sscan(age, &second); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		namespace, name, _ := strings.Cut(name, "/")
		all = append(all, Waiting{Namespace: namespace, Name: name, UID: word, Created: time.Unix(second, 0)})
	}
	return all
}

func namesOf(admitted []Waiting) string {
	names := make([]string, len(admitted))
	for i, one := range admitted {
		names[i] = one.Namespace + "/" + one.Name
	}
	return strings.Join(names, " ")
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		running             map[string]int
		waiting             string
		total, perNamespace int
		want                string
	}{
		"nothing waits":             {nil, "", 3, 3, ""},
		"no limits":                 {nil, "a/1@3 a/2@1 b/1@2", 0, 0, "a/2 b/1 a/1"},
		"the oldest first":          {nil, "a/1@3 a/2@1 a/3@2", 2, 0, "a/2 a/3"},
		"in turns":                  {nil, "a/1@1 a/2@2 a/3@3 b/1@8 b/2@9", 4, 0, "a/1 b/1 a/2 b/2"},
		"the fewest at work first":  {map[string]int{"a": 1}, "a/1@1 b/1@9", 2, 0, "b/1"},
		"until it is level":         {map[string]int{"a": 2}, "a/1@1 b/1@7 b/2@8 b/3@9", 6, 0, "b/1 b/2 a/1 b/3"},
		"full":                      {map[string]int{"x": 3}, "a/1@1", 3, 0, ""},
		"overfull":                  {map[string]int{"x": 4}, "a/1@1", 3, 0, ""},
		"one limit per namespace":   {map[string]int{"a": 1}, "a/1@1 a/2@2 b/1@3 b/2@4 b/3@5", 0, 2, "b/1 a/1 b/2"},
		"a namespace is full":       {map[string]int{"a": 2}, "a/1@1 b/1@3", 0, 2, "b/1"},
		"both limits":               {map[string]int{"a": 1}, "a/1@1 a/2@2 b/1@3 b/2@4 c/1@9", 4, 2, "b/1 c/1 a/1"},
		"of equal age by namespace": {nil, "b/1@1 a/2@1 a/1@1", 2, 0, "a/1 b/1"},
		"namespaces that have none": {map[string]int{"a": 0, "z": 1}, "a/1@1", 2, 1, "a/1"},
		"a negative limit is none":  {nil, "a/1@1 a/2@2", -1, -1, "a/1 a/2"},
		"one among a thousand":      {map[string]int{"a": 3}, "a/1@1 a/2@1 a/3@1 a/4@1 b/1@99", 4, 0, "b/1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := namesOf(Admit(test.running, waitingIn(t, test.waiting), test.total, test.perNamespace))
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// admitOneByOne is the rule as it is written: each time, look at all and take the best.
func admitOneByOne(running map[string]int, waiting []Waiting, total, perNamespace int) []Waiting {
	running, waiting = maps.Clone(running), slices.Clone(waiting)
	atWork := 0
	for _, count := range running {
		atWork += count
	}
	var admitted []Waiting
	for len(waiting) > 0 && (total <= 0 || atWork < total) {
		best := slices.MinFunc(waiting, func(a, b Waiting) int {
			if running[a.Namespace] != running[b.Namespace] {
				return running[a.Namespace] - running[b.Namespace]
			}
			return compareWaiting(a, b)
		})
		if perNamespace > 0 && running[best.Namespace] >= perNamespace {
			break
		}
		running[best.Namespace]++
		atWork++
		admitted = append(admitted, best)
		waiting = slices.DeleteFunc(waiting, func(one Waiting) bool { return one == best })
	}
	return admitted
}

func TestAdmitProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		running := map[string]int{}
		var waiting []Waiting
		for i := range random.IntN(60) {
			namespace := string(rune('a' + random.IntN(6)))
			running[namespace] += random.IntN(10) / 9
			waiting = append(waiting, Waiting{namespace, fmt.Sprint(i), fmt.Sprint(i), time.Unix(random.Int64N(20), 0)})
		}
		total, perNamespace := random.IntN(12), random.IntN(5)
		before, atWork := slices.Clone(waiting), maps.Clone(running)
		got := Admit(running, waiting, total, perNamespace)
		if want := admitOneByOne(running, waiting, total, perNamespace); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %s, want %s", seed, namesOf(got), namesOf(want))
		}
		random.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		if again := Admit(running, waiting, total, perNamespace); !slices.Equal(got, again) {
			t.Fatalf("seed %d: in another order %s, before %s", seed, namesOf(again), namesOf(got))
		}
		slices.SortFunc(waiting, compareWaiting)
		slices.SortFunc(before, compareWaiting)
		if !slices.Equal(waiting, before) || !maps.Equal(running, atWork) {
			t.Fatalf("seed %d: the input was changed", seed)
		}
	}
}

// TestNobodyStarves lets one namespace bring in ten backups for each that ends: what others bring in starts with the next
// place that is free.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	const total = 4
	running, waiting := map[string]int{}, []Waiting(nil)
	for round := range 200 {
		for i := range 10 {
			waiting = append(waiting, Waiting{Namespace: "flood", Name: fmt.Sprint(round, "-", i), Created: time.Unix(int64(round), 0)})
		}
		single := Waiting{Namespace: fmt.Sprint("single-", round), Name: "only", Created: time.Unix(int64(round), 0)}
		waiting = append(waiting, single)
		admitted := Admit(running, waiting, total, 0)
		if len(admitted) == 0 || !slices.Contains(admitted, single) {
			t.Fatalf("round %d: %s starts, and the only one of a namespace waits", round, namesOf(admitted))
		}
		waiting = slices.DeleteFunc(waiting, func(one Waiting) bool { return slices.Contains(admitted, one) })
		// Those of others end at once. Of the flood, one ends when nothing else would.
		for _, one := range admitted {
			running[one.Namespace]++
		}
		maps.DeleteFunc(running, func(namespace string, _ int) bool { return namespace != "flood" })
		running["flood"] = min(running["flood"], total-1)
	}
}

func BenchmarkAdmit(b *testing.B) {
	var waiting []Waiting
	for i := range 10_000 {
		waiting = append(waiting, Waiting{Namespace: fmt.Sprint(i % 300), Name: fmt.Sprint(i), Created: time.Unix(int64(i%7), 0)})
	}
	for b.Loop() {
		Admit(nil, waiting, 0, 0)
	}
}

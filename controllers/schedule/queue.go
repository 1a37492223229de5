package schedule

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Waiting is a backup that waits for its turn.
type Waiting struct {
	Namespace, Name, UID string
	// Created is when it began to wait.
	Created time.Time
}

// Admit returns which of the waiting backups may start now, in this order: always the oldest of the namespace that has the
// fewest at work, so that a namespace with a thousand does not hold up one with a single one. Running is how many are at
// work in each namespace. Of total, the limit over all namespaces, and perNamespace, 0 means that there is no such limit.
func Admit(running map[string]int, waiting []Waiting, total, perNamespace int) []Waiting {
	free := len(waiting)
	if total > 0 {
		for _, count := range running {
			total -= count
		}
		free = min(free, max(total, 0))
	}
	lanes := lanesOf(running, waiting)
	if perNamespace > 0 {
		lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.running >= perNamespace })
	}
	heap.Init(&lanes)
	admitted := make([]Waiting, 0, free)
	for len(admitted) < free && len(lanes) > 0 {
		first := lanes[0]
		admitted = append(admitted, first.waiting[0])
		first.waiting = first.waiting[1:]
		first.running++
		if len(first.waiting) == 0 || first.running == perNamespace {
			heap.Pop(&lanes)
		} else {
			heap.Fix(&lanes, 0)
		}
	}
	return admitted
}

// lane is a namespace: what is at work in it and what waits, the oldest first.
type lane struct {
	running int
	waiting []Waiting
}

// lanesOf returns the namespaces in which something waits.
func lanesOf(running map[string]int, waiting []Waiting) lanes {
	byNamespace := make(map[string]*lane)
	var all lanes
	for _, one := range slices.SortedFunc(slices.Values(waiting), compareWaiting) {
		if byNamespace[one.Namespace] == nil {
			byNamespace[one.Namespace] = &lane{running: running[one.Namespace]}
			all = append(all, byNamespace[one.Namespace])
		}
		byNamespace[one.Namespace].waiting = append(byNamespace[one.Namespace].waiting, one)
	}
	return all
}

// compareWaiting orders by age. Names decide where that is equal, as it often is: creation times have whole seconds.
func compareWaiting(a, b Waiting) int {
	if age := a.Created.Compare(b.Created); age != 0 {
		return age
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// lanes is a heap whose first lane is the next to be served.
type lanes []*lane

func (l lanes) Len() int      { return len(l) }
func (l lanes) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *lanes) Push(x any)   { *l = append(*l, x.(*lane)) }
func (l lanes) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].running, l[j].running), compareWaiting(l[i].waiting[0], l[j].waiting[0])) < 0
}

// Pop takes the last of the slice, as package heap asks.
func (l *lanes) Pop() any {
	last := len(*l) - 1
	lane := (*l)[last]
	*l = (*l)[:last]
	return lane
}

//go:build bench

package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scaleReport is all that was measured of an operator with many objects.
type scaleReport struct {
	load            string // of the machine before anything was measured
	objects, due    int
	writesPerSecond float64
	first           start
	restarts        []start
	requests        map[string]float64 // a minute, by method; all of them under ""
	rested, busy    idle               // after the idle time, and after the slot
	slot            slot
	references      []time.Duration
}

func (r *scaleReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s, with %d BackupSchedules in %d namespaces and a finished DatabaseBackup of each. The machine's "+
		"load was %s when it began: above 1, the times say little. The API server took %.0f writes a second from a plain client.\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), cores("kube-apiserver and etcd"), r.objects, namespaces, r.load, r.writesPerSecond)
	r.rows(&b)
	return b.String()
}

// rows have two columns for what others measured, see docs/performance.md.
func (r *scaleReport) rows(b *strings.Builder) {
	t := table(b, "What", "Holdfast", "Aim", "snapscheduler", "K8up")
	slices.SortFunc(r.restarts, func(a, b start) int { return cmp.Compare(a.took, b.took) })
	quickest, middle, slowest := r.restarts[0], r.restarts[len(r.restarts)/2], r.restarts[len(r.restarts)-1]
	t(fmt.Sprintf("Start of the operator to the first look at all %d objects (range of %d), for which it took %.1f s of CPU",
		2*r.objects, len(r.restarts), middle.cpu.Seconds()),
		fmt.Sprintf("**%.1f s** (%.1f–%.1f)", middle.took.Seconds(), quickest.took.Seconds(), slowest.took.Seconds()), "≤ 20 s", "55 s", "> 120 s")
	t(fmt.Sprintf("The very first start, which writes the status of %d schedules: %.0f requests, %.1f s of CPU", r.objects, r.first.requests, r.first.cpu.Seconds()),
		fmt.Sprintf("%.1f s", r.first.took.Seconds()), "", "", "")
	t("Memory of the operator, its peak since a restart", "**"+mebibytes(r.rested.peak)+"**", "≤ 128 MiB", "76 MiB", "176 MiB and rising")
	t("Memory at rest; peak after the first start; peak after the slot below",
		mebibytes(r.rested.resident)+"; "+mebibytes(r.first.peak)+"; "+mebibytes(r.busy.peak), "", "", "")
	t(fmt.Sprintf("API requests a minute while nothing is due (PUT, which renews the lease: %.1f)", r.requests["PUT"]),
		fmt.Sprintf("**%.1f**", r.requests[""]), "≤ 20", "34", "")
	ours, plain := r.slot.last.Seconds(), r.reference()
	t(fmt.Sprintf("%d backups due in one slot: from the slot to the first, and to the last", r.due),
		fmt.Sprintf("%.2f s, **%.2f s**", r.slot.first.Seconds(), ours), "", "", "")
	t(fmt.Sprintf("The last, against a plain client that creates %d backups and writes %d statuses in %.2f s", r.due, r.due, plain),
		fmt.Sprintf("**%.2f**", ours/plain), "the API server's own time", "", "")
	t("Writes a second of the operator until then", fmt.Sprintf("%.0f", r.slot.requests/ours), "about 1,000", "", "")
	t(fmt.Sprintf("Requests until then, and until %.0f s later, when each backup that waits for a place says so", afterSlot.Seconds()),
		fmt.Sprintf("%.0f; %.0f", r.slot.requests, r.slot.all), "", "", "")
}

// reference is the mean of the plain client's times, in seconds.
func (r *scaleReport) reference() float64 {
	total := 0.0
	for _, took := range r.references {
		total += took.Seconds()
	}
	return total / float64(len(r.references))
}

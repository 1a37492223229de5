//go:build bench

package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
)

// report is all that was measured.
type report struct {
	load          string // of the machine before anything was measured
	databaseBytes int64
	artifact      *contract.Artifact
	backup        *backup
	restore       *restoration
	operator      idle
	large         *large
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s, with a database of %s whose `pg_dump -Fc -Z0` has %s; medians of %d rounds "+
		"(restore: %d; ways that take several times as long: 1). The machine's load was %s when it began: above 1, the times "+
		"say little.\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), cores("PostgreSQL 15 and MinIO"),
		mebibytes(r.databaseBytes), mebibytes(r.artifact.UncompressedBytes), len(r.backup.dump.runs), len(r.restore.load.runs), r.load)
	r.aims(&b)
	r.scale(&b)
	r.transfers(&b)
	r.memory(&b)
	return b.String()
}

// aims are the ratios that the project holds itself to. Each is the median of the rounds' own ratios.
func (r *report) aims(b *strings.Builder) {
	t := table(b, "What", "Against", "Ratio of wall time", "Range", "Aim")
	row := func(what, against, aim string, ours, theirs []*subject) {
		all := ratios(ours, theirs)
		t(what, against, fmt.Sprintf("**%.2f**", median(all)), fmt.Sprintf("%.2f–%.2f", slices.Min(all), slices.Max(all)), aim)
	}
	one := func(s ...*subject) []*subject { return s }
	const zstd, mc = "`pg_dump -Fc -Z0 \\| zstd -3 -T0 > file`", "`mc cp`, same file, same MinIO over TLS"
	row("Dump pipeline: dump, check, compress, hash, sync", zstd, "≤ 1.05", one(r.backup.pipeline), one(r.backup.zstdFile))
	row("Dump verb: the pipeline and the decode that proves it", zstd, "", one(r.backup.dump), one(r.backup.zstdFile))
	row("`storage.Put`", mc, "≤ 1.05", one(r.backup.put), one(r.backup.mc))
	row("Upload verb: hash, upload, read back, manifest", mc, "", one(r.backup.upload), one(r.backup.mc))
	row("Fetch and load verbs: download, verify, restore, check, swap", "`mc cp`, then `zstd -d \\| pg_restore`", "",
		one(r.restore.fetch, r.restore.load), one(r.restore.reference))
	b.WriteString("\n")
}

// scale shows all ways from a database to a file or to the store, against the dump alone.
func (r *report) scale(b *strings.Builder) {
	t := table(b, "From the database", "Raw dump = 1.00", "Wall, s", "CPU of clients, s", "Size")
	raw := r.backup.raw.median(wall)
	row := func(name string, subjects ...*subject) {
		if rounds(subjects) == 0 {
			t(name, "not installed", "", "", "")
			return
		}
		seconds, work, size := 0.0, 0.0, ""
		for _, s := range subjects {
			seconds, work = seconds+s.median(wall), work+s.median(cpu)
			if s.written() > 0 {
				size = mebibytes(s.written())
			}
		}
		clients := "" // unknown where only a part of a process is meant
		if work > 0 {
			clients = fmt.Sprintf("%.1f", work)
		}
		t(name, fmt.Sprintf("%.2f", seconds/raw), fmt.Sprintf("%.1f", seconds), clients, size)
	}
	row("`pg_dump -Fc -Z0 > /dev/null`", r.backup.raw)
	row("to a file: `pg_dump -Fc -Z0 \\| zstd -3 -T0`", r.backup.zstdFile)
	row("**to a file: Holdfast's pipeline**", r.backup.pipeline)
	row("to a file: Holdfast's pipeline at level 4", r.backup.level4)
	row("**to a file: Holdfast's dump verb, decoded once**", r.backup.dump)
	row("to the store: `pg_dump \\| zstd \\| mc pipe`", r.backup.zstdPipe)
	row("to the store: `pg_dump \\| zstd > file`, `mc cp`", r.backup.zstdMC)
	row("**to the store: Holdfast's dump and upload verbs, decoded once and read back**", r.backup.dump, r.backup.upload)
	row("to the store: `pg_dump \\| restic backup --stdin`", r.backup.restic)
	row("to the store: `pg_dump -Fc > file`, `mc cp`", r.backup.pgdump)
	row("to the store: `pg_dump \\| gzip > file`, `mc cp`", r.backup.gzip)
	b.WriteString("\n")
}

// transfers are the absolute times of the other steps.
func (r *report) transfers(b *strings.Builder) {
	t := table(b, "Step", "Wall, s", "CPU of clients, s")
	for _, s := range []*subject{r.backup.mc, r.backup.put, r.backup.upload, r.restore.reference, r.restore.fetch, r.restore.load} {
		t(strings.ReplaceAll(s.name, "|", `\|`), fmt.Sprintf("%.2f", s.median(wall)), fmt.Sprintf("%.2f", s.median(cpu)))
	}
	b.WriteString("\n")
}

func (r *report) memory(b *strings.Builder) {
	t := table(b, "Peak resident memory", "", "Aim")
	of := fmt.Sprintf(" verb, database of %s", mebibytes(r.databaseBytes))
	t("agent, dump"+of, mebibytes(r.backup.dump.peak()), "< 128 MiB")
	t("agent, upload"+of, mebibytes(r.backup.upload.peak()), "< 128 MiB")
	t("agent, fetch"+of, mebibytes(r.restore.fetch.peak()), "< 128 MiB")
	t("agent, load"+of, mebibytes(r.restore.load.peak()), "< 128 MiB")
	if r.large != nil {
		for _, s := range r.large.verbs {
			t(fmt.Sprintf("agent, %s verb, database of %s", s.name, mebibytes(r.large.databaseBytes)), mebibytes(s.peak()), "< 128 MiB")
		}
	}
	t("operator, idle (its peak since the start)", fmt.Sprintf("%s (%s)", mebibytes(r.operator.resident), mebibytes(r.operator.peak)), "< 64 MiB")
}

// table begins a table and returns what adds a row.
func table(b *strings.Builder, heads ...string) func(cells ...string) {
	add := func(cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	add(heads...)
	add(strings.Split(strings.Repeat("---\n", len(heads)-1)+"---", "\n")...)
	return add
}

// loadAverage of the last minute.
func loadAverage() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(raw), " ")
	return load
}

// cores says what the measurement ran on, and what else ran there.
func cores(servers string) string {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	model := "unknown processor"
	if _, rest, found := strings.Cut(string(cpuinfo), "model name\t: "); found {
		model, _, _ = strings.Cut(rest, "\n")
	}
	return fmt.Sprintf("%d cores (%s) that also ran %s", strings.Count(string(cpuinfo), "processor\t:"), model, servers)
}

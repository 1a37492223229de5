//go:build bench

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
)

// number of a variable, which is a whole number from least on.
func number(tb testing.TB, variable string, fallback, least int) int {
	tb.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		tb.Fatalf("%s=%q: a whole number from %d on is wanted", variable, text, least)
	}
	return n
}

// TestPerformance measures and writes the report. It fails only when something does not work, never for a time.
func TestPerformance(t *testing.T) {
	r := &report{load: loadAverage()}
	limit := time.Duration(number(t, "BENCH_MINUTES", 5, 1)) * time.Minute
	r.operator = measureOperator(t)
	w := newWorld(t, number(t, "BENCH_SIZE_MIB", 1100, 1))
	r.databaseBytes = w.databaseBytes()
	r.backup = w.measureBackup(number(t, "BENCH_ROUNDS", 5, 1), limit)
	r.artifact = w.stageForRestore()
	r.restore = w.measureRestore(number(t, "BENCH_RESTORE_ROUNDS", 3, 1), limit, r.artifact)
	if mib := number(t, "BENCH_LARGE_MIB", 0, 0); mib > 0 {
		r.large = measureLarge(t, mib)
	}
	if err := os.WriteFile(os.Getenv("BENCH_REPORT"), []byte(r.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// backup is everything about the way of a dump into the store.
type backup struct {
	raw, zstdFile                  *subject
	dump, pipeline, level4         *subject // level4 is the pipeline at zstd's level 4
	mc, put, upload                *subject
	zstdPipe, zstdMC, pgdump, gzip *subject
	restic                         *subject // no runs where restic is not installed
}

func (w *world) measureBackup(rounds int, limit time.Duration) *backup {
	staging := filepath.Join(w.dir, "staging")
	artifact := filepath.Join(staging, "artifact")
	b := &backup{
		raw:      w.reference("raw", rounds, "pg_dump -Fc -Z0 "+source+" >/dev/null", ""),
		zstdFile: w.reference("pg_dump | zstd > file", rounds, "pg_dump -Fc -Z0 "+source+" | zstd -q -3 -T0 >reference.zst", "reference.zst"),
		pipeline: &subject{name: "dump verb without its decode"},
		mc:       w.reference("mc cp", rounds, "mc cp --quiet "+artifact+" $BUCKET/mc >/dev/null", ""),
		zstdPipe: w.reference("pg_dump | zstd | mc pipe", rounds, "pg_dump -Fc -Z0 "+source+" | zstd -q -3 -T0 | mc pipe --quiet $BUCKET/pipe >/dev/null", ""),
		zstdMC: w.reference("pg_dump | zstd > file, mc cp", rounds,
			"pg_dump -Fc -Z0 "+source+" | zstd -q -3 -T0 >reference.zst; mc cp --quiet reference.zst $BUCKET/zstd >/dev/null", "reference.zst"),
		pgdump: w.reference("pg_dump -Fc > file, mc cp", 1, "pg_dump -Fc "+source+" >reference.dump; mc cp --quiet reference.dump $BUCKET/dump >/dev/null", "reference.dump"),
		gzip: w.reference("pg_dump | gzip > file, mc cp", 1,
			"pg_dump -Fc -Z0 "+source+" | gzip >reference.gz; mc cp --quiet reference.gz $BUCKET/gzip >/dev/null", "reference.gz"),
		restic: w.resticReference(),
	}
	b.dump = &subject{name: "dump verb", rounds: rounds, run: func(int) figure {
		took := w.dump(staging, 3)
		b.pipeline.runs = append(b.pipeline.runs, took.pipeline())
		return took.figure
	}}
	b.level4 = &subject{name: "dump verb at level 4, without its decode", rounds: min(rounds, 3), run: func(int) figure {
		took := w.dump(filepath.Join(w.dir, "level4"), 4)
		return took.pipeline()
	}}
	b.put = &subject{name: "storage.Put", rounds: rounds, run: func(int) figure {
		defer w.forget("put")
		return w.put("put", artifact)
	}}
	b.upload = &subject{name: "upload verb", rounds: rounds, run: func(int) figure {
		defer w.forget("upload", "upload.manifest.json") // else the verb finds it committed and does nothing
		return w.upload(staging, "upload").figure
	}}
	interleave(limit, b.raw, b.zstdFile, b.dump, b.level4, b.mc, b.put, b.upload, b.zstdPipe, b.zstdMC, b.pgdump, b.gzip, b.restic)
	return b
}

// reference is a shell line and the file that it makes, if it does.
func (w *world) reference(name string, rounds int, line, file string) *subject {
	return &subject{name: name, rounds: rounds, run: func(int) figure {
		took, _ := measure(w, w.shell(line))
		if file != "" {
			took.written = fileSize(w, filepath.Join(w.dir, file))
		}
		return took
	}}
}

func (w *world) resticReference() *subject {
	line := "pg_dump -Fc -Z0 " + source + " | restic backup --quiet --cacert $RESTIC_CACERT --no-cache --stdin --stdin-filename shop"
	s := w.reference("pg_dump | restic", 1, line, "")
	if _, err := exec.LookPath("restic"); err != nil {
		sayf("restic is not installed: its row is left out")
		s.rounds = 0
		return s
	}
	w.must(w.shell("restic init --quiet --cacert $RESTIC_CACERT --no-cache"))
	return s
}

const restoreKey = "restore/artifact"

// stageForRestore puts one artifact into the store, whose manifest makes it one that can be restored.
func (w *world) stageForRestore() *contract.Artifact {
	staging := filepath.Join(w.dir, "staging")
	w.upload(staging, restoreKey)
	return w.readStagedArtifact(staging)
}

// restoration is everything about the way of an artifact from the store into a fresh database.
type restoration struct{ reference, fetch, load *subject }

func (w *world) measureRestore(rounds int, limit time.Duration, artifact *contract.Artifact) *restoration {
	staging := filepath.Join(w.dir, "restored")
	line := "createdb reference; mc cp --quiet $BUCKET/" + restoreKey + " restored.zst >/dev/null; zstd -q -d -c restored.zst | pg_restore -d reference"
	reference := w.reference("mc cp, zstd -d | pg_restore", rounds, line, "")
	r := &restoration{
		reference: &subject{name: reference.name, rounds: rounds, run: func(round int) figure {
			defer w.postgres.Drop(w, "reference")
			return reference.run(round)
		}},
		fetch: &subject{name: "fetch verb", rounds: rounds, run: func(int) figure {
			if err := os.RemoveAll(staging); err != nil {
				w.Fatal(err)
			}
			return w.fetch(staging, restoreKey, artifact).figure
		}},
		load: &subject{name: "load verb", rounds: rounds, run: func(int) figure {
			defer w.postgres.Drop(w, "restored")
			return w.load(staging, "restored").figure
		}},
	}
	interleave(limit, r.reference, r.fetch, r.load)
	return r
}

// large is what the verbs need of memory for a larger database.
type large struct {
	databaseBytes int64
	verbs         []*subject
}

func measureLarge(tb testing.TB, mib int) *large {
	w := newWorld(tb, mib)
	staging := filepath.Join(w.dir, "staging")
	l := &large{databaseBytes: w.databaseBytes()}
	var artifact *contract.Artifact
	once := func(name string, run func() outcome) {
		s := &subject{name: name, rounds: 1, run: func(int) figure { return run().figure }}
		interleave(0, s)
		l.verbs = append(l.verbs, s)
	}
	once("dump", func() outcome { took := w.dump(staging, 3); artifact = took.result.Artifact; return took })
	once("upload", func() outcome { return w.upload(staging, restoreKey) })
	once("fetch", func() outcome { return w.fetch(staging+"2", restoreKey, artifact) })
	once("load", func() outcome { return w.load(staging+"2", "restored") })
	return l
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
